//! The `details` columns: details of a block or result, and metadata of the store.
//!
//! Both are in one JSON object, so that `details ->> 'exit_code'` finds a tool's detail. If a tool's details are not an
//! object, or use a name of the store, they are nested under `details`.

use ah_conversation::{JsonText, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Failure;
use crate::paths::is_file_name;

/// Names used by the store, as they are in a text.
const RESERVED: [&str; 7] = [
    "\"origin\"",
    "\"kept_from\"",
    "\"spool\"",
    "\"blocks\"",
    "\"all_lines\"",
    "\"output_in\"",
    "\"details\"",
];
/// Length in bytes from which an output is not repeated in the details.
const WORTH_LEAVING_OUT: usize = 100;

/// Content of a `details` column.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Details {
    /// Details of the block or the tool.
    pub own: Option<JsonText>,
    /// File with the full output.
    pub spool: Option<SpoolNote>,
    /// Whether the model saw a list of blocks rather than a text.
    pub is_blocks: bool,
    /// Number of lines of the whole text, if the model saw a part of it.
    pub lines: Option<u64>,
    /// Member of `own` that is null here, since its value is the full output.
    pub output_in: Option<String>,
}

/// Reference to an output in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpoolNote {
    /// File name in the session's folder of outputs.
    pub file: String,
    /// Length of the output in bytes.
    pub len: u64,
    /// Number of bytes missing from the file.
    pub left_out: u64,
    /// Offset in the file at which they are missing.
    #[serde(default)]
    pub left_out_at: u64,
    /// SHA-256 of the file.
    pub sha256: String,
}

impl Details {
    /// Returns details without metadata of the store.
    pub(super) fn own(own: impl Into<JsonText>) -> Self {
        Self {
            own: Some(own.into()),
            ..Self::default()
        }
    }

    /// Leaves out the member that is the full output, if there is one.
    pub(super) fn leave_out(&mut self, output: &str) {
        let may_have = |own: &&JsonText| own.as_str().len() > output.len();
        if output.len() < WORTH_LEAVING_OUT {
            return;
        }
        let Some(Value::Object(mut own)) = self.own.as_ref().filter(may_have).map(JsonText::value)
        else {
            return;
        };
        if let Some((name, value)) = own.iter_mut().find(|(_, value)| **value == output) {
            self.output_in = Some(name.clone());
            *value = Value::Null;
            self.own = Some(JsonText::from(Value::Object(own)));
        }
    }

    /// Returns the details of the block or the tool; `output` is the full output, if it is a text.
    pub(super) fn whole(self, output: Option<&str>) -> Option<JsonText> {
        let (Some(name), Some(output)) = (self.output_in, output) else {
            return self.own;
        };
        let mut own = self.own?.value();
        if let Some(left_out) = own.get_mut(name) {
            *left_out = output.into();
        }
        Some(JsonText::from(own))
    }

    /// Returns the text of the column; `None` if the details are empty.
    pub(super) fn encode(self) -> Result<Option<String>, Failure> {
        if self.spool.is_none()
            && !self.is_blocks
            && self.lines.is_none()
            && self.output_in.is_none()
            && let Some(own) = &self.own
            && is_plain(own.as_str())
        {
            return Ok(Some(own.as_str().to_owned()));
        }
        let mut object = match self.own.map(|own| own.value()) {
            None => Map::new(),
            Some(Value::Object(own)) if !own.is_empty() && !is_ambiguous(&own) => own,
            Some(other) => Map::from_iter([("details".to_owned(), other)]),
        };
        if let Some(spool) = self.spool {
            object.insert("spool".to_owned(), serde_json::to_value(spool)?);
        }
        if self.is_blocks {
            object.insert("blocks".to_owned(), true.into());
        }
        if let Some(lines) = self.lines {
            object.insert("all_lines".to_owned(), lines.into());
        }
        if let Some(name) = self.output_in {
            object.insert("output_in".to_owned(), name.into());
        }
        if object.is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::to_string(&object)?))
    }

    /// Parses the text of a column.
    pub(super) fn decode(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        if is_plain(text) {
            return Ok(Self::own(JsonText::parse(text)?));
        }
        let mut object: Map<String, Value> = json::from_str(text)?;
        let mut take = |name: &str| object.shift_remove(name);
        // Of the message, on its first block, as earlier versions wrote it.
        let _ = (take("origin"), take("kept_from"));
        let spool = take("spool").map(serde_json::from_value).transpose()?;
        // This program stores nothing else: any other could name a place elsewhere.
        let spool = spool.filter(|spool: &SpoolNote| is_file_name(&spool.file));
        let is_blocks = take("blocks") == Some(Value::Bool(true));
        let lines = take("all_lines").and_then(|lines| lines.as_u64());
        let output_in = take("output_in");
        let mut own = match take("details") {
            Some(own) => Some(own),
            None => (!object.is_empty()).then_some(Value::Object(object)),
        };
        let is_left_out =
            |name: &&str| own.as_ref().and_then(|own| own.get(name)) == Some(&Value::Null);
        let name = output_in.as_ref().and_then(Value::as_str);
        let name = name.filter(is_left_out).map(str::to_owned);
        // Earlier versions did not keep the name for themselves.
        if let (Some(of_tool), None, Some(Value::Object(own))) = (output_in, &name, &mut own) {
            own.insert("output_in".to_owned(), of_tool);
        }
        Ok(Self {
            own: own.map(JsonText::from),
            spool,
            is_blocks,
            lines,
            output_in: name,
        })
    }
}

