//! Conversations that a server holds, so that requests send only what is new.
//!
//! What a server holds is a hint and never the truth: it may forget at any time, and then the whole conversation is sent
//! again. The hint is dropped as soon as anything differs: another beginning of the request, another history, an answer that
//! did not end. Nothing here does I/O.

use std::sync::Arc;

use ah_conversation::{ErrorClass, Message, ProviderError, StopReason, StreamEvent};
use bytes::Bytes;
use ring::digest;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Whether servers hold conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationState {
    /// Those of vendors that offer it do, at their own addresses. What stands between may leave out the field that asks for it, and
    /// the model would not know the conversation.
    #[default]
    Auto,
    /// All do whose API has it.
    On,
    /// None do.
    Off,
}

/// What a server holds of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The server's name of its last answer, which it holds with all before.
    pub answer: String,
    /// The server's id of the request, by which the message with the answer is known.
    pub request_id: String,
    /// Number of messages that the request had.
    pub messages: usize,
    /// What stood before the messages in a body with all of them.
    pub head: Head,
    /// Digest of the messages, as another process has noted it. In this one, they are known to be the same.
    pub said: Option<String>,
    /// When the request was sent.
    pub at: Instant,
}

/// The beginning of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// The beginning itself.
    Bytes(Bytes),
    /// Its digest, as another process has noted it.
    Digest(String),
}

impl Head {
    /// Returns whether `bytes` are the beginning.
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes(own) => own == bytes,
            Self::Digest(own) => *own == digest(bytes),
        }
    }

    /// Returns its digest.
    pub fn digest(&self) -> String {
        match self {
            Self::Bytes(own) => digest(own),
            Self::Digest(own) => own.clone(),
        }
    }
}

/// The body of a request to a server that is asked to hold the conversation.
#[derive(Debug)]
pub struct HeldBody {
    /// The body, in pieces.
    pub body: Vec<Bytes>,
    /// What the server holds besides; `None` if the body has everything.
    pub rest_of: Option<Held>,
}

/// Gathers from the events of an answer what the server holds after it.
#[derive(Debug)]
pub(crate) struct Gathered {
    answer: String,
    request_id: String,
    head: Bytes,
    at: Instant,
    /// Whether the answer is in the conversation as the server has it.
    is_kept: bool,
}

impl Gathered {
    /// Begins with a request whose body with all messages begins with `head`.
    pub(crate) fn new(head: Bytes) -> Self {
        Self {
            answer: String::new(),
            request_id: String::new(),
            head,
            at: Instant::now(),
            is_kept: false,
        }
    }

    /// Notes an event of the answer.
    pub(crate) fn note(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Accepted { request_id } => self.request_id.clone_from(request_id),
            StreamEvent::Started { id, .. } => self.answer.clone_from(id),
            StreamEvent::Stopping { stop_reason, .. } => {
                self.is_kept = matches!(
                    stop_reason,
                    StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence
                );
            }
            _ => {}
        }
    }

    /// Returns what the server holds after the answer to a request with so many messages has ended.
    pub(crate) fn held(self, messages: usize) -> Option<Held> {
        let is_known = !self.answer.is_empty() && !self.request_id.is_empty();
        (is_known && self.is_kept).then(|| Held {
            answer: self.answer,
            request_id: self.request_id,
            messages,
            head: Head::Bytes(self.head),
            said: None,
            at: self.at,
        })
    }
}

/// Returns the digest of `bytes` as text.
pub(crate) fn digest(bytes: &[u8]) -> String {
    digest_of([bytes])
}

/// Returns the digest of all `pieces` together as text.
pub(crate) fn digest_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    pieces.into_iter().for_each(|piece| context.update(piece));
    let digest = context.finish();
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    hex.collect()
}

/// Whether a server that was sent the rest of a conversation may have forgotten the beginning. Whatever else it refuses is
/// told more clearly when it has all.
pub(crate) fn may_be_forgotten(error: &ProviderError) -> bool {
    matches!(error.status, Some(400 | 404 | 409 | 422))
}

/// Whether a server has not looked at the request, so that it holds what it held.
pub(crate) fn is_untouched(error: &ProviderError) -> bool {
    matches!(error.class, ErrorClass::Overloaded | ErrorClass::RateLimit) && error.status.is_some()
}

/// Returns whether `answer` is the message of the answer that the server holds.
pub(crate) fn is_answer(answer: &Arc<Message>, held: &Held) -> bool {
    let id = { answer.response.as_ref() }.and_then(|response| response.request_id.as_deref());
    id == Some(&held.request_id)
}
