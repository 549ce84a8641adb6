//! Port: a language model.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CallReason, Cost, Fields, Message, Model, ModelUsage, PrefixBreak, StopReason, Thinking,
    ToolSpec, ToolUseId, Usage,
};

/// A language model. The provider retries by itself and reports it with [`StreamEvent::Retry`].
pub trait Provider: Send + Sync {
    /// Returns the model's properties.
    fn model(&self) -> &Model;

    /// Sends a request and returns the answer as a stream. Nothing happens until the stream is polled; dropping it
    /// cancels the request. A complete answer ends with [`StreamEvent::Ended`]; a stream that ends without it, or
    /// with an error, has given no answer.
    fn stream(&self, request: Request) -> EventStream;

    /// Returns what only some models have; [`ProviderExtras::default`] is nothing. A provider that wraps another returns that
    /// one's.
    fn extras(&self) -> ProviderExtras<'_>;
}

/// What only some models have.
#[derive(Default)]
pub struct ProviderExtras<'a> {
    /// How the model takes changes in a conversation.
    pub continuity: Continuity,
    /// Says what was used beside the answers.
    pub unseen: Option<&'a dyn UnseenUse>,
    /// Searches the web through the model's server.
    pub search: Option<&'a dyn SearchesWeb>,
    /// Opens a connection to the model's server.
    pub early: Option<&'a dyn ConnectsEarly>,
}

/// A model of which more is used than its answers tell: by requests that keep the conversation in the prompt cache, and by
/// answers that were refused.
pub trait UnseenUse: Send + Sync {
    /// Ends the pause since the last answer; returns what was used in it, of which model, and for what.
    fn end_pause(&self) -> Vec<(CallReason, Model, Usage)>;

    /// Returns what was used since the last call, without an end of the pause: another agent asks.
    fn used(&self) -> Vec<(CallReason, Model, Usage)>;
}

/// A model whose server searches the web.
pub trait SearchesWeb: Send + Sync {
    /// Searches. Nothing happens until the future is polled.
    fn search(&self, search: &WebSearch) -> Searching;
}

/// A model to whose server a connection can be opened before there is a request.
pub trait ConnectsEarly: Send + Sync {
    /// Opens one, if there is none, so that the next request need not wait for it. Nothing is asked and nothing fails. Nothing
    /// happens until the future is polled; `None` if a connection would not help.
    fn connect_early(&self) -> Option<Connecting>;
}

/// How a model takes changes in a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Continuity {
    /// Whether tools can be added at the end of the conversation. Otherwise new tools change the beginning of the request.
    pub appends_tools: bool,
    /// Whether another thinking setting can be told at the end of the conversation. Otherwise it changes the beginning of
    /// the request.
    pub appends_thinking: bool,
    /// Whether its thinking is valid only behind exactly the same beginning.
    pub binds_thinking: bool,
    /// Whether the server is to write summaries itself.
    pub summarizes: bool,
}

/// A web search request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSearch {
    /// Search terms.
    pub query: String,
    /// If not empty, only pages of these domains and their subdomains count.
    pub allowed_domains: Vec<String>,
    /// Domains whose pages do not count. Servers accept only one of the two lists.
    pub blocked_domains: Vec<String>,
}

/// A running web search.
pub type Searching = Pin<Box<dyn Future<Output = Result<Findings, ProviderError>> + Send>>;

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Results of a web search. All of it is untrusted text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Pages found.
    pub hits: Vec<Hit>,
    /// The server's comment on them, if any.
    pub words: String,
    /// What a model's server has charged for.
    pub spent: Option<ModelUsage>,
}

/// A page found by a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hit {
    /// Title of the page.
    pub title: String,
    /// URL of the page.
    pub address: String,
    /// Short excerpt of the page; may be empty.
    pub snippet: String,
}

