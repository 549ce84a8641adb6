//! Settings of the exchange with model servers: the prompt cache, and patience.

use std::num::NonZero;

use ah_provider::caching::CacheTtl;
use ah_provider::held::ConversationState;
use serde_json::value::RawValue;

use super::file::File;
use super::group::{Setter, first, group, in_force, put_in_force};
use crate::entry::{SettingEntry, entry};
use crate::error::Error;
use crate::origin::{Origin, Sourced};

group! {
    /// The exchange with model servers; what is not set has the defaults of the provider.
    ExchangeSettings => ExchangeConfig {
        /// How long the server keeps what requests leave in the prompt cache, counted from its last use. Writing for an hour
        /// costs 2 times the price of input, for five minutes 1.25 times.
        cache_ttl: CacheTtl = "cacheTtl", Anyone, {"enum": ["5m", "1h"], "default": "5m"};
        /// Whether the server writes the summary of a long conversation, where it offers that (Messages API).
        server_compaction: bool = "serverCompaction", Anyone, {"type": "boolean", "default": false};
        /// Whether servers hold a conversation for some minutes, so that requests send only what is new (Messages API: message
        /// threads). `auto`: those of vendors, at their own addresses; `on`: all, which is safe only if no gateway between leaves
        /// out what it does not know; `off`: none, as zero data retention demands. A project can set it only where it is trusted.
        conversation_state: ConversationState = "conversationState", User, {"enum": ["auto", "on", "off"], "default": "auto"};
        /// Whether models answer up to 2.5 times as fast at twice the price, where they do so (Messages API: Opus since 5, Fable
        /// and Mythos since 5.2). A project can set it only where it is trusted.
        fast_mode: bool = "fastMode", User, {"type": "boolean", "default": false};
        /// How many small requests bridge a pause at most, so that the conversation stays in the prompt cache, each for one
        /// lifetime; 0: none. One is sent within half an hour, and only where its price is known and it is expected to save
        /// more. Unset, that is the only limit in a conversation at a terminal, and elsewhere none is sent. They cost money while
        /// nobody is there, so a project can set it only where it is trusted.
        keep_warm: u32 = "keepWarm", User, {"type": "integer", "minimum": 0};
        /// How many seconds a server may take until the first event of an answer.
        first_event_timeout: NonZero<u64> = "firstEventTimeout", Anyone, {"type": "integer", "minimum": 1, "default": 300};
        /// How many seconds a server may be silent within an answer.
        next_event_timeout: NonZero<u64> = "nextEventTimeout", Anyone, {"type": "integer", "minimum": 1, "default": 120};
    }
}
