//! The `TaskStop` tool, for those who know it from the official SDKs: ends a command beside the conversation.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use ah_process::Ending;
use async_trait::async_trait;
use serde_json::json;

use crate::bash::Bash;
use crate::jobs::{Jobs, TASK_TYPE};

/// The tool.
pub struct TaskStop {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl TaskStop {
    /// The tool, for the commands that `bash` lets run.
    pub fn new(bash: &Bash) -> Self {
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
        Self {
            spec,
            jobs: bash.jobs(),
        }
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
        let news = match self.jobs.stop(name).await {
            Ok(news) => news,
            Err(fault) => return Output::error(fault),
        };
        let message = match news.ending {
            Some(Ending::Stopped) => format!("stopped task {name}: {}", news.line),
            _ => format!("task {name} had ended already: {}", news.line),
        };
        Output::text(message.as_str()).with_details(json!({
            "message": message,
            "task_id": name,
            "task_type": TASK_TYPE,
            "command": news.line,
        }))
    }
}
