//! Tasks started by tool calls: subagents, and commands in the background. The tool reports their status; a port
//! queries and stops them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ModelUsage, Output, ToolUseId};

/// A task below a call, or beside the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Id of the task.
    pub id: String,
    /// Call that started it.
    pub call: ToolUseId,
    /// Short description.
    pub description: String,
    /// Kind of task.
    pub kind: TaskKind,
    /// Whether it outlives the call that started it.
    pub is_background: bool,
}

/// Kind of task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskKind {
    /// A subagent.
    Agent {
        /// Name of its definition.
        name: String,
        /// Its prompt.
        prompt: String,
        /// Nesting depth below the main conversation.
        depth: usize,
    },
    /// A shell command.
    Command,
}

/// Status update of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskUpdate {
    /// The task has started.
    Started,
    /// The task is in progress.
    Progress {
        /// Current activity.
        doing: String,
        /// Last tool that it called.
        last_tool: Option<String>,
        /// Usage so far.
        usage: TaskUsage,
    },
    /// The task has ended.
    Ended {
        /// Outcome.
        ending: TaskEnding,
        /// Result, or reason why it ended.
        summary: String,
        /// File with its output, if kept.
        output_file: Option<PathBuf>,
        /// Total usage.
        usage: TaskUsage,
        /// Usage per model.
        spent: Vec<ModelUsage>,
    },
}

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnding {
    /// Ended by itself.
    Completed,
    /// Failed.
    Failed,
    /// Stopped by someone.
    Stopped,
}

impl TaskEnding {
    /// Returns the outcome's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// Resources used by a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskUsage {
    /// Input and output tokens.
    pub tokens: u64,
    /// Number of tool calls.
    pub tool_uses: usize,
    /// Milliseconds since the start.
    pub duration_ms: u64,
}

/// Reports tasks that a call has started; no-op by default.
#[derive(Clone, Default)]
pub struct TaskSink(Option<Arc<TaskListener>>);

type TaskListener = dyn Fn(&Task, &TaskUpdate) + Send + Sync;

impl TaskSink {
    /// Reports to `listener`, which must not block.
    pub fn new(listener: impl Fn(&Task, &TaskUpdate) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports an update of a task.
    pub fn report(&self, task: &Task, update: &TaskUpdate) {
        if let Some(listener) = &self.0 {
            listener(task, update);
        }
    }
}

impl fmt::Debug for TaskSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "heard" } else { "unheard" })
    }
}

/// The end of a task's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTail {
    /// The text.
    pub text: String,
    /// Number of bytes of the whole output.
    pub total: u64,
}

/// Port: background tasks, by id.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Whether a task of this id exists, or existed in this process.
    fn has(&self, id: &str) -> bool;

    /// Returns new output of a task: immediately, or once it has ended or `patience` is over.
    async fn output(&self, id: &str, patience: Duration) -> Output;

    /// Returns the last `bytes` of what a command has written, which stays new for [`output`](Self::output). `None` if
    /// there is no such command.
    fn tail(&self, id: &str, bytes: u64) -> Option<TaskTail>;

    /// Stops a task and returns its result.
    async fn stop(&self, id: &str) -> Output;
}
