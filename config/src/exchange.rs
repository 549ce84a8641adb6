//! Configuration of the exchange with model servers: the prompt cache, and patience.

use std::num::NonZero;

use ah_provider::caching::CacheTtl;
use serde_json::{Value, json};

use crate::first::First;
use crate::origin::{Origin, Sourced};

/// Configuration of the exchange with model servers; what is not set has the defaults of the provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExchangeConfig {
    /// Lifetime of what requests leave in the prompt cache.
    pub cache_ttl: Option<Sourced<CacheTtl>>,
    /// Whether summaries are left to servers that write them.
    pub server_compaction: Option<Sourced<bool>>,
    /// Whether models answer faster that do so at a higher price.
    pub fast_mode: Option<Sourced<bool>>,
    /// How often a pause is bridged by a request that keeps the conversation in the prompt cache.
    pub keep_warm: Option<Sourced<u32>>,
    /// Time in seconds until the first event of an answer.
    pub first_event_timeout: Option<Sourced<NonZero<u64>>>,
    /// Time in seconds until each further event.
    pub next_event_timeout: Option<Sourced<NonZero<u64>>>,
}

impl ExchangeConfig {
    pub(crate) fn of(first: &First<'_>) -> Self {
        Self {
            cache_ttl: first.value(|settings| settings.cache_ttl),
            server_compaction: first.value(|settings| settings.server_compaction),
            fast_mode: first.value(|settings| settings.fast_mode),
            keep_warm: first.value(|settings| settings.keep_warm),
            first_event_timeout: first.value(|settings| settings.first_event_timeout),
            next_event_timeout: first.value(|settings| settings.next_event_timeout),
        }
    }

    /// Returns key, value and origin of the settings in force.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, Value, &Origin)> {
        let ttl = self.cache_ttl.iter();
        let ttl = ttl.map(|set| ("cacheTtl", json!(set.value), &set.origin));
        let flags = [
            ("serverCompaction", &self.server_compaction),
            ("fastMode", &self.fast_mode),
        ];
        let flags = flags.into_iter().filter_map(|(key, set)| {
            let set = set.as_ref()?;
            Some((key, json!(set.value), &set.origin))
        });
        let times = self.keep_warm.iter();
        let times = times.map(|set| ("keepWarm", json!(set.value), &set.origin));
        let timeouts = [
            ("firstEventTimeout", &self.first_event_timeout),
            ("nextEventTimeout", &self.next_event_timeout),
        ];
        let timeouts = timeouts.into_iter().filter_map(|(key, set)| {
            let set = set.as_ref()?;
            Some((key, json!(set.value), &set.origin))
        });
        ttl.chain(flags).chain(times).chain(timeouts)
    }
}
