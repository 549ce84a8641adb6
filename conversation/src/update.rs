//! What has changed around a session since its model was last told.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PermissionMode, Thinking};

/// State of a part of the system prompt, as last told to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Name of the part.
    pub name: String,
    /// Its text, or a digest of a long one; empty if the part is gone.
    pub value: String,
}

/// Changes told by one message ([`Origin::Update`](crate::Origin::Update)). The message's text says all of them in
/// words, one block for each non-empty field, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// New states of parts of the system prompt. Others can edit what they quote, so they never have the authority of
    /// a system message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Known>,
    /// New permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// Tools that are new, or take other arguments than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// New thinking setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
}

impl Update {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
            && self.mode.is_none()
            && self.tools.is_empty()
            && self.thinking.is_none()
    }
}

/// A tool as the model knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name on the wire.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Arc<Value>,
}
