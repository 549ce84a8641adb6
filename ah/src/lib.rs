//! The engine as a library.
//!
//! [`query`] runs a prompt as the official Agent SDKs do and returns their messages as a stream. The settings, tools,
//! hooks, permissions and sessions of `ah` apply. It takes the same path through the engine as a program that drives `ah`
//! over standard input and output, with values in place of lines.
//!
//! [`Agent`] is a conversation of the program's own, with the engine's own events. It reads no settings, and keeps what is said
//! where the program wants it. Both take the same [`Options`]: a model by name or of one's own ([`model`]), built-in tools and
//! tools of one's own ([`tool`](mod@tool)), limits, permissions, hooks.
//!
//! Every query has a thread of its own and shares no state with others. Nothing is written to standard output. A program
//! that uses the sandbox calls [`enter`] first thing in its `main`.
//!
//! Rely on what is here and on nothing else: the crates behind it have no interface for others. What implements a port
//! ([`tool::Tool`], [`model::Provider`], [`store::Store`]) may have to change with a new minor version before 1.0.

mod agent;
#[cfg_attr(not(feature = "engine"), path = "absent.rs")]
mod equipment;
pub mod event;
mod host;
pub mod model;
mod options;
pub mod permission;
#[cfg(feature = "engine")]
mod query;
pub mod store;
pub mod tool;

pub use agent::{Agent, AgentBuilder};
/// Events of hooks.
pub use ah_agent::hooks::HookEvent;
pub use ah_config::{Error, ErrorKind};
/// The attribute of implementations of the ports.
pub use async_trait::async_trait;
pub use options::{
    BoxFuture, CanUseTool, Decision, HookCallback, HookInput, Options, SystemPrompt, ToolRequest,
};
/// Derives the schemas of tools' arguments.
#[cfg(feature = "schema")]
pub use schemars;
/// The values of hooks, settings and tools' arguments.
pub use serde_json;
/// Queries and their messages.
#[cfg(feature = "engine")]
pub use {
    ah_engine::enter,
    ah_protocol::{
        AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
    },
    query::{Query, query, resume},
};

/// The examples of the page are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct Page;
