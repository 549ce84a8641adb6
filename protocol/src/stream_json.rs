//! The protocol of the official Claude Agent SDKs: JSON lines over standard input and output.
//!
//! The host writes prompts and control requests, and answers ours. We write the messages of the session with a `result`
//! for each prompt, and requests for permissions, hooks and the tools that run in the host. [`serve`] does that:
//!
//! ```text
//! stdin ─► input ─► wire ─┬─► prompts, one after the other ─► session ─► speaker ─┐
//!                         ├─► control: mode, model, servers … at once             ├─► sink ─► stdout
//!                         └─► link: answers to our own requests ◄─────────────────┘
//! ```
//!
//! [`serve_program`] is the same for a host in this process: requests and messages are values that go through channels
//! ([`Program`]), and nothing becomes text. The messages and their order are the same.
//!
//! Recordings of the original program override the documentation of the SDKs where they differ.

mod api_error;
mod callback;
mod context;
mod control;
mod decision;
mod goal;
mod host;
mod initialize;
mod input;
mod introduction;
mod link;
mod local;
mod output;
mod permission_tool;
mod pipes;
mod program;
mod queue;
mod result;
mod serve;
mod shared;
mod sink;
mod speaker;
mod totals;
mod wire;
mod worker;

pub use api_error::error_text;
pub use initialize::{Initialize, NamedPlugin, Texts};
pub use local::is_local;
pub use permission_tool::PermissionTool;
pub use pipes::{Gone, Pipe, Pipes};
pub use program::{Messages, Program, Requests};
pub use serve::{Source, Streams, serve, serve_program};
pub use worker::Served;

/// Messages that the host asked for in addition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Pieces of the answer as they arrive (`--include-partial-messages`).
    pub partial_messages: bool,
    /// Prompts (`--replay-user-messages`).
    pub replays: bool,
    /// Hook calls (`--include-hook-events`).
    pub hooks: bool,
    /// Rows of the transcript (`--session-mirror`).
    pub mirror: bool,
    /// What subagents say (`--forward-subagent-text`).
    pub subagent_text: bool,
    /// Changes between running, waiting and idle.
    pub session_state: bool,
    /// Recipient of permission questions (`--permission-prompt-tool`).
    pub asks: Asks,
}

/// Recipient of permission questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// Nobody; calls that no rule allows are denied.
    #[default]
    Nobody,
    /// The host.
    Host,
}
