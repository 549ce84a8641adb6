//! The `TaskStop` tool, for those who know it from the official SDKs: ends a command beside the conversation, or
//! a subagent.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tasks, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::json;

use crate::task_output::find;

/// The tool.
pub struct TaskStop {
    spec: ToolSpec,
    tasks: Vec<Arc<dyn Tasks>>,
}

impl TaskStop {
    /// The tool, for these tasks.
    pub fn new(tasks: Vec<Arc<dyn Tasks>>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "task_id": { "type": "string", "description": "The task" },
            },
            "required": ["task_id"],
        });
        let spec = ToolSpec {
            name: "TaskStop".into(),
            description: include_str!("task_stop.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("task_id".into())),
        };
        Self { spec, tasks }
    }
}

#[async_trait]
impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Nothing that was not allowed to run by the call that started it.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let name = call.input.text("task_id").unwrap_or_default();
        match find(&self.tasks, name) {
            Ok(tasks) => tasks.stop(name).await,
            Err(fault) => Output::error(fault),
        }
    }
}
