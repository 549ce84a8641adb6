//! Where a run is shown, and whoever sits there is asked. Terminal, JSON lines and the Agent-SDK protocol are frontends
//! of the same run.

use ah_conversation::{
    ContentBlock, Event, Host, Message, MessageId, Model, PermissionMode, Progress, StreamEvent,
    Task, TaskUpdate, ToolResult, ToolUse,
};
use async_trait::async_trait;

use crate::hooks::{HookAnswer, HookCall};

/// Something that shows a run. Called in order, from the task that drives the session; must not block for long.
#[async_trait]
pub trait Frontend: Host {
    /// Shows an event.
    fn show(&self, event: &Event);

    /// Tells the person something that is no part of the conversation: a limit that was lowered, messages that were
    /// left out.
    fn notice(&self, text: &str);

    /// Shows a part of the conversation, for those that speak of messages and not of events.
    fn update(&self, _: SessionUpdate<'_>) {}

    /// Returns when more can be shown. A run waits here for a reader that is slower than the model.
    async fn ready(&self) {}
}

/// A part of the conversation as it comes about.
#[derive(Debug, Clone, Copy)]
pub enum SessionUpdate<'a> {
    /// A model is about to be asked for an answer.
    Asking {
        /// Which.
        model: &'a Model,
        /// The id that the message gets, should there be an answer.
        message: &'a MessageId,
    },
    /// A piece of the model's answer, as it arrives.
    Piece(&'a StreamEvent),
    /// A block of the answer that is whole; the piece that ends it follows.
    Block(&'a ContentBlock),
    /// A call that starts.
    Call(&'a ToolUse),
    /// How far a call is that runs, and for how long it has run.
    Progress {
        /// The call.
        call: &'a ToolUse,
        /// How far it is.
        progress: &'a Progress,
        /// Milliseconds since it started.
        elapsed_ms: u64,
    },
    /// What came of a call. The message that holds it follows when all calls of the answer have ended.
    Result(&'a ToolResult),
    /// A message that was stored.
    Stored(&'a Message),
    /// What is allowed where no rule says otherwise has become another.
    Mode(PermissionMode),
    /// A hook that is about to be asked.
    HookStarted(&'a HookCall),
    /// The same hook has answered, or failed.
    HookEnded(&'a HookCall, &'a HookAnswer),
    /// How something fares that goes on below a call or beside the conversation.
    Task(&'a Task, &'a TaskUpdate),
    /// A part of the conversation of a subagent.
    Subagent(&'a Task, &'a SessionUpdate<'a>),
}
