//! The engine as a library.
//!
//! [`query`] runs a prompt as the official Agent SDKs do and returns their messages as a stream. The settings, tools,
//! hooks, permissions and sessions of `ah` apply. It takes the same path through the engine as a program that drives `ah`
//! over standard input and output, with values in place of lines.
//!
//! [`Agent`] is the level below: a model, tools and a store of the caller's choice, and the engine's own events. It reads
//! no settings.
//!
//! Every query has a thread of its own and shares no state with others. Nothing is written to standard output. A program
//! that uses the sandbox calls [`enter`] first thing in its `main`.

mod agent;
#[cfg(feature = "sqlite")]
mod host;
#[cfg(feature = "sqlite")]
mod options;
#[cfg(feature = "sqlite")]
mod query;

pub use agent::{Agent, AgentBuilder};
/// Events of hooks, and the outcome of a run.
pub use ah_agent::{RunOutcome, hooks::HookEvent};
pub use ah_config::{Error, ErrorKind};
/// Messages, limits, permissions and events, and the traits of tools, models and stores.
pub use ah_conversation as conversation;
pub use ah_engine::enter;
/// Messages of a query.
#[cfg(feature = "sqlite")]
pub use ah_protocol::{
    AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
};
#[cfg(feature = "sqlite")]
pub use options::{
    BoxFuture, CanUseTool, Decision, HookCallback, HookInput, Options, SystemPrompt, ToolRequest,
};
#[cfg(feature = "sqlite")]
pub use query::{Query, query};
