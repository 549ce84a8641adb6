//! Conversations as bytes, kept from request to request.
//!
//! Messages do not change, so neither do their bytes: what was encoded for one request is used again by the next, as
//! far as both begin with the same messages. So a turn costs what is new in it, however long the session. What the
//! bytes of a message are is each API's own affair. Nothing here does I/O.

use std::sync::Arc;

use ah_conversation::Message;

use crate::rope::Rope;

/// Conversations whose bytes are kept at a time: one session and its subagents share a provider.
const CONVERSATIONS: usize = 4;
/// What stands in the place of a user's message that is all white space, which servers refuse.
pub const EMPTY_MESSAGE: &str = "(empty message)";

/// The conversations that were sent last, the one used last at the end. With each message stands a mark: what has to
/// be known to go on after it.
#[derive(Debug, Default)]
pub struct Encoded<M> {
    conversations: Vec<Conversation<M>>,
}

/// The bytes of a conversation's messages.
#[derive(Debug, Default)]
pub struct Conversation<M> {
    messages: Vec<Known<M>>,
    bytes: Rope,
}

#[derive(Debug)]
struct Known<M> {
    message: Arc<Message>,
    /// How far the bytes have come with it.
    end: usize,
    mark: M,
}

impl<M: Copy + Default> Encoded<M> {
    /// The conversation of `messages`. For each one that was not sent before, `append` adds the bytes and moves the
    /// mark on.
    pub fn conversation(
        &mut self,
        messages: &[Arc<Message>],
        append: impl Fn(&Message, &mut M, &mut Rope),
    ) -> &Conversation<M> {
        let is_same = |known: &Conversation<M>| known.begins_like(messages);
        let mut conversation = match self.conversations.iter().position(is_same) {
            Some(index) => self.conversations.remove(index),
            None => Conversation::default(),
        };
        conversation.extend_to(messages, append);
        if self.conversations.len() == CONVERSATIONS {
            self.conversations.remove(0);
        }
        self.conversations.push(conversation);
        self.conversations.last().expect("just added")
    }
}

impl<M: Copy + Default> Conversation<M> {
    /// The mark of the last message.
    pub fn mark(&self) -> M {
        let last = self.messages.last();
        last.map(|known| known.mark).unwrap_or_default()
    }

    /// The bytes of all messages.
    pub fn bytes(&self) -> &Rope {
        &self.bytes
    }

    fn begins_like(&self, messages: &[Arc<Message>]) -> bool {
        match (self.messages.first(), messages.first()) {
            (Some(known), Some(first)) => Arc::ptr_eq(&known.message, first),
            _ => false,
        }
    }

    fn extend_to(
        &mut self,
        messages: &[Arc<Message>],
        append: impl Fn(&Message, &mut M, &mut Rope),
    ) {
        let known = self.messages.iter().zip(messages);
        let same = known.take_while(|(known, message)| Arc::ptr_eq(&known.message, message));
        let same = same.count();
        self.messages.truncate(same);
        let end = self.messages.last().map_or(0, |known| known.end);
        self.bytes.truncate(end);
        for message in &messages[same..] {
            let mut mark = self.mark();
            append(message, &mut mark, &mut self.bytes);
            self.bytes.seal();
            self.messages.push(Known {
                message: message.clone(),
                end: self.bytes.len(),
                mark,
            });
        }
    }
}
