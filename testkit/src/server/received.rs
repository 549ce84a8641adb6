//! What a test learns of the requests that the server received.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

/// Rule for choosing the turn that answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The next turn, whichever client asks.
    InOrder,
    /// The turn after as many answers as the request's history has, so that many clients can run through one scenario,
    /// and a client that was killed resumes at its turn. A failing turn is played once in all.
    ByHistory,
}

/// Request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Method, such as `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Body; null if it is not JSON.
    pub body: Value,
    /// The body with what the server held put before it; `None` if it continued nothing.
    pub whole: Option<Value>,
    /// Length of the body.
    pub bytes: usize,
    /// Time at which it was complete.
    pub arrived: Instant,
    /// Error text of the response, if it was refused.
    pub refused: Option<String>,
    /// What the vendor takes without a refusal although something is lost by it.
    pub lost: Vec<String>,
    /// State of the response.
    pub outcome: Outcome,
}

/// State of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Being sent.
    Answering,
    /// Sent completely.
    Whole,
    /// Cut by the scenario.
    Cut,
    /// Cut by the client, which closed the connection.
    Closed,
}
