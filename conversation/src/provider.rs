//! Port: a model that can be asked.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, Message, Model, StopReason, ToolSpec, ToolUseId, Usage};

/// A model that can be asked. Retries are the provider's own affair, told by [`StreamEvent::Retry`].
pub trait Provider: Send + Sync {
    /// Which model this is.
    fn model(&self) -> &Model;

    /// Asks the model and gives its answer as it arrives. Nothing happens until the stream is polled; dropping it
    /// ends the request. A whole answer ends with [`StreamEvent::Ended`]; a stream that ends without it, or whose
    /// last item is an error, has given no answer.
    fn stream(&self, request: Request) -> EventStream;

    /// Has the model's server search the web, where it can. Nothing happens until the future is polled.
    fn search(&self, _: &WebSearch) -> Option<Searching> {
        None
    }
}

/// A search of the web.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSearch {
    /// What is looked for.
    pub query: String,
    /// The only domains whose pages count, where there are any; those below them too.
    pub allowed_domains: Vec<String>,
    /// Domains whose pages do not count. Servers take one of the two lists.
    pub blocked_domains: Vec<String>,
}

/// A search on its way.
pub type Searching = Pin<Box<dyn Future<Output = Result<Findings, ProviderError>> + Send>>;

/// What a search has found. All of it was written by strangers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The pages.
    pub hits: Vec<Hit>,
    /// What the server says of them, if it does.
    pub words: String,
}

/// A page that a search has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub address: String,
    /// What stands there, in short; may be empty.
    pub snippet: String,
}

/// A model's answer as it arrives.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// A question to the model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The parts of the system prompt, in order; the prompt cache ends after the last one.
    pub system: Arc<[String]>,
    /// The tools that it may ask for, in order.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation: starts with a user message, every tool use answered in the message after it. Several
    /// messages of one role may follow each other and count as one. Thinking of other models, or without its
    /// signature, is left out by the provider.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// How many tokens it may write.
    pub max_output: u64,
    /// How much it may think.
    pub thinking: Thinking,
    /// How its words are chosen.
    pub sampling: Sampling,
}

/// How a model chooses its words, where that was set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// How far it strays from the likeliest.
    pub temperature: Option<f64>,
    /// It takes the likeliest words that have this share of the whole.
    pub top_p: Option<f64>,
    /// Words at which it stops.
    pub stop: Vec<String>,
}

/// How much a model may think before it answers. What is not set is left to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thinking {
    /// At most so many tokens; 0 means none.
    pub budget: Option<u32>,
    /// How hard it tries.
    pub effort: Option<Effort>,
}

impl Thinking {
    /// At most so many tokens of thought.
    pub fn at_most(tokens: u32) -> Self {
        Self {
            budget: Some(tokens),
            effort: None,
        }
    }
}

/// How hard a model tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Quick and cheap.
    Low,
    /// In between.
    Medium,
    /// For what is difficult.
    High,
    /// For what is very difficult.
    #[serde(rename = "xhigh")]
    ExtraHigh,
    /// As hard as it can.
    Max,
}

impl Effort {
    /// All, from the least to the most.
    pub const ALL: [Self; 5] = [
        Self::Low,
        Self::Medium,
        Self::High,
        Self::ExtraHigh,
        Self::Max,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The request goes out (again, after [`StreamEvent::Retry`]) with a body of so many bytes.
    Sent {
        /// Size of the encoded body.
        payload_bytes: u64,
    },
    /// The attempt failed and another follows after a wait: all that came before is void.
    Retry(RetryNotice),
    /// Another model answers in the place of the one that was asked: all that came before is void.
    Fallback(FallbackNotice),
    /// The answer begins.
    Started {
        /// The vendor's id of the message.
        id: String,
        /// Tokens known so far.
        usage: Usage,
    },
    /// A content block begins.
    BlockStarted {
        /// Its number in the message.
        index: usize,
        /// What it is.
        block: BlockStart,
    },
    /// A content block grows.
    Delta {
        /// Its number in the message.
        index: usize,
        /// By what.
        delta: Delta,
    },
    /// A content block is whole.
    BlockStopped {
        /// Its number in the message.
        index: usize,
    },
    /// What the server says that the call costs, which counts more than a price list.
    Billed {
        /// How much.
        cost: Cost,
    },
    /// Why the answer stops, and what it cost in tokens.
    Stopping {
        /// Why.
        stop_reason: StopReason,
        /// Tokens of the whole call, start included.
        usage: Usage,
    },
    /// The answer is whole.
    Ended,
}

/// A content block at its start.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockStart {
    /// Words will follow; some may be here already.
    Text(String),
    /// Reasoning will follow.
    Thinking(String),
    /// Encrypted reasoning, whole.
    RedactedThinking(String),
    /// A tool call whose arguments will follow as pieces of JSON text.
    ToolUse {
        /// Pairs it with its result.
        id: ToolUseId,
        /// The tool's name.
        name: String,
        /// Arguments that stood in the start already, usually `{}`.
        input: Value,
    },
    /// A block this version does not know, verbatim.
    Other(Value),
}

/// A piece of a content block.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Words.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A piece of the seal on the reasoning.
    Signature(String),
    /// A piece of JSON text.
    InputJson(String),
    /// A delta this version does not know, verbatim.
    Other(Value),
}

/// Why and when a request is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNotice {
    /// The attempt that failed, counted from 0.
    pub attempt: u32,
    /// How long until the next.
    pub delay: Duration,
    /// The HTTP status; `None` for the network's own failures.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: String,
}

/// Which model answers in the place of another, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackNotice {
    /// The one that answers.
    pub model: Model,
    /// What went wrong with the other; `None` where an earlier request has told it.
    pub error: Option<String>,
}

/// Why the model could not be asked, or gave no whole answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ProviderError {
    /// What kind of failure it is.
    pub class: ErrorClass,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What went wrong, in the server's words where it had some.
    pub message: String,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
    /// What the user can do about it, where it is known better than by class.
    pub hint: Option<String>,
}

/// Kinds of failure, as far as they are treated differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// There is no key, or the server does not accept it.
    Authentication,
    /// The account may not or cannot pay.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The request is not valid.
    InvalidRequest,
    /// There is no such model.
    ModelNotFound,
    /// The conversation does not fit the model's window.
    ContextTooLong,
    /// The server has too much to do.
    Overloaded,
    /// The server failed.
    Server,
    /// The server could not be reached, or the connection broke.
    Network,
    /// The answer was not what the protocol allows, or ended early.
    Protocol,
    /// The server fell silent.
    Stalled,
    /// The scripted model was asked something else than its scenario says.
    Script,
    /// None of the above.
    Unknown,
}

impl ErrorClass {
    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::Protocol
            | Self::Stalled => true,
            Self::Authentication
            | Self::Billing
            | Self::InvalidRequest
            | Self::ModelNotFound
            | Self::ContextTooLong
            | Self::Script
            | Self::Unknown => false,
        }
    }
}

impl ProviderError {
    /// An error without status, wait or hint.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            status: None,
            message: message.into(),
            retry_after: None,
            hint: None,
        }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "API error {status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
