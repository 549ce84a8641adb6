//! The `result` tool: pages the whole output of an earlier call, which the store keeps.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Store, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::{self, Count};

/// Number of lines of a page by default.
const DEFAULT_LIMIT: u64 = 2_000;

/// The `result` tool.
pub struct Stored {
    spec: ToolSpec,
    store: Arc<dyn Store>,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    tool_use_id: String,
    offset: Option<Count>,
    limit: Option<Count>,
}

impl Stored {
    /// Returns the tool for the outputs in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let schema = arguments::schema::<Arguments>();
        let spec = ToolSpec {
            truncation: Truncation {
                bytes: 50_000,
                lines: None,
            },
            key: Some(DisplayKey::Text("tool_use_id".into())),
            ..arguments::spec("result", include_str!("stored.md"), schema)
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

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let Arguments {
            tool_use_id,
            offset,
            limit,
        } = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
        };
        // Some models count lines from 0, and give a limit of 0 for none.
        let first = to_index(offset.map_or(1, |Count(line)| line.max(1)));
        let limit = to_index(match limit {
            Some(Count(0)) | None => DEFAULT_LIMIT,
            Some(Count(lines)) => lines,
        });
        let id = tool_use_id.as_str().into();
        let page = match self.store.output(&id, first, limit).await {
            Ok(Some(page)) => page,
            Ok(None) => return Output::error(format!("there is no stored output of a call {id}")),
            Err(error) => return Output::error(error.to_string()),
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
