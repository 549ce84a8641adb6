//! Requests as recordings hold them, and how two of them are compared.

use serde::{Deserialize, Serialize};

/// The new part of a recorded request, in readable form, with placeholders for values that change from run to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordedRequest {
    /// The system prompt, if it differs from the one of the previous request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The names of the tools, if they differ from those of the previous request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// The messages after the model's last answer, with the number of all messages.
    pub messages: String,
}

impl RecordedRequest {
    /// Returns how `actual` differs from this request, as a diff, or `None` if it does not. Parts that were not recorded
    /// are not compared.
    pub fn difference(&self, actual: &Self) -> Option<String> {
        let (expected, actual) = (self.recorded_parts_of(self), self.recorded_parts_of(actual));
        (expected != actual).then(|| {
            format!(
                "it differs from the recorded one:\n{}",
                diff(&expected, &actual)
            )
        })
    }

    /// The text of those parts of `request` that this one has recorded.
    fn recorded_parts_of(&self, request: &Self) -> String {
        let mut text = String::new();
        if let (Some(_), Some(system)) = (&self.system, &request.system) {
            text.push_str(system.trim_end());
            text.push('\n');
        }
        if let (Some(_), Some(tools)) = (&self.tools, &request.tools) {
            text.push_str("tools: ");
            text.push_str(tools);
            text.push('\n');
        }
        text + &request.messages
    }
}

/// A unified diff from the scenario's text to the request's.
pub(super) fn diff(expected: &str, actual: &str) -> String {
    // Where both end alike, how they end is not worth a line.
    let end = if expected.ends_with('\n') || actual.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let [expected, actual] = [expected, actual].map(|text| format!("{text}{end}"));
    ah_diff::unified(("scenario", &expected), ("request", &actual))
}
