//! Protocols by which programs drive a session: their messages become its prompts, permissions and hooks.
//!
//! [`stream_json`] is the protocol of the official Claude Agent SDKs: as JSON lines over standard input and output for
//! another process, or as typed values ([`Message`]) for this one. It is a [`Watcher`](ah_agent::Watcher) like the
//! terminal: it drives a session that an [`Engine`] opens, and knows no provider, no store and no tool.

mod engine;
mod message;
pub mod stream_json;

pub use engine::{Engaged, Engine, Introduction, Setting};
pub use message::{
    AssistantMessage, Message, PartialMessage, ResultMessage, SystemMessage, UserMessage,
};
