//! What a killed process has left of servers' tasks, offered to the model by a tool that follows each to its end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Access, Context, Input, Output, Tool, ToolExtras, ToolSpec, ToolUse};
use async_trait::async_trait;
use rmcp::model::{Task, TaskStatus};
use serde_json::json;

use crate::remote::name::clean_line;
use crate::remote::resources::spec;
use crate::remote::result;
use crate::remote::server::{Server, Shared};
use crate::remote::task::follow;
use crate::remote::tool::access;
use crate::remote::unfinished::Record;

/// Tool that follows tasks of an earlier process.
pub(crate) struct TasksTool {
    spec: ToolSpec,
    noted: Vec<(PathBuf, Record)>,
    servers: Arc<[Arc<Server>]>,
    shared: Arc<Shared>,
}

impl TasksTool {
    /// Returns the tool for the tasks of these servers; `None` if an earlier process has left none.
    pub(crate) fn new(
        noted: &[(PathBuf, Record)],
        servers: Arc<[Arc<Server>]>,
        shared: Arc<Shared>,
    ) -> Option<Self> {
        let is_known = |record: &Record| servers.iter().any(|it| it.name == record.server);
        let noted = noted
            .iter()
            .filter(|(path, record)| path.exists() && is_known(record));
        let noted: Vec<_> = noted.cloned().collect();
        let lines = noted.iter().map(|(_, record)| {
            let [task, tool, server] =
                [&record.task_id, &record.tool, &record.server].map(|it| clean_line(it, 100));
            format!("`{task}` ({tool} of {server})")
        });
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            return None;
        }
        let name = shared.options.interface.tool_name("mcp_tasks");
        let about = format!(
            "Waits for a task of an MCP server that was under way when the program ended, and returns its result. The \
             tasks: {}.",
            lines.join(", ")
        );
        let task = json!({"type": "string", "description": "The task"});
        Some(Self {
            spec: spec(&name, about, &json!({"task": task}), &["task"]),
            noted,
            servers,
            shared,
        })
    }

    fn found(&self, input: &Input) -> Option<(&PathBuf, &Record, &Arc<Server>)> {
        let wanted = input.text("task")?;
        let (path, record) = self.noted.iter().find(|(_, it)| it.task_id == wanted)?;
        let server = self.servers.iter().find(|it| it.name == record.server)?;
        Some((path, record, server))
    }
}

#[async_trait]
impl Tool for TasksTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The call itself was allowed when it was made; asking for its result changes nothing.
    fn access(&self, input: &Input) -> Vec<Access> {
        let found = self.found(input);
        let is_confined = found.is_some_and(|(_, _, server)| server.is_confined());
        vec![access(is_confined, true)]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let Some((path, record, server)) = self.found(&call.input) else {
            return Output::error("there is no such task");
        };
        let task = Task::new(&*record.task_id, TaskStatus::Working, "", "");
        let patience = self.shared.options.call_timeout;
        let end = follow(&server.link(), task, &context.progress, patience).await;
        // A server that has lost it will not find it again.
        let _ = fs::remove_file(path);
        end.map_or_else(Output::error, result::output)
    }
}
