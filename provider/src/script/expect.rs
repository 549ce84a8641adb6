//! What a scenario expects of a request, and the words for what is not so.

use ah_conversation::{Request, ToolResult};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::format::Recorded;
use super::play::{said, since_answer};

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
    pub system: Option<Match>,
    /// The words of the last user message, tool results aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Match>,
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
    pub text: Option<Match>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// What must hold for a text: plain words must stand in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Match {
    /// It contains this.
    Contains(String),
    /// It is compared in another way.
    Exactly(Exactly),
}

/// A stricter comparison of a text. Each field that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exactly {
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
            faults.extend(expected.unmet("the user's words", &said(request)));
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
        let results: Vec<_> = since_answer(request)
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

impl Match {
    fn unmet(&self, what: &str, text: &str) -> Vec<String> {
        match self {
            Self::Contains(part) if !text.contains(part.as_str()) => {
                vec![format!(
                    "expected {what} to contain {part:?}, but it is: {}",
                    shown(text)
                )]
            }
            Self::Contains(_) => Vec::new(),
            Self::Exactly(exactly) => exactly.unmet(what, text),
        }
    }
}

impl Exactly {
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

/// How `actual` differs from what was recorded, as a diff; `None` if it does not. Parts that were not recorded may be
/// anything.
pub fn difference(expected: &Recorded, actual: &Recorded) -> Option<String> {
    let text = |request: &Recorded| {
        let mut text = String::new();
        if let (Some(_), Some(system)) = (&expected.system, &request.system) {
            text.push_str(system.trim_end());
            text.push('\n');
        }
        if let (Some(_), Some(tools)) = (&expected.tools, &request.tools) {
            text.push_str("tools: ");
            text.push_str(tools);
            text.push('\n');
        }
        text + &request.messages
    };
    let (expected, actual) = (text(expected), text(actual));
    (expected != actual).then(|| {
        format!(
            "it differs from the recorded one:\n{}",
            diff(&expected, &actual)
        )
    })
}

/// A unified diff from what the scenario says to what the request says.
fn diff(expected: &str, actual: &str) -> String {
    TextDiff::from_lines(expected, actual)
        .unified_diff()
        .missing_newline_hint(false)
        .header("scenario", "request")
        .to_string()
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None if text.is_empty() => "empty".to_owned(),
        None => text.to_owned(),
    }
}
