//! Notes of what servers hold, for the process that goes on with a conversation after this one. Like what is held in memory, they
//! are hints: what is lost or out of date costs one request with all messages. Where they are kept is left to the caller.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_conversation::{Message, MessageId, json};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::held::{Head, Held, digest};

/// How long a note counts. Threads are held for minutes, and what is stored for 30 days (OpenAI's guide of conversation state, 2026);
/// who comes back after a day can wait for one request with all messages.
const COUNTS_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A place for notes, one for each conversation.
pub trait Notes: Send + Sync {
    /// Keeps the note of the conversation that begins with the message `first`, in the place of its last one.
    fn keep(&self, first: &MessageId, note: String);

    /// Returns the note of the conversation that begins with the message `first`.
    fn find(&self, first: &MessageId) -> Option<String>;
}

/// A note of what a server holds of a conversation. No text of it is in there.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Digest of the server's address, which may hold a password.
    server: String,
    answer: String,
    request_id: String,
    messages: usize,
    /// Digest of what stood before the messages.
    head: String,
    /// Digest of the messages.
    said: String,
    /// When the request was sent, in seconds since 1970.
    sent_at: u64,
}

/// The notes of the conversations with one server.
pub struct Noted {
    notes: Arc<dyn Notes>,
    server: String,
    /// The first messages of conversations of which this process knows more than the notes.
    known: Mutex<HashSet<MessageId>>,
}

impl Noted {
    /// The notes that `notes` keeps of the server at `address`.
    pub fn of(notes: Arc<dyn Notes>, address: &str) -> Self {
        Self {
            notes,
            server: digest(address.as_bytes()),
            known: Mutex::default(),
        }
    }

    /// Keeps a note of what the server holds of the conversation that begins with `first`; `said` is the digest of its messages.
    pub fn keep(&self, first: &Message, held: &Held, said: String) {
        self.is_new(first);
        let age = held.at.elapsed().as_secs();
        let note = Note {
            server: self.server.clone(),
            answer: held.answer.clone(),
            request_id: held.request_id.clone(),
            messages: held.messages,
            head: held.head.digest(),
            said,
            sent_at: now().saturating_sub(age),
        };
        if let Ok(text) = serde_json::to_string(&note) {
            self.notes.keep(&first.id, text);
        }
    }

    /// Returns what another process has noted of the conversation that begins with `first`, if this one asks for the first time.
    pub fn find(&self, first: &Message) -> Option<Held> {
        if !self.is_new(first) {
            return None;
        }
        let note: Note = json::from_str(&self.notes.find(&first.id)?).ok()?;
        let age = Duration::from_secs(now().checked_sub(note.sent_at)?);
        let counts = age < COUNTS_FOR && note.server == self.server;
        let held = || {
            Some(Held {
                answer: note.answer,
                request_id: note.request_id,
                messages: note.messages,
                head: Head::Digest(note.head),
                said: Some(note.said),
                at: Instant::now().checked_sub(age)?,
            })
        };
        counts.then(held)?
    }

    fn is_new(&self, first: &Message) -> bool {
        let mut known = self.known.lock();
        known.insert(first.id.clone())
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
