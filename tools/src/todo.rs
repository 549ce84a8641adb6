//! The `todo` tool: the list of what is to be done, as the model keeps it and people watch it.
//!
//! The list is what the last call says, so it stands in the conversation and nowhere else: a session that is resumed or
//! forked has the list of its messages.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool.
pub struct Todo {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    todos: Vec<Item>,
}

/// Something to do.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    content: String,
    status: Status,
    /// How it reads while it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_form: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

impl Todo {
    /// The tool.
    pub fn new(interface: Interface) -> Self {
        let text = |what: &str| json!({ "type": "string", "minLength": 1, "description": what });
        let mut required = vec!["content", "status"];
        if interface == Interface::AgentSdk {
            required.push("activeForm");
        }
        let schema = json!({
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "description": "The whole list",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": text("What is to be done: Run the tests"),
                            "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                            "activeForm": text("How it reads meanwhile: Running the tests"),
                        },
                        "required": required,
                    },
                },
            },
            "required": ["todos"],
        });
        let spec = ToolSpec {
            name: interface.pick("todo", "TodoWrite").into(),
            description: include_str!("todo.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        };
        Self { spec }
    }
}

#[async_trait]
impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let list: Arguments = match serde_json::from_value(call.input.to_value()) {
            Ok(list) => list,
            Err(fault) => return Output::error(format!("invalid input: {fault}")),
        };
        let former = context
            .former
            .as_ref()
            .and_then(|details| details.get("newTodos"));
        Output::text(shown(&list.todos)).with_details(json!({
            "oldTodos": former.unwrap_or(&json!([])),
            "newTodos": list.todos,
        }))
    }
}

/// The list as people read it.
fn shown(list: &[Item]) -> String {
    let line = |item: &Item| match item.status {
        Status::Completed => format!("[x] {}", item.content),
        Status::InProgress => {
            let reads = item.active_form.as_ref().unwrap_or(&item.content);
            format!("[>] {reads}")
        }
        Status::Pending => format!("[ ] {}", item.content),
    };
    match list.is_empty() {
        true => "the list is empty".to_owned(),
        false => list.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}
