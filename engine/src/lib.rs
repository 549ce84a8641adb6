//! The engine in a program of one's own.
//!
//! [`query`] runs a prompt as the official Agent SDKs do, and gives their messages as a stream: the settings, tools, hooks,
//! permissions and sessions of `ah` all hold. It is a host of the same protocol that other programs speak over standard
//! input and output, so whatever works there works here, with closures in the place of control requests.
//!
//! [`Agent`] is the level below: a store, a model and tools of one's own, and our own events. It reads no settings.
//!
//! Every query has a thread and a runtime of its own, and no state is shared between two of them. Nothing is written
//! to standard output. A program that wants the sandbox calls [`enter`] first thing in its `main`.

mod agent;
#[cfg(feature = "sqlite")]
pub mod assemble;
pub mod confinement;
#[cfg(feature = "sqlite")]
pub mod expand;
#[cfg(feature = "sqlite")]
mod host;
pub mod instructions;
mod key_command;
#[cfg_attr(not(feature = "log"), path = "no_log.rs")]
mod log;
#[cfg(feature = "sqlite")]
mod message;
pub mod model;
#[cfg(feature = "sqlite")]
mod open;
#[cfg(feature = "sqlite")]
mod options;
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
pub mod specs;
pub mod warn;

use std::sync::atomic::{AtomicBool, Ordering};

pub use agent::{Agent, AgentBuilder};
/// When hooks are asked, and how a run ended.
pub use ah_agent::{RunOutcome, hooks::HookEvent};
pub use ah_config::{Error, ErrorKind};
/// The words and the ports: what a tool, a model or a store of one's own implements.
pub use ah_conversation as conversation;
/// A conversation in SQLite.
#[cfg(feature = "sqlite")]
pub use ah_store::SessionStore;
pub use log::log_of;
#[cfg(feature = "sqlite")]
pub use message::{
    AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
};
#[cfg(feature = "sqlite")]
pub use open::{Opened, open};
#[cfg(feature = "sqlite")]
pub use options::{
    BoxFuture, CanUseTool, Decision, HookCallback, HookInput, Options, SystemPrompt, ToolRequest,
};
#[cfg(feature = "sqlite")]
pub use query::{Query, query};

/// Whether this process has shown that it can be the launcher of its commands.
static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Does the work of a process that the sandbox has started, if this process is one, and never returns then. It has
/// to come before all else in the `main` of a program whose commands are to be confined.
pub fn enter() {
    HAS_ENTERED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == ah_sandbox::LAUNCHER => ah_sandbox::launcher(arguments),
        Some(first) if first == ah_sandbox::PROBE => ah_sandbox::probe(arguments),
        _ => {}
    }
}
