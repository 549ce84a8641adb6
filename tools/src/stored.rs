//! The `result` tool: pages the whole output of an earlier call, which the store has kept.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Store, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::count;

const DEFAULT_LIMIT: u64 = 2_000;

/// The tool.
pub struct Stored {
    spec: ToolSpec,
    store: Arc<dyn Store>,
}

#[derive(Deserialize)]
struct Arguments {
    tool_use_id: String,
    #[serde(default, deserialize_with = "count")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    limit: Option<u64>,
}

impl Stored {
    /// The tool, for the outputs in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "tool_use_id": { "type": "string", "description": "The call" },
                "offset": { "type": "integer", "description": "The first line, from 1" },
                "limit": { "type": "integer", "description": "How many lines" },
            },
            "required": ["tool_use_id"],
        });
        let spec = ToolSpec {
            name: "result".into(),
            description: include_str!("stored.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 50_000,
                lines: None,
            },
            key: Some(DisplayKey::Text("tool_use_id".into())),
        };
        Self { spec, store }
    }
}

#[async_trait]
impl Tool for Stored {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let Arguments {
            tool_use_id,
            offset,
            limit,
        } = match serde_json::from_value(call.input.to_value()) {
            Ok(arguments) => arguments,
            Err(fault) => return Output::error(format!("invalid input: {fault}")),
        };
        // Line 0 is what some take for the first; a limit of 0 stands for none given.
        let first = to_index(offset.unwrap_or(1).max(1));
        let limit = to_index(limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT));
        let id = tool_use_id.as_str().into();
        let page = match self.store.output(&id, first, limit).await {
            Ok(Some(page)) => page,
            Ok(None) => return Output::error(format!("there is no stored output of a call {id}")),
            Err(fault) => return Output::error(fault.to_string()),
        };
        let lines = page.lines;
        if first > lines {
            return Output::error(format!(
                "the output of {id} has {lines} lines; there is no line {first}"
            ));
        }
        let last = first.saturating_add(limit - 1).min(lines);
        let mut text = page.text;
        if last < lines || first > 1 {
            let break_before = if text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!(
                "{break_before}[lines {first} to {last} of {lines}]"
            ));
        }
        Output::text(text).with_details(json!({ "tool_use_id": id.as_str(), "line_count": lines }))
    }
}

fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
