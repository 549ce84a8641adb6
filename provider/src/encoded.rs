//! A cache of encoded conversations.
//!
//! Messages do not change, so neither do their bytes: a request reuses the bytes of the previous one for the messages
//! that both begin with. The cost of a turn therefore depends on its new messages, not on the length of the session. How
//! a message is encoded is left to each API. Nothing here does I/O.

use std::sync::Arc;

use ah_conversation::Message;

use crate::rope::Rope;

/// Number of conversations that are kept: a session and its subagents share a provider.
const CONVERSATIONS: usize = 4;
/// Replacement for a user message of white space only, which servers reject.
pub const EMPTY_MESSAGE: &str = "(empty message)";

/// The most recent conversations, the latest at the end. A mark of type `M` is kept with each message: the state of the
/// encoder after it.
#[derive(Debug, Default)]
pub struct Encoded<M> {
    conversations: Vec<Conversation<M>>,
}

/// The encoded messages of a conversation.
#[derive(Debug, Default)]
pub struct Conversation<M> {
    messages: Vec<EncodedMessage<M>>,
    bytes: Rope,
}

#[derive(Debug)]
struct EncodedMessage<M> {
    message: Arc<Message>,
    /// Length of the bytes up to its end.
    end: usize,
    mark: M,
}

impl<M: Copy + Default> Encoded<M> {
    /// Returns the encoded conversation of `messages`. For each new message, `append` adds its bytes and updates the mark.
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
    /// Returns the mark of the last message.
    pub fn mark(&self) -> M {
        self.messages
            .last()
            .map(|known| known.mark)
            .unwrap_or_default()
    }

    /// Returns the bytes of all messages.
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
        let same = self
            .messages
            .iter()
            .zip(messages)
            .take_while(|(known, message)| Arc::ptr_eq(&known.message, message))
            .count();
        self.messages.truncate(same);
        let end = self.messages.last().map_or(0, |known| known.end);
        self.bytes.truncate(end);
        for message in &messages[same..] {
            let mut mark = self.mark();
            append(message, &mut mark, &mut self.bytes);
            self.bytes.seal();
            self.messages.push(EncodedMessage {
                message: message.clone(),
                end: self.bytes.len(),
                mark,
            });
        }
    }
}
