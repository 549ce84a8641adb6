//! What the server remembers, and what it decides to answer.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use ah_provider::script::format::Turn;
use ah_provider::script::play::TurnContext;
use serde_json::Value;

use super::given::Given;
use super::interactions;
use super::messages::threads::Threads;
use super::protocol::{Protocol, Stream};
use super::received::Received;
use super::refusal::Refusal;
use super::responses::held::Chains;
use super::stored::Stored;

/// What the server remembers.
#[derive(Default)]
pub struct Log {
    /// All requests so far.
    pub received: Vec<Received>,
    /// Whether only the size of a request is kept once the next has come.
    pub keeps_sizes: bool,
    /// The turn that is next.
    pub next: usize,
    /// What it has given to clients.
    pub given: Given,
    /// Threads that it holds.
    pub threads: Threads,
    /// Chains of answers that it holds.
    pub chains: Chains,
    /// Interactions that it stores.
    pub interactions: Stored,
    /// How many WebSockets were asked for.
    pub sockets_wanted: usize,
    /// Failing turns that were already played.
    pub spent: HashSet<usize>,
}

impl Log {
    /// Records a request, and returns its number.
    pub fn take(&mut self, received: Received) -> usize {
        let earlier = self.received.last_mut().filter(|_| self.keeps_sizes);
        if let Some(earlier) = earlier {
            (earlier.body, earlier.whole) = (Value::Null, None);
        }
        self.received.push(received);
        self.received.len() - 1
    }

    /// Holds the conversation of an answer that has ended, if that was asked for.
    pub fn hold(&mut self, number: usize, client: Option<SocketAddr>, answer: &Stream) {
        let asked = &self.received[number];
        match answer {
            Stream::Messages(_, _, answer) => {
                self.threads.keep(&asked.headers, answer);
            }
            Stream::Responses(answer) => {
                let request = (&asked.body, asked.whole.as_ref());
                self.chains.keep(client, request, answer.answer());
            }
            Stream::Interactions(answer) => {
                if let Some(answer) = answer.answer() {
                    interactions::held::keep(&mut self.interactions, &asked.body, answer);
                }
            }
            Stream::Chat(_) => {}
        }
    }

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
            Some(Protocol::Interactions) => interactions::held::whole(&self.interactions, body),
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