/// A model's answer as it arrives.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// A request to the model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Parts of the system prompt, in order; the prompt cache ends after the last one.
    pub system: Arc<[String]>,
    /// Tools from the beginning of the conversation, in order.
    pub tools: Arc<[ToolSpec]>,
    /// Tools that messages have told of since ([`Origin::Update`](crate::Origin::Update)). They follow
    /// [`tools`](Self::tools) if the model does not take them from the messages.
    pub added: Arc<[ToolSpec]>,
    /// The conversation. It starts with a user message, and every tool use is answered in the message after it.
    /// Consecutive messages of one role count as one. The provider leaves out thinking of other models, or without
    /// its signature.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// Maximum number of output tokens.
    pub max_output: u64,
    /// Thinking budget.
    pub thinking: Thinking,
    /// The one that the conversation began with. Messages have told of others since
    /// ([`Origin::Update`](crate::Origin::Update)), for a model that takes them from there.
    pub first_thinking: Thinking,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Whether the server is asked to tell how far it has read the request. Only some servers know the question.
    pub tells_progress: bool,
    /// Form that the answer has to have, where the server can be asked to hold the model to it.
    pub answer: Option<DemandedAnswer>,
    /// Asks for the server's own summary of the messages in the place of an answer, with these instructions, which may
    /// be empty. Only for a model that [`summarizes`](Continuity::summarizes).
    pub summary: Option<String>,
    /// Asks for the answer in one piece, because its stream has broken before.
    pub whole: bool,
    /// Whether a person may continue the conversation after the answer, so that it may be kept in the prompt cache until then. A
    /// question beside it, a summary and a subagent are none.
    pub precedes_pause: bool,
}

impl Request {
    /// Returns all tools, for a model that takes them only at the beginning of a request.
    pub fn all_tools(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        let tools: Vec<_> = self.tools.iter().chain(self.added.iter()).collect();
        tools.into_iter()
    }
}

/// Form of an answer: the arguments of a tool, or a text that is such JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandedAnswer {
    /// Name of the tool, which is among those of the request.
    pub tool: String,
    /// Its JSON Schema.
    pub schema: Arc<Value>,
}

/// Sampling parameters; unset ones are left to the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: cumulative probability of the tokens considered.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
}

/// An event of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The request is sent, again after each [`StreamEvent::Retry`].
    Sent {
        /// Size of the encoded body, in bytes.
        payload_bytes: u64,
        /// Size of what is not sent, as the server holds it; 0 if it has forgotten it, so that all is sent. `None` unless it was asked
        /// to continue what it holds.
        held_bytes: Option<u64>,
    },
    /// The attempt failed and another follows after a delay; everything received before is void.
    Retry(RetryNotice),
    /// Another model answers instead of the requested one; everything received before is void.
    Fallback(FallbackNotice),
    /// The server refuses a part of the request, such as a picture. It is sent again without it.
    LeftOut {
        /// What is left out and why, for the user.
        notice: String,
    },
    /// The server has accepted the request under this id, which its support asks for.
    Accepted {
        /// The server's id of the request.
        request_id: String,
    },
    /// The server still reads the request.
    Reading {
        /// Tokens that it has read, or taken from its cache.
        read: u64,
        /// Tokens of the request.
        total: u64,
    },
    /// The answer begins.
    Started {
        /// The vendor's id of the message.
        id: String,
        /// Tokens known so far.
        usage: Usage,
    },
    /// A content block has started.
    BlockStarted {
        /// Index of the block in the message.
        index: usize,
        /// Initial content.
        block: BlockStart,
    },
    /// A content block has grown.
    Delta {
        /// Index of the block in the message.
        index: usize,
        /// Additional content.
        delta: Delta,
    },
    /// A content block is complete.
    BlockStopped {
        /// Index of the block in the message.
        index: usize,
    },
    /// Fields that the server gives for itself, complete. Sent once for each block and for the message.
    Opaque {
        /// Index of the block; `None` for the message.
        index: Option<usize>,
        /// The fields, as they are to be given back.
        fields: Fields,
    },
    /// Cost reported by the server; it takes precedence over a price list.
    Billed {
        /// The cost.
        cost: Cost,
    },
    /// Less was read from the prompt cache than the request before had left there.
    CacheMissed(CacheMiss),
    /// The server has left out thinking of earlier answers that the request sent.
    ThinkingDropped(PrefixBreak),
    /// Stop reason and token usage of the answer.
    Stopping {
        /// Reason why the model stopped.
        stop_reason: StopReason,
        /// Tokens of the whole call, including the start.
        usage: Usage,
    },
    /// The answer is complete.
    Ended,
}

/// Initial content of a block.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockStart {
    /// Text, possibly with a first piece.
    Text(String),
    /// Reasoning, possibly with a first piece.
    Thinking(String),
    /// Encrypted reasoning, complete.
    RedactedThinking(String),
    /// A tool call whose arguments follow as pieces of JSON text.
    ToolUse {
        /// Id that pairs the call with its result.
        id: ToolUseId,
        /// Name of the tool.
        name: String,
        /// Arguments already in the start event, usually `{}`.
        input: Value,
    },
    /// A block that this version does not know, verbatim.
    Other(Value),
}

