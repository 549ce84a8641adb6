//! Description of a tool.

use std::sync::Arc;

use serde_json::Value;

/// Description of a tool for the model and the display.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name on the wire.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the input, an object.
    pub input_schema: Arc<Value>,
    /// Guidance for the system prompt, in its own section there.
    pub guidance: Option<String>,
    /// Truncation of its output for the model.
    pub truncation: Truncation,
    /// Argument that represents a call in short displays.
    pub key: Option<DisplayKey>,
}

impl ToolSpec {
    /// Returns the description of a tool whose input has this JSON Schema, which is an object.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        }
    }
}

/// Argument that represents a call on a display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisplayKey {
    /// A path, shown relative to the working directory.
    Path(&'static str),
    /// A shell command, shown behind `$ `.
    Command(&'static str),
    /// Other text, shown as it is.
    Text(String),
}

impl DisplayKey {
    /// Returns the argument's name.
    pub fn argument(&self) -> &str {
        match self {
            Self::Path(name) | Self::Command(name) => name,
            Self::Text(name) => name,
        }
    }
}

/// Truncation limits of a tool's output for the model: a head and a tail are kept, with a notice between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Maximum number of bytes.
    pub bytes: usize,
    /// Maximum number of lines.
    pub lines: Option<usize>,
}

impl Truncation {
    /// Limits for tools without their own.
    pub const DEFAULT: Self = Self {
        bytes: 30_000,
        lines: None,
    };
}
