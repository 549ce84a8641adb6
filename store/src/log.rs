//! Port: sessions whose truth is a log elsewhere, so that several machines can continue them.
//!
//! What a run reads is a copy in memory, made by repeating the log. Each change is made in the copy first, which checks
//! it, and then committed to the log; only then is it acknowledged. A copy whose commit failed is ahead of the log: it
//! answers nothing more, and whoever opens the session next repeats the log. So all that reads a session, tree and
//! view, is the same over every log.

mod entry;
mod stored;

use std::fmt;

use ah_conversation::{Mail, MailKind, MessageId, StoreError};
use async_trait::async_trait;

pub use entry::{Blob, Entry};
pub(crate) use entry::{Change, Image};
pub use stored::messages;
pub(crate) use stored::{blob, decode, encode, hashes};

/// A session's log and mail, held for writing under a lease.
#[async_trait]
pub trait Log: Send + Sync + fmt::Debug {
    /// Returns what names the log in errors.
    fn name(&self) -> &str;

    /// Returns the bodies of all entries, oldest first.
    async fn entries(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the content with this SHA-256.
    async fn blob(&self, hash: &str) -> Result<Vec<u8>, StoreError>;

    /// Adds an entry durably, in one transaction with its blobs and the consumption of the mail among its messages. It
    /// fails if another writer has taken over the session.
    async fn commit(&self, entry: Entry) -> Result<(), StoreError>;

    /// Returns the mail of this kind that is not consumed, oldest first.
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError>;

    /// Queues a message durably.
    async fn send(&self, id: &MessageId, kind: MailKind, text: &str) -> Result<(), StoreError>;

    /// Removes a queued message unless it is consumed; returns whether it was removed.
    async fn withdraw(&self, id: &MessageId) -> Result<bool, StoreError>;
}
