//! A call of a hook, and its answer.

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
    /// There is no answer.
    Failed(HookFailure),
}

/// Why there is no answer of a hook, with the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookFailure {
    /// Its host answered that it failed, which in the protocol of the SDKs lets the event pass.
    #[error("{0}")]
    Reported(String),
    /// It cannot be started, crashed, or took too long.
    #[error("{0}")]
    NoAnswer(String),
    /// It answered in other words than those of the hook protocol.
    #[error("{0}")]
    Unclear(String),
    /// Nobody can answer any more.
    #[error("{0}")]
    Over(String),
}

impl HookReply {
    /// Returns the reply of a hook that crashed, took too long or cannot be started.
    pub fn no_answer(error: impl Into<String>) -> Self {
        Self::Failed(HookFailure::NoAnswer(error.into()))
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
