//! The definition of a tool that belongs to the agent itself.

use std::sync::Arc;

use ah_conversation::{DisplayKey, ToolSpec, Truncation};
use serde_json::{Value, json};

/// Returns the definition of a tool with these properties of its input; it is shown with the first required one.
pub(crate) fn own_spec(
    name: &str,
    description: String,
    properties: &Value,
    required: &[&str],
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description,
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": properties,
            "required": required,
        })),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: required
            .first()
            .map(|name| DisplayKey::Text((*name).to_owned())),
    }
}
