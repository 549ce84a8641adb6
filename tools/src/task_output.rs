//! The `TaskOutput` tool, for those who know it from the official SDKs: what a command beside the conversation writes,
//! or a subagent has said.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tasks, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::bash::MAX_TIMEOUT;
use crate::blocking::count;

/// Milliseconds that a call waits where it does not say.
const PATIENCE: u64 = 30_000;
/// The name under which it did not wait.
const WITHOUT_WAITING: &str = "BashOutput";

/// The tool.
pub struct TaskOutput {
    spec: ToolSpec,
    tasks: Vec<Arc<dyn Tasks>>,
}

#[derive(Deserialize)]
struct Arguments {
    task_id: String,
    block: Option<bool>,
    #[serde(default, deserialize_with = "count")]
    timeout: Option<u64>,
}

impl TaskOutput {
    /// The tool, for these tasks.
    pub fn new(tasks: Vec<Arc<dyn Tasks>>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "task_id": { "type": "string", "description": "The task" },
                "block": { "type": "boolean", "description": "Wait for its end (default true)" },
                "timeout": { "type": "integer", "description": "Milliseconds to wait at most (default 30000)" },
            },
            "required": ["task_id"],
        });
        let spec = ToolSpec {
            name: "TaskOutput".into(),
            description: include_str!("task_output.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("task_id".into())),
        };
        Self { spec, tasks }
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

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let arguments: Arguments = match serde_json::from_value(call.input.to_value()) {
            Ok(arguments) => arguments,
            Err(fault) => return Output::error(format!("invalid input: {fault}")),
        };
        let waits = !call.name.eq_ignore_ascii_case(WITHOUT_WAITING);
        let patience = match arguments.block.unwrap_or(waits) {
            true => arguments.timeout.unwrap_or(PATIENCE).min(MAX_TIMEOUT),
            false => 0,
        };
        let name = arguments.task_id.as_str();
        match find(&self.tasks, name) {
            Ok(tasks) => tasks.output(name, Duration::from_millis(patience)).await,
            Err(fault) => Output::error(fault),
        }
    }
}

/// Those among which there is, or was, the task `id`.
pub(crate) fn find<'a>(tasks: &'a [Arc<dyn Tasks>], id: &str) -> Result<&'a dyn Tasks, String> {
    let found = tasks.iter().find(|tasks| tasks.has(id));
    found.map(|tasks| &**tasks).ok_or_else(|| {
        format!("there is no task {id}; if there was one, it ended with the earlier process of this session")
    })
}
