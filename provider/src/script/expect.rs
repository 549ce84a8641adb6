//! Expectations of a scenario about requests, and messages about those that are not met.

use ah_conversation::{Request, ToolResult};
use serde::{Deserialize, Serialize};

use super::new_messages::{self, new_messages, user_text};
use super::recorded::diff;

/// Length limit of a text in a message, in characters.
const SHOWN: usize = 2_000;

/// Expectations about a request. Fields that are left out are not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Number of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
    /// System prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextMatch>,
    /// Text of the last user message, without tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<TextMatch>,
    /// Names of tools that have to be offered, among others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tool results of the last message, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ExpectResult>,
}

/// Expectations about a tool result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectResult {
    /// Id of the call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Text of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextMatch>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// Expectation about a text; a plain string has to be contained in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TextMatch {
    /// The text contains this.
    Contains(String),
    /// Another comparison.
    Strict(StrictMatch),
}

/// A stricter comparison of a text. Every field that is set has to hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StrictMatch {
    /// The text equals this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// The text does not contain this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

impl Expect {
    /// Returns a message for each expectation that is not met.
    pub fn unmet(&self, request: &Request) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(count) = self.messages
            && new_messages::count(request) != count
        {
            problems.push(format!(
                "expected {count} messages, but there are {}",
                new_messages::count(request)
            ));
        }
        if let Some(expected) = &self.system {
            problems.extend(expected.unmet("the system prompt", &request.system.join("\n\n")));
        }
        if let Some(expected) = &self.user {
            problems.extend(expected.unmet("the user's words", &user_text(request)));
        }
        let offered: Vec<_> = request.all_tools().map(|tool| tool.name.as_str()).collect();
        for name in self
            .tools
            .iter()
            .filter(|name| !offered.contains(&name.as_str()))
        {
            problems.push(format!(
                "expected the tool `{name}`, but there are only: {}",
                offered.join(", ")
            ));
        }
        let results: Vec<_> = new_messages(request)
            .iter()
            .flat_map(|message| message.tool_results())
            .collect();
        for (at, expected) in self.results.iter().enumerate() {
            match results.get(at) {
                Some(result) => problems.extend(expected.unmet(at + 1, result)),
                None => problems.push(format!(
                    "expected tool result {}, but there are only {}",
                    at + 1,
                    results.len()
                )),
            }
        }
        problems
    }
}

impl ExpectResult {
    fn unmet(&self, number: usize, result: &ToolResult) -> Vec<String> {
        let what = format!("tool result {number} (`{}`)", result.tool_name);
        let mut problems = Vec::new();
        if let Some(id) = self
            .id
            .as_ref()
            .filter(|id| id.as_str() != result.tool_use_id.as_str())
        {
            problems.push(format!(
                "expected {what} to answer `{id}`, but it answers `{}`",
                result.tool_use_id
            ));
        }
        if let Some(tool) = self.tool.as_ref().filter(|tool| **tool != result.tool_name) {
            problems.push(format!("expected {what} to be of `{tool}`"));
        }
        if let Some(is_error) = self
            .is_error
            .filter(|is_error| *is_error != result.is_error)
        {
            let word = |is_error| if is_error { "a failure" } else { "a success" };
            problems.push(format!(
                "expected {what} to be {}, but it is {}",
                word(is_error),
                word(result.is_error)
            ));
        }
        if let Some(expected) = &self.text {
            problems.extend(expected.unmet(&what, &result.text()));
        }
        problems
    }
}

impl TextMatch {
    fn unmet(&self, what: &str, text: &str) -> Vec<String> {
        match self {
            Self::Contains(part) if !text.contains(part.as_str()) => {
                vec![format!(
                    "expected {what} to contain {part:?}, but it is: {}",
                    shown(text)
                )]
            }
            Self::Contains(_) => Vec::new(),
            Self::Strict(strict) => strict.unmet(what, text),
        }
    }
}

impl StrictMatch {
    fn unmet(&self, what: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(whole) = self.equals.as_ref().filter(|whole| whole.as_str() != text) {
            problems.push(format!("{what} differs:\n{}", diff(whole, text)));
        }
        if let Some(part) = self
            .lacks
            .as_ref()
            .filter(|part| text.contains(part.as_str()))
        {
            problems.push(format!(
                "expected {what} not to contain {part:?}, but it is: {}",
                shown(text)
            ));
        }
        problems
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None if text.is_empty() => "empty".to_owned(),
        None => text.to_owned(),
    }
}
