//! Questions of MCP servers to the user, and their answers.

use serde_json::{Value, json};

/// Question of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// Name of the server.
    pub server: String,
    /// Text for the user.
    pub message: String,
    /// What is asked for.
    pub wanted: Wanted,
}

impl Elicitation {
    /// Returns the question as hosts and hooks of the Agent SDKs are told.
    pub fn to_value(&self) -> Value {
        let mut told = json!({"mcp_server_name": self.server, "message": self.message});
        match &self.wanted {
            Wanted::Form(schema) => {
                told["mode"] = json!("form");
                told["requested_schema"] = schema.clone();
            }
            Wanted::Visit { url, id } => {
                told["mode"] = json!("url");
                told["url"] = json!(url);
                told["elicitation_id"] = json!(id);
            }
        }
        told
    }
}

/// What a server asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Values that fit this JSON Schema, an object of plain values.
    Form(Value),
    /// A visit to a page.
    Visit {
        /// Its address.
        url: String,
        /// Name by which the server later says that it is done; empty if it will not.
        id: String,
    },
}

/// Answer to a server's question.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// The user agrees; with the values of a form.
    Accept(Option<Value>),
    /// The user says no.
    Decline,
    /// The user has not chosen.
    Cancel,
}

impl ElicitationAnswer {
    /// Parses an object with `action` and `content`.
    pub fn of_value(value: &Value) -> Option<Self> {
        match value["action"].as_str()? {
            "accept" => Some(Self::Accept(value.get("content").cloned())),
            "decline" => Some(Self::Decline),
            "cancel" => Some(Self::Cancel),
            _ => None,
        }
    }

    /// Returns the word for the answer: `accept`, `decline` or `cancel`.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}
