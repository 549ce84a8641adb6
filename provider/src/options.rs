//! Options for connecting to a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::Environment;

use crate::auth::KeySource;
use crate::caching::CacheTtl;
use crate::catalog::Catalog;
use crate::exchange::Timeouts;
use crate::fact::KeepFact;
use crate::held::ConversationState;
use crate::named_server::NamedServer;
use crate::note::Notes;
use crate::retry::Policy;

/// Options for [`connect`](crate::connect), besides the model's name.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Environment variables with keys and addresses.
    pub environment: &'a Environment,
    /// Limits, prices and aliases of models.
    pub catalog: &'a Catalog,
    /// Servers that the settings define, by name.
    pub servers: &'a BTreeMap<String, NamedServer>,
    /// Makes a key source of a command and the name of its setting. It is given by the caller because this crate starts
    /// no programs.
    pub key_source: &'a (dyn Fn(&str, &str) -> Arc<dyn KeySource> + Send + Sync),
    /// Proxies, certificates and timeouts of connections.
    pub http: &'a ah_http::Options,
    /// Beta features of the API to request.
    pub betas: &'a [String],
    /// Output limit in tokens, if set; reduced to the limit of the model.
    pub max_output: Option<u64>,
    /// Keeps what servers show of their models; without it, none is asked for its window.
    pub keep_fact: Option<&'a KeepFact>,
    /// Keeps notes of the conversations that servers hold; without it, none outlives the process.
    pub notes: Option<&'a Arc<dyn Notes>>,
    /// Lifetime of what requests leave in the prompt cache.
    pub cache_ttl: CacheTtl,
    /// Whether servers hold conversations.
    pub conversation_state: ConversationState,
    /// Whether summaries are left to servers that write them.
    pub server_compaction: bool,
    /// Whether models answer faster that do so at a higher price.
    pub fast_mode: bool,
    /// How often a pause of a conversation is bridged by a request that keeps it in the prompt cache.
    pub keep_warm: u32,
    /// Timeouts of a server's answer.
    pub timeouts: Timeouts,
    /// Retries of failed requests.
    pub retry: Policy,
    /// Seed of the jitter between retries.
    pub seed: u64,
}