/// Whether a text, if it is JSON, is an object of a tool's alone, so that it need not be looked into.
fn is_plain(text: &str) -> bool {
    text.starts_with("{\"") && !RESERVED.iter().any(|name| text.contains(name))
}

fn is_ambiguous(own: &Map<String, Value>) -> bool {
    let mut names = RESERVED.iter().map(|name| name.trim_matches('"'));
    names.any(|name| own.contains_key(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_of_a_tool_keep_their_names_unless_the_store_uses_them() {
        for (own, expected) in [
            (json!({"exit_code": 1}), r#"{"exit_code":1,"blocks":true}"#),
            (json!({}), r#"{"details":{},"blocks":true}"#),
            (json!(null), r#"{"details":null,"blocks":true}"#),
            (
                json!({"spool": 1}),
                r#"{"details":{"spool":1},"blocks":true}"#,
            ),
            (
                json!({"details": 1}),
                r#"{"details":{"details":1},"blocks":true}"#,
            ),
        ] {
            let details = Details {
                is_blocks: true,
                ..Details::own(own)
            };
            let text = details.clone().encode().unwrap();
            assert_eq!(text.as_deref(), Some(expected));
            assert_eq!(Details::decode(text.as_deref()).unwrap(), details);
        }
    }

    #[test]
    fn an_output_is_not_repeated_in_the_details() {
        let output = "line\n".repeat(100);
        for (own, copies) in [
            (json!({"stdout": output, "exit_code": 0}), 0),
            (json!({"code": 1, "text": output, "stdout": output}), 1),
            (json!({"stdout": format!("{output}."), "exit_code": 0}), 1),
            (json!([output]), 1),
            (json!(output), 1),
            (json!({"stdout": output, "output_in": "x"}), 0),
        ] {
            let mut details = Details::own(own.clone());
            details.leave_out(&output);
            let text = details.encode().unwrap().unwrap();
            assert_eq!(text.matches("line").count(), copies * 100, "{text}");
            let read = Details::decode(Some(&text)).unwrap();
            assert_eq!(read.whole(Some(&output)), Some(JsonText::from(own)));
        }
        let mut short = Details::own(json!({"stdout": "short"}));
        short.leave_out("short");
        assert_eq!(short, Details::own(json!({"stdout": "short"})));
    }

    #[test]
    fn a_tool_of_an_earlier_version_may_have_had_the_name() {
        let text = r#"{"name":null,"output_in":"other"}"#;
        let read = Details::decode(Some(text)).unwrap();
        assert_eq!(
            read.whole(Some("the output")),
            Some(JsonText::parse(text).unwrap())
        );
    }

    #[test]
    fn the_origin_of_earlier_versions_is_no_detail() {
        for text in [
            r#"{"origin":"follow_up"}"#,
            r#"{"origin":"summary","kept_from":"m1"}"#,
        ] {
            assert_eq!(Details::decode(Some(text)).unwrap(), Details::default());
        }
        assert_eq!(Details::default().encode().unwrap(), None);
    }
}
