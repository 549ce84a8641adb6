//! The `TaskOutput` and `TaskStop` tools of the official SDKs: read and end background commands and subagents.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tasks, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{self, Count};
use crate::bash::MAX_TIMEOUT;

/// Milliseconds that a call waits by default.
const DEFAULT_WAIT: u64 = 30_000;
/// Former name of `TaskOutput`, under which it does not wait by default.
const WITHOUT_WAITING: &str = "BashOutput";

/// The `TaskOutput` tool: returns the new output of a task.
pub struct TaskOutput {
    spec: ToolSpec,
    tasks: Vec<Arc<dyn Tasks>>,
}

#[derive(Deserialize, JsonSchema)]
struct OutputArguments {
    task_id: String,
    block: Option<bool>,
    timeout: Option<Count>,
}

/// The `TaskStop` tool: ends a task.
pub struct TaskStop {
    spec: ToolSpec,
    tasks: Vec<Arc<dyn Tasks>>,
}

#[derive(Deserialize, JsonSchema)]
struct StopArguments {
    task_id: String,
}

impl TaskOutput {
    /// Returns the tool for these tasks.
    pub fn new(tasks: Vec<Arc<dyn Tasks>>) -> Self {
        let spec = spec::<OutputArguments>("TaskOutput", include_str!("task_output.md"));
        Self { spec, tasks }
    }
}

impl TaskStop {
    /// Returns the tool for these tasks.
    pub fn new(tasks: Vec<Arc<dyn Tasks>>) -> Self {
        let spec = spec::<StopArguments>("TaskStop", include_str!("task_stop.md"));
        Self { spec, tasks }
    }
}

fn spec<A: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    ToolSpec {
        key: Some(DisplayKey::Text("task_id".into())),
        ..arguments::spec(name, description, arguments::schema::<A>())
    }
}

#[async_trait]
impl Tool for TaskOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let OutputArguments {
            task_id,
            block,
            timeout,
        } = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
        };
        let waits = block.unwrap_or_else(|| !call.name.eq_ignore_ascii_case(WITHOUT_WAITING));
        let wait = if waits {
            timeout.map_or(DEFAULT_WAIT, |Count(timeout)| timeout.min(MAX_TIMEOUT))
        } else {
            0
        };
        match find(&self.tasks, &task_id) {
            Ok(tasks) => tasks.output(&task_id, Duration::from_millis(wait)).await,
            Err(error) => Output::error(error),
        }
    }
}

#[async_trait]
impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns none: ending a task does nothing that the call which started it was not allowed to do.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let StopArguments { task_id } = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
        };
        match find(&self.tasks, &task_id) {
            Ok(tasks) => tasks.stop(&task_id).await,
            Err(error) => Output::error(error),
        }
    }
}

/// Returns the tasks among which the task `id` is, or was.
fn find<'a>(tasks: &'a [Arc<dyn Tasks>], id: &str) -> Result<&'a dyn Tasks, String> {
    let found = tasks.iter().find(|tasks| tasks.has(id));
    found.map(|tasks| &**tasks).ok_or_else(|| {
        format!("there is no task {id}; if there was one, it ended with the earlier process of this session")
    })
}
