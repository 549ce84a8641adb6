//! What goes on below a call or beside the conversation: a subagent, a command in the background. Whoever starts one
//! tells how it fares; a port asks about it and ends it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ModelUsage, Output, ToolUseId};

/// Something that goes on below a call, or beside the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// The call that started it.
    pub call: ToolUseId,
    /// What it is there for, in a few words.
    pub description: String,
    /// What it is.
    pub kind: TaskKind,
    /// Whether the call has ended while it goes on.
    pub is_background: bool,
}

/// What a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskKind {
    /// A conversation of its own.
    Agent {
        /// The name of its definition.
        name: String,
        /// What it is asked.
        prompt: String,
        /// How many conversations it is below the first one.
        depth: usize,
    },
    /// A command.
    Command,
}

/// How a task fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskUpdate {
    /// It begins.
    Started,
    /// It goes on.
    Progress {
        /// What it is doing.
        doing: String,
        /// The tool that it has asked for last.
        last_tool: Option<String>,
        /// What it took so far.
        usage: TaskUsage,
    },
    /// It has ended.
    Ended {
        /// How.
        ending: TaskEnding,
        /// What came of it, or why it ended.
        summary: String,
        /// Where its output is, if it is kept.
        output_file: Option<PathBuf>,
        /// What it took.
        usage: TaskUsage,
        /// What each model took that was asked for it.
        spent: Vec<ModelUsage>,
    },
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnding {
    /// By itself.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody has stopped it.
    Stopped,
}

impl TaskEnding {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// What a task took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskUsage {
    /// Tokens, in and out.
    pub tokens: u64,
    /// Calls of tools.
    pub tool_uses: usize,
    /// Milliseconds since it began.
    pub duration_ms: u64,
}

/// Where a call tells of what it has started. By default nobody listens.
#[derive(Clone, Default)]
pub struct TaskSink(Option<Arc<Listener>>);

type Listener = dyn Fn(&Task, &TaskUpdate) + Send + Sync;

impl TaskSink {
    /// Tells `listener`, which must not block.
    pub fn new(listener: impl Fn(&Task, &TaskUpdate) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells how a task fares.
    pub fn tell(&self, task: &Task, news: &TaskUpdate) {
        if let Some(listener) = &self.0 {
            listener(task, news);
        }
    }
}

impl fmt::Debug for TaskSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "heard" } else { "unheard" })
    }
}

/// Port: tasks in the background, by their ids.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Whether there is, or was in this process, a task of this id.
    fn has(&self, id: &str) -> bool;

    /// What is new of a task: at once, or when it has ended or `patience` is over.
    async fn output(&self, id: &str, patience: Duration) -> Output;

    /// Ends a task, and tells what came of it.
    async fn stop(&self, id: &str) -> Output;
}
