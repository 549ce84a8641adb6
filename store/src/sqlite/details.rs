//! The `details` columns: what a block or result says of itself, and what the store notes beside it.
//!
//! Both stand in one JSON object, so that `details ->> 'exit_code'` finds what a tool said. Where a tool's own words
//! would be taken for the store's, or are no object, they stand under `details` in it.

use ah_conversation::{MessageId, Origin};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Failure;

/// The names that the store uses.
const RESERVED: [&str; 5] = ["origin", "kept_from", "spool", "blocks", "details"];

/// The content of a `details` column.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Details {
    /// What the block or the tool says.
    pub own: Option<Value>,
    /// Why the message is there, on its first block, where it is not plain from role and content.
    pub origin: Option<Origin>,
    /// The file that holds the whole output.
    pub spool: Option<SpoolNote>,
    /// Whether what the model saw is a list of blocks and not a text.
    pub is_blocks: bool,
}

/// An output in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpoolNote {
    /// Its name in the session's folder of outputs.
    pub file: String,
    /// How many bytes the tool gave.
    pub len: u64,
    /// How many of them the file leaves out.
    pub left_out: u64,
    /// After how many bytes of the file they are missing.
    #[serde(default)]
    pub left_out_at: u64,
    /// The hash of the file.
    pub sha256: String,
}

impl Details {
    /// Only what the block says of itself.
    pub(super) fn own(own: Value) -> Self {
        Self {
            own: Some(own),
            ..Self::default()
        }
    }

    /// The text of the column; `None` if there is nothing to say.
    pub(super) fn encode(self) -> Result<Option<String>, Failure> {
        let mut object = match self.own {
            None => Map::new(),
            Some(Value::Object(own)) if !own.is_empty() && !is_ambiguous(&own) => own,
            Some(other) => Map::from_iter([("details".to_owned(), other)]),
        };
        match self.origin {
            None => {}
            Some(Origin::Summary { kept_from }) => {
                object.insert("origin".to_owned(), "summary".into());
                if let Some(kept_from) = kept_from {
                    object.insert("kept_from".to_owned(), kept_from.as_str().into());
                }
            }
            Some(plain) => {
                object.insert("origin".to_owned(), serde_json::to_value(plain)?);
            }
        }
        if let Some(spool) = self.spool {
            object.insert("spool".to_owned(), serde_json::to_value(spool)?);
        }
        if self.is_blocks {
            object.insert("blocks".to_owned(), true.into());
        }
        if object.is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::to_string(&object)?))
    }

    /// What the text of a column says.
    pub(super) fn decode(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let mut object: Map<String, Value> = serde_json::from_str(text)?;
        let mut take = |name: &str| object.shift_remove(name);
        let kept_from = take("kept_from");
        let origin = match take("origin") {
            None => None,
            Some(Value::String(word)) if word == "summary" => Some(Origin::Summary {
                kept_from: kept_from
                    .as_ref()
                    .and_then(Value::as_str)
                    .map(MessageId::from),
            }),
            Some(word) => Some(serde_json::from_value(word)?),
        };
        let spool = take("spool").map(serde_json::from_value).transpose()?;
        let is_blocks = take("blocks") == Some(Value::Bool(true));
        let own = match take("details") {
            Some(own) => Some(own),
            None => (!object.is_empty()).then_some(Value::Object(object)),
        };
        Ok(Self {
            own,
            origin,
            spool,
            is_blocks,
        })
    }
}

fn is_ambiguous(own: &Map<String, Value>) -> bool {
    RESERVED.iter().any(|name| own.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_says_is_found_under_its_own_name_unless_the_store_uses_it() {
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
    fn a_summary_names_the_tail_that_it_keeps() {
        let summary = |kept_from| Details {
            origin: Some(Origin::Summary { kept_from }),
            ..Details::default()
        };
        for (details, expected) in [
            (summary(None), r#"{"origin":"summary"}"#),
            (
                summary(Some(MessageId::from("m1"))),
                r#"{"origin":"summary","kept_from":"m1"}"#,
            ),
            (
                Details {
                    origin: Some(Origin::FollowUp),
                    ..Details::default()
                },
                r#"{"origin":"follow_up"}"#,
            ),
        ] {
            let text = details.clone().encode().unwrap();
            assert_eq!(text.as_deref(), Some(expected));
            assert_eq!(Details::decode(text.as_deref()).unwrap(), details);
        }
        assert_eq!(Details::default().encode().unwrap(), None);
    }
}
