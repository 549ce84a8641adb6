//! A call of a hook, and its answer.

use ah_conversation::json;
use serde_json::{Map, Value};

use super::HookEvent;

/// One call of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    /// 1-based sequence number within the session.
    pub number: usize,
    /// Event of the call.
    pub event: HookEvent,
    /// The tool concerned, or the kind of the event; empty if there is none.
    pub kind: String,
}

/// Answer of a hook, with its raw output.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAnswer {
    /// The reply.
    pub reply: HookReply,
    /// Raw output of a program; `None` for callbacks and programs that did not finish.
    pub printed: Option<HookOutput>,
}

impl From<HookReply> for HookAnswer {
    fn from(reply: HookReply) -> Self {
        Self {
            reply,
            printed: None,
        }
    }
}

/// Reply of a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookReply {
    /// No opinion.
    Nothing,
    /// An object of the hook protocol.
    Object(Map<String, Value>),
    /// Plain text.
    Text(String),
    /// Blocks the event, with the reason.
    Block(String),
    /// The hook failed, with the error.
    Failed(String),
}

impl HookReply {
    /// Reads what a hook wrote: an object of the protocol, or plain text.
    pub fn of_output(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        match json::from_str::<Value>(text) {
            Ok(Value::Object(object)) => Self::Object(object),
            Ok(_) | Err(_) => Self::Text(text.to_owned()),
        }
    }
}

/// Raw output of a hook program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code.
    pub exit_code: i32,
}
