//! A run whose questions are answered from afar, as its client sees it.

use std::collections::BTreeMap;

use ah_conversation::{LiveOutput, PermissionMode, Question, ToolUseId, Verification};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;

/// A run. Dropping it ends it; all messages so far are stored.
#[derive(Debug)]
pub struct Running {
    /// What happens; [`RunEvent::Ended`] or [`RunEvent::Refused`] is the last.
    pub events: mpsc::UnboundedReceiver<RunEvent>,
    /// Interrupts it when cancelled; its end still comes.
    pub stop: CancellationToken,
}

/// What happens in a run.
#[derive(Debug)]
pub enum RunEvent {
    /// The session is open; its id.
    Began(String),
    /// A call is made, in words on one line: the transcript may have grown.
    Step(String),
    /// A call of the conversation itself has begun.
    Called(BegunCall),
    /// It has ended.
    Returned(ToolUseId),
    /// The model that is asked, by its name.
    Model(String),
    /// The permission mode that is in force from here on.
    Mode(PermissionMode),
    /// The model begins an answer; what came of the one before without becoming a message is void.
    Answering,
    /// A piece of the answer.
    Piece(Piece),
    /// A question, and where its answer goes: the text for each choice, or `None` if nobody answers.
    Asked(Question, oneshot::Sender<Option<BTreeMap<String, String>>>),
    /// The end.
    Ended(Ended),
    /// It has not begun; nothing comes after this.
    Refused(Refusal),
}

/// A call that has begun.
#[derive(Debug, Clone)]
pub struct BegunCall {
    /// Its id.
    pub id: ToolUseId,
    /// Its tool.
    pub name: String,
    /// The first text of its input.
    pub about: String,
    /// Its output, which can be read at any time.
    pub output: LiveOutput,
}

/// A piece of an answer in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of its block in the answer, from 0.
    pub block: usize,
    /// What the block is.
    pub kind: BlockKind,
    /// Text to append to the block.
    pub text: String,
}

/// What is new of an answer in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Growth {
    /// A piece.
    Piece(Piece),
    /// The answer begins again: all pieces so far are void.
    Void {
        /// Always true.
        reset: bool,
    },
}

/// What a block of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Text.
    Text,
    /// Thinking.
    Thinking,
    /// A call, by the name of its tool.
    Call,
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// The last answer of the model, or why the run failed.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether it was interrupted.
    pub is_stopped: bool,
    /// Number of turns.
    pub turns: u64,
    /// Cost in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// What a check has shown of the work, if the run had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Box<Verification>>,
}
