//! Other programs' ways in: they speak in their own formats, and what they say becomes a session's prompts, permissions
//! and hooks.
//!
//! [`stream_json`] is the protocol of the official Claude Agent SDKs, over standard input and output. It is a
//! [`Frontend`](ah_agent::Frontend) like the terminal: it drives a session that somebody else puts together
//! ([`Engine`]), and knows no provider, no store and no tool.

mod engine;
mod names;
pub mod stream_json;
mod transcript;

pub use engine::{AgentInfo, Engaged, Engine, Ids, Introduction, Refusal, Setting};
pub use names::is_of;
pub use transcript::{TranscriptFile, read_transcript, transcript_path};
