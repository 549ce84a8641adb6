//! What the prompt cache holds of the recent conversations, as far as the answers say, and what was read from it since.

use std::sync::Arc;

use ah_conversation::{CacheMiss, Message, Model, Role, Usage};
use bytes::Bytes;

use crate::caching::first_change;

/// Number of conversations that are kept: a session and its subagents share a provider.
const CONVERSATIONS: usize = 4;

/// The cached prefixes of recent conversations, the latest at the end.
#[derive(Debug, Default)]
pub struct CachedPrefixes(Vec<CachedPrefix>);

/// The last request of a conversation.
#[derive(Debug)]
struct CachedPrefix {
    first: Arc<Message>,
    /// Its body, in pieces that are shared with the encoder.
    body: Arc<Vec<Bytes>>,
    /// Tokens of it that are in the cache.
    tokens: u64,
}

impl CachedPrefixes {
    /// Notes the answer to the request `body` of the conversation that begins with `first`; returns what was not read from
    /// the cache although the request before had left it there. `left` are the tokens that the one before this process had
    /// left there, see [`left_by_last`].
    pub fn miss(
        &mut self,
        first: &Arc<Message>,
        body: Arc<Vec<Bytes>>,
        usage: &Usage,
        left: Option<u64>,
    ) -> Option<CacheMiss> {
        let is_same = |known: &CachedPrefix| Arc::ptr_eq(&known.first, first);
        let former = self.0.iter().position(is_same).map(|at| self.0.remove(at));
        let read = usage.cache_read_input_tokens;
        let expected = former.as_ref().map(|former| former.tokens).or(left);
        let miss = expected.filter(|expected| read < *expected);
        let miss = miss.map(|expected| CacheMiss {
            expected,
            read,
            // A request of another process began with the same stored messages.
            change: former.and_then(|former| first_change(&former.body, &body)),
        });
        if self.0.len() == CONVERSATIONS {
            self.0.remove(0);
        }
        self.0.push(CachedPrefix {
            first: first.clone(),
            body,
            tokens: read + usage.cache_creation_input_tokens,
        });
        miss
    }
}

/// Returns the tokens that the request before the last answer had left in the cache, if `model` gave that answer behind the
/// message with which the conversation begins now.
pub fn left_by_last(messages: &[Arc<Message>], model: &Model) -> Option<u64> {
    let answer = { messages.iter() }.rfind(|message| message.role == Role::Assistant)?;
    let is_behind = messages.first()?.seq < answer.seq;
    let response = answer.response.as_ref()?;
    let is_own = answer.was_written_by(&model.provider, &model.name);
    let usage = response.usage;
    (is_own && is_behind)
        .then_some(usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
}
