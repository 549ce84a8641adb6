//! What a scenario expects of a request, and the words for what is not so.

use ah_conversation::{Request, ToolResult};
use serde::{Deserialize, Serialize};

use super::new_messages::{new_messages, user_text};
use super::recorded::diff;

/// The longest text that is shown whole in an explanation, in characters.
const SHOWN: usize = 2_000;

/// What must hold for a request. What is left out may be anything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// How many messages it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
    /// The whole system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextMatch>,
    /// The words of the last user message, tool results aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<TextMatch>,
    /// Tools that it offers, among others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The tool results of the last message, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ExpectResult>,
}

/// What must hold for a tool result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectResult {
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextMatch>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// What must hold for a text: plain words must stand in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TextMatch {
    /// It contains this.
    Contains(String),
    /// It is compared in another way.
    Strict(StrictMatch),
}

/// A stricter comparison of a text. Each field that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StrictMatch {
    /// It is just this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// It does not contain this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

impl Expect {
    /// All that is not as expected, one sentence each; empty if the request is right.
    pub fn unmet(&self, request: &Request) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(count) = self.messages
            && request.messages.len() != count
        {
            faults.push(format!(
                "expected {count} messages, but there are {}",
                request.messages.len()
            ));
        }
        if let Some(expected) = &self.system {
            faults.extend(expected.unmet("the system prompt", &request.system.join("\n\n")));
        }
        if let Some(expected) = &self.user {
            faults.extend(expected.unmet("the user's words", &user_text(request)));
        }
        let offered: Vec<_> = request
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        for name in self
            .tools
            .iter()
            .filter(|name| !offered.contains(&name.as_str()))
        {
            faults.push(format!(
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
                Some(result) => faults.extend(expected.unmet(at + 1, result)),
                None => faults.push(format!(
                    "expected tool result {}, but there are only {}",
                    at + 1,
                    results.len()
                )),
            }
        }
        faults
    }
}

impl ExpectResult {
    fn unmet(&self, number: usize, result: &ToolResult) -> Vec<String> {
        let what = format!("tool result {number} (`{}`)", result.tool_name);
        let mut faults = Vec::new();
        if let Some(id) = self
            .id
            .as_ref()
            .filter(|id| id.as_str() != result.tool_use_id.as_str())
        {
            faults.push(format!(
                "expected {what} to answer `{id}`, but it answers `{}`",
                result.tool_use_id
            ));
        }
        if let Some(tool) = self.tool.as_ref().filter(|tool| **tool != result.tool_name) {
            faults.push(format!("expected {what} to be of `{tool}`"));
        }
        if let Some(is_error) = self
            .is_error
            .filter(|is_error| *is_error != result.is_error)
        {
            let word = |is_error| if is_error { "a failure" } else { "a success" };
            faults.push(format!(
                "expected {what} to be {}, but it is {}",
                word(is_error),
                word(result.is_error)
            ));
        }
        if let Some(expected) = &self.text {
            faults.extend(expected.unmet(&what, &result.text()));
        }
        faults
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
        let mut faults = Vec::new();
        if let Some(whole) = self.equals.as_ref().filter(|whole| whole.as_str() != text) {
            faults.push(format!("{what} differs:\n{}", diff(whole, text)));
        }
        if let Some(part) = self
            .lacks
            .as_ref()
            .filter(|part| text.contains(part.as_str()))
        {
            faults.push(format!(
                "expected {what} not to contain {part:?}, but it is: {}",
                shown(text)
            ));
        }
        faults
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None if text.is_empty() => "empty".to_owned(),
        None => text.to_owned(),
    }
}