/// A piece of a content block.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A piece of the reasoning's signature.
    Signature(String),
    /// A piece of JSON text.
    InputJson(String),
    /// A delta that this version does not know, verbatim.
    Other(Value),
}

/// Part of a request that was expected in the prompt cache and not read from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheMiss {
    /// Tokens that the request before had left in the cache.
    pub expected: u64,
    /// Tokens that were read from it.
    pub read: u64,
    /// Place of the first byte that is not as in the request before; `None` if all of it is, so that the server has
    /// forgotten it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// Cause and delay of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNotice {
    /// 0-based number of the failed attempt.
    pub attempt: u32,
    /// Delay before the next attempt.
    pub delay: Duration,
    /// HTTP status, `None` for a network error.
    pub status: Option<u16>,
    /// Error message.
    pub error: String,
    /// Ends the delay at once.
    pub skip: SkipDelay,
}

/// Ends a delay at once, for a person who does not want to wait; no-op by default.
#[derive(Clone, Default)]
pub struct SkipDelay(Option<Arc<dyn Fn() + Send + Sync>>);

impl SkipDelay {
    /// Ends the delay by `end`, which must not block.
    pub fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(end)))
    }

    /// Ends the delay; no-op if it is over.
    pub fn skip(&self) {
        if let Some(end) = &self.0 {
            end();
        }
    }
}

impl fmt::Debug for SkipDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "possible"
        } else {
            "impossible"
        })
    }
}

/// Two notices of the same failure are equal, whoever can skip their delays.
impl PartialEq for SkipDelay {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SkipDelay {}

/// Replacement of one model by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackNotice {
    /// The model that answers. Boxed, as all events are moved and this is by far the largest.
    pub model: Box<Model>,
    /// Name of the model in whose place it does.
    pub instead_of: String,
    /// Error of that model; `None` if an earlier request reported it.
    pub error: Option<String>,
}

/// Failure of a request to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ProviderError {
    /// Kind of failure.
    pub class: ErrorClass,
    /// HTTP status, if there was one.
    pub status: Option<u16>,
    /// Error message, in the server's words if it sent some.
    pub message: String,
    /// Delay requested by the server.
    pub retry_after: Option<Duration>,
    /// Advice for the user, if more specific than the class.
    pub hint: Option<String>,
    /// The server's own type of the error, such as `overloaded_error`.
    pub kind: Option<String>,
    /// The server's id of the request, which ends the message.
    pub request_id: Option<String>,
}

/// Kinds of failure that are treated differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The API key is missing or rejected.
    Authentication,
    /// Billing problem of the account.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The request is not valid.
    InvalidRequest,
    /// There is no such model.
    ModelNotFound,
    /// The conversation does not fit the model's window.
    ContextTooLong,
    /// The server is overloaded.
    Overloaded,
    /// Server error.
    Server,
    /// The server could not be reached, or the connection broke.
    Network,
    /// The response violates the protocol or ended early.
    Protocol,
    /// The server stopped sending.
    Stalled,
    /// The request differs from the scripted model's scenario.
    Script,
    /// None of the above.
    Unknown,
}

impl ErrorClass {
    /// Returns our own word for it, in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Billing => "billing",
            Self::RateLimit => "rate_limit",
            Self::InvalidRequest => "invalid_request",
            Self::ModelNotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Network => "network",
            Self::Protocol => "protocol",
            Self::Stalled => "stalled",
            Self::Script => "script",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the word for it of the Agent SDKs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication_failed",
            Self::Billing => "billing_error",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::InvalidRequest | Self::ContextTooLong => "invalid_request",
            Self::ModelNotFound => "model_not_found",
            Self::Server => "server_error",
            Self::Network | Self::Protocol | Self::Stalled | Self::Script | Self::Unknown => {
                "unknown"
            }
        }
    }

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
    /// Returns an error without status, delay or hint.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            status: None,
            message: message.into(),
            retry_after: None,
            hint: None,
            kind: None,
            request_id: None,
        }
    }

    /// Adds the server's id of the request to the message.
    #[must_use]
    pub fn of_request(mut self, id: &str) -> Self {
        self.message.push_str(&of_request(id));
        self.request_id = Some(id.to_owned());
        self
    }

    /// Returns the message without the id of the request.
    pub fn server_words(&self) -> Cow<'_, str> {
        match &self.request_id {
            Some(id) => self.message.replace(&of_request(id), "").into(),
            None => self.message.as_str().into(),
        }
    }
}

fn of_request(id: &str) -> String {
    format!(" (request {id})")
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "API error {status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
