//! A cache of encoded conversations.
//!
//! Messages do not change, so neither do their bytes: a request reuses the bytes of the previous one for the messages
//! that both begin with. The cost of a turn therefore depends on its new messages, not on the length of the session. How
//! a message is encoded is left to each API. Nothing here does I/O.

use std::cell::OnceCell;
use std::sync::Arc;

use ah_conversation::Message;
use bytes::Bytes;

use crate::held::{Held, digest_of, is_answer};
use crate::rope::{BETWEEN, Rope};

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
    /// What the server holds of them.
    held: Option<Held>,
}

#[derive(Debug)]
struct EncodedMessage<M> {
    message: Arc<Message>,
    /// Length of the bytes up to its end.
    end: usize,
    mark: M,
    /// The digest of its bytes and of that of the message before it, once it was asked for.
    said: OnceCell<String>,
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

    /// Notes what the server holds of the conversation that begins with `first`.
    pub fn hold(&mut self, first: &Arc<Message>, held: Held) {
        let known = { self.conversations.iter_mut() }.rfind(|known| known.begins_with(first));
        if let Some(known) = known.filter(|known| known.messages.len() >= held.messages) {
            known.held = Some(held);
        }
    }

    /// Returns the digest of the first messages of the conversation that begins with `first`, so many of them.
    pub fn said(&self, first: &Arc<Message>, messages: usize) -> Option<String> {
        let known = { self.conversations.iter() }.rfind(|known| known.begins_with(first))?;
        known.said(messages)
    }

    /// Takes what the server holds of the conversation of `messages`, which was just encoded, with the offset of the bytes behind
    /// it. `head` stands before them. It is taken, since a request may continue it only once.
    pub fn take_held(
        &mut self,
        messages: &[Arc<Message>],
        head: &[u8],
    ) -> Option<(Held, &Conversation<M>, usize)> {
        let conversation = self.conversations.last_mut()?;
        if !conversation.begins_like(messages) {
            return None;
        }
        let held = conversation.held.take()?;
        let answer = conversation.messages.get(held.messages)?;
        let has_more = conversation.messages.len() > held.messages + 1;
        let is_said = held.said.is_none() || held.said == conversation.said(held.messages);
        let is_same = held.head.is(head) && is_answer(&answer.message, &held) && is_said;
        let end = answer.end;
        (is_same && has_more).then_some((held, &*conversation, end))
    }
}

impl Encoded<()> {
    /// Like [`Self::take_held`], with the bytes of the new messages, between two of which stands a comma.
    pub fn take_rest(
        &mut self,
        messages: &[Arc<Message>],
        head: &[u8],
    ) -> Option<(Held, Vec<Bytes>)> {
        let (held, conversation, end) = self.take_held(messages, head)?;
        let bytes = conversation.bytes();
        let rest = || bytes.split_by(end + BETWEEN.len(), &[], "");
        bytes.has_at(end, BETWEEN).then(|| (held, rest()))
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

    /// Returns the digest of the first messages, so many of them: that of each one continues the one before, so that what was
    /// said long ago is not read again.
    fn said(&self, messages: usize) -> Option<String> {
        let said = self.messages.get(..messages)?;
        let known = said.iter().rposition(|it| it.said.get().is_some());
        let (mut end, mut digest) = match known {
            Some(at) => (said[at].end, said[at].said.get()?),
            None => (0, &String::new()),
        };
        for message in &said[known.map_or(0, |at| at + 1)..] {
            let bytes = self.bytes.between(end, message.end);
            let before = [digest.as_bytes()];
            let next = digest_of(before.into_iter().chain(bytes));
            (end, digest) = (message.end, message.said.get_or_init(|| next));
        }
        (!said.is_empty()).then(|| digest.clone())
    }

    fn begins_like(&self, messages: &[Arc<Message>]) -> bool {
        messages
            .first()
            .is_some_and(|first| self.begins_with(first))
    }

    fn begins_with(&self, first: &Arc<Message>) -> bool {
        let known = self.messages.first();
        known.is_some_and(|known| Arc::ptr_eq(&known.message, first))
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
        self.held.take_if(|held| held.messages > same);
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
                said: OnceCell::new(),
            });
        }
    }
}
