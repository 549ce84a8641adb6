//! Protocols by which programs drive a session: their messages become its prompts, permissions and hooks.
//!
//! [`stream_json`] is the protocol of the official Claude Agent SDKs: as JSON lines over standard input and output for
//! another process, or as typed values ([`Message`]) for this one. It is a [`Watcher`](ah_agent::Watcher) like the
//! terminal: it drives a session that an [`Engine`] opens, and knows no provider, no store and no tool.

mod engine;
mod ids;
mod message;
mod names;
pub mod stream_json;
mod transcript;

pub use engine::{Engaged, Engine, ExpandedPrompt, Introduction, Setting};
pub use ids::Ids;
pub use message::{
    AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
};
pub use names::is_of;
pub use transcript::{
    ReadTranscript, RowHead, Transcribed, TranscriptFile, read_transcript, transcript_path,
};
