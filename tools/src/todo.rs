//! The `todo` tool: the model's list of tasks, which people watch.
//!
//! The list is the input of the last call, so it is kept in the conversation and nowhere else: a session that is resumed
//! or forked has the list of its messages.

use ah_conversation::{
    Access, Context, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments;
use crate::naming::describe;

/// The `todo` tool.
pub struct Todo {
    spec: ToolSpec,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    todos: Vec<TodoItem>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct TodoItem {
    #[schemars(length(min = 1))]
    content: String,
    status: TodoStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    active_form: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl Todo {
    /// Returns the name of the tool.
    pub fn name(interface: Interface) -> &'static str {
        interface.pick("todo", "TodoWrite")
    }

    /// Returns the tool.
    pub fn new(interface: Interface) -> Self {
        let mut schema = arguments::schema::<Arguments>();
        if interface == Interface::AgentSdk {
            arguments::require(&mut schema, "/properties/todos/items", "activeForm");
        } else {
            arguments::leave_out(&mut schema, "/properties/todos/items", "activeForm");
        }
        Self {
            spec: arguments::spec(
                Self::name(interface),
                &describe(interface, include_str!("todo.md")),
                schema,
            ),
        }
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

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let list: Arguments = match arguments::parse(call) {
            Ok(list) => list,
            Err(error) => return Output::error(error),
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

/// Returns the list as people read it.
fn shown(list: &[TodoItem]) -> String {
    if list.is_empty() {
        return "the list is empty".to_owned();
    }
    let line = |item: &TodoItem| match item.status {
        TodoStatus::Completed => format!("[x] {}", item.content),
        TodoStatus::InProgress => {
            let reads = item.active_form.as_ref().unwrap_or(&item.content);
            format!("[>] {reads}")
        }
        TodoStatus::Pending => format!("[ ] {}", item.content),
    };
    list.iter().map(line).collect::<Vec<_>>().join("\n")
}
