//! What the server remembers, and what it decides to answer.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use ah_provider::script::format::Turn;
use ah_provider::script::play::TurnContext;
use serde_json::Value;

use super::given::Given;
use super::messages::threads::Threads;
use super::protocol::{Protocol, Stream};
use super::received::Received;
use super::refusal::Refusal;
use super::responses::held::Chains;

/// What the server remembers.
#[derive(Default)]
pub struct Log {
    /// All requests so far.
    pub received: Vec<Received>,
    /// The turn that is next.
    pub next: usize,
    /// What it has given to clients.
    pub given: Given,
    /// Threads that it holds.
    pub threads: Threads,
    /// Chains of answers that it holds.
    pub chains: Chains,
    /// How many WebSockets were asked for.
    pub sockets_wanted: usize,
    /// Failing turns that were already played.
    pub spent: HashSet<usize>,
}

impl Log {
    /// Returns a request with what is held put before it; `None` if it has everything.
    ///
    /// # Errors
    /// If what it continues is not held.
    pub fn whole(
        &self,
        protocol: Option<Protocol>,
        headers: &BTreeMap<String, String>,
        client: Option<SocketAddr>,
        body: &Value,
    ) -> Result<Option<Value>, Refusal> {
        match protocol {
            Some(Protocol::Responses) => self.chains.whole(client, body),
            _ => self.threads.whole(headers, body),
        }
    }
}

/// Response to a request.
pub enum Reply<'a> {
    /// An error.
    Refuse(Refusal),
    /// A turn, with the tokens of the request, if the server counts them.
    Play(&'a Turn, Box<(TurnContext, Option<u64>)>, Stream),
}
