//! What the prompt cache holds of the recent conversations, as far as the answers say, and what was read from it since.

use std::sync::Arc;

use ah_conversation::{CacheMiss, Message, Usage};
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
    /// the cache although the request before had left it there.
    pub fn miss(
        &mut self,
        first: &Arc<Message>,
        body: Arc<Vec<Bytes>>,
        usage: &Usage,
    ) -> Option<CacheMiss> {
        let is_same = |known: &CachedPrefix| Arc::ptr_eq(&known.first, first);
        let former = self.0.iter().position(is_same).map(|at| self.0.remove(at));
        let read = usage.cache_read_input_tokens;
        let missed = former.as_ref().filter(|former| read < former.tokens);
        let miss = missed.map(|former| CacheMiss {
            expected: former.tokens,
            read,
            change: first_change(&former.body, &body),
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
