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

#[cfg(feature = "acp")]
pub mod acp;
mod agent;
#[cfg(feature = "sqlite")]
pub mod assemble;
#[cfg(feature = "sqlite")]
pub mod command_files;
#[cfg(feature = "sqlite")]
mod config_tool;
pub mod confinement;
#[cfg(feature = "sqlite")]
pub mod expand;
#[cfg(feature = "sqlite")]
mod host;
#[cfg(feature = "sqlite")]
pub mod identity;
#[cfg(feature = "sqlite")]
pub mod instructions;
mod key_command;
#[cfg_attr(not(feature = "log"), path = "no_log.rs")]
mod log;
#[cfg(feature = "sqlite")]
pub mod mentions;
pub mod model;
#[cfg(feature = "sqlite")]
mod open;
#[cfg(feature = "sqlite")]
mod options;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "sqlite")]
pub mod person;
#[cfg(feature = "sqlite")]
pub mod pictures;
#[cfg(feature = "sqlite")]
pub mod place;
#[cfg(feature = "sqlite")]
pub mod plan;
#[cfg(feature = "sqlite")]
mod query;
#[cfg(feature = "sqlite")]
pub mod serve;
#[cfg(feature = "sqlite")]
pub mod served;
#[cfg(feature = "sqlite")]
pub mod session_folders;
#[cfg(feature = "sqlite")]
mod session_model;
#[cfg(feature = "sqlite")]
pub mod small;
#[cfg(feature = "sqlite")]
pub mod specs;
#[cfg(feature = "sqlite")]
mod today;
#[cfg(feature = "sqlite")]
pub mod transcript_reader;
#[cfg(feature = "sqlite")]
pub mod tried_call;
pub mod warn;
pub mod worktrees;
#[cfg(test)]
mod wrapping;

use std::sync::atomic::{AtomicBool, Ordering};

pub use agent::{Agent, AgentBuilder};
/// Events of hooks, and the outcome of a run.
pub use ah_agent::{RunOutcome, hooks::HookEvent};
pub use ah_config::{Error, ErrorKind};
/// Messages, limits, permissions and events, and the traits of tools, models and stores.
pub use ah_conversation as conversation;
/// Messages of a query.
#[cfg(feature = "sqlite")]
pub use ah_protocol::{
    AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
};
/// A conversation in SQLite.
#[cfg(feature = "sqlite")]
pub use ah_store::SessionStore;
pub use log::log_of;
#[cfg(feature = "sqlite")]
pub use open::{Opened, busy, open};
#[cfg(feature = "sqlite")]
pub use options::{
    BoxFuture, CanUseTool, Decision, HookCallback, HookInput, Options, SystemPrompt, ToolRequest,
};
#[cfg(feature = "sqlite")]
pub use query::{Query, query};

/// Whether `enter` was called, so that this program can launch confined commands.
static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Launches a confined command if the sandbox has started this process for that, and never returns then. Otherwise
/// returns at once. A program that uses the sandbox calls it first thing in `main`.
///
/// ```
/// ah::enter();
/// // The program itself.
/// ```
pub fn enter() {
    HAS_ENTERED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == ah_sandbox::LAUNCHER => ah_sandbox::launcher(),
        Some(first) if first == ah_sandbox::PROBE => ah_sandbox::probe(arguments),
        _ => {}
    }
}
