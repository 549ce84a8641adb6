//! A change to a session, and its form in a log.

use std::sync::Arc;

use ah_conversation::{Branch, Message, MessageId, Record};

/// One change, as a log keeps it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// The change as JSON. It says nothing of tables, so their migrations do not concern it.
    pub body: String,
    /// Large contents that the body names by their hash.
    pub blobs: Vec<Blob>,
    /// Ids of its messages.
    pub messages: Vec<MessageId>,
    /// Cost of its model calls, in 10⁻¹² US dollars.
    pub cost: i64,
}

/// A content that is stored once, however often it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 in lower-case hexadecimal.
    pub hash: String,
    /// The content.
    pub content: Vec<u8>,
}

/// A whole session, as files.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Image {
    /// The database.
    pub database: Vec<u8>,
    /// The files beside it: names and contents.
    pub outputs: Vec<(String, Vec<u8>)>,
    /// The messages of the main conversation, for those who read the log alone.
    pub messages: Vec<Arc<Message>>,
    /// Cost of its model calls, in 10⁻¹² US dollars.
    pub cost: i64,
}

/// A change to a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Records of the main conversation, or of a subagent's.
    Append(Option<Branch>, Vec<Record>),
    /// Another message is the current one.
    Checkout(MessageId),
    /// A message is deleted.
    Delete(MessageId),
    /// A message is deleted with its descendants.
    DeleteSubtree(MessageId),
    /// A value of the session's context.
    Context(String, String),
    /// A session that was elsewhere takes the place of an empty one.
    Whole(Arc<Image>),
}
