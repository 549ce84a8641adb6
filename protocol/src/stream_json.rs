//! The protocol of the official Claude Agent SDKs: JSON lines over standard input and output.
//!
//! A host writes prompts and control requests, and answers ours; we write what is said and done, a `result` for each
//! prompt, and ask for permissions, hooks and the tools that live in the host. [`serve`] does it all:
//!
//! ```text
//! stdin ─► input ─► wire ─┬─► prompts, one after the other ─► session ─► speaker ─┐
//!                         ├─► control: mode, model, servers … at once             ├─► output ─► stdout
//!                         └─► link: answers to our own requests ◄─────────────────┘
//! ```
//!
//! Where hosts and their program disagree with what is written of them, the recordings of the original decide.

mod callback;
mod control;
mod host;
mod input;
mod introduction;
mod link;
pub(crate) mod message;
mod output;
mod pipes;
mod queue;
mod result;
mod serve;
mod speaker;
mod wire;

pub use pipes::{Gone, Pipe, Pipes};
pub use serve::{Served, Source, Streams, serve};
pub use wire::{Initialize, NamedPlugin, Texts};

/// What a host has asked to be shown besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The answer as it arrives (`--include-partial-messages`).
    pub partial_messages: bool,
    /// The prompts (`--replay-user-messages`).
    pub replays: bool,
    /// The hooks that are asked (`--include-hook-events`).
    pub hooks: bool,
    /// What is written to the transcript, row by row (`--session-mirror`).
    pub mirror: bool,
    /// How busy the session is.
    pub session_state: bool,
    /// Who is asked for permissions (`--permission-prompt-tool`).
    pub asks: Asks,
}

/// Who is asked for permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// Nobody, so what is to be asked is denied.
    #[default]
    Nobody,
    /// The host.
    Host,
}
