//! JSON that is kept as text until somebody looks into it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;

/// A JSON value as text. A long session holds thousands that hardly anything looks into, and as a tree a value takes ten
/// times the memory of its text.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Takes a text.
    ///
    /// # Errors
    ///
    /// If it is not JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        json::from_str(text).map(Self)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns the value.
    pub fn value(&self) -> Value {
        json::from_str(self.as_str()).unwrap_or_default()
    }

    /// Returns the value of a key, which JSON writes without escapes, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<Value> {
        // Most have no such key, which a search tells sooner than a parser.
        if !self.as_str().contains(key) && !self.as_str().contains("\\u") {
            return None;
        }
        match self.value() {
            Value::Object(mut object) => object.swap_remove(key),
            _ => None,
        }
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        // The text of a value is JSON, without exception.
        let text = RawValue::from_string(value.to_string());
        Self(text.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl PartialEq for JsonText {
    /// Whether the texts are equal.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for JsonText {
    /// By way of the value: serde cannot hand on the text of a part of an enum with tags.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_survives_as_text() {
        let value = json!({"b": 1, "a": [null, "\u{2028}\"", 1.5e300], "c": {"d": u64::MAX}});
        let text = JsonText::from(&value);
        assert_eq!(text.value(), value);
        assert_eq!(JsonText::parse(&value.to_string()).unwrap(), text);
        assert_eq!(serde_json::to_value(&text).unwrap(), value);
        let written = serde_json::to_string(&text).unwrap();
        assert_eq!(written, text.as_str());
        assert_eq!(serde_json::from_str::<JsonText>(&written).unwrap(), text);
        assert_eq!(text.get("b"), Some(json!(1)));
        assert_eq!(text.get("e"), None);
        assert_eq!(JsonText::from(json!([1])).get("b"), None);
        assert_eq!(JsonText::from(json!(["b"])).get("b"), None);
        let escaped = JsonText::parse(r#"{"\u0062": 2}"#).unwrap();
        assert_eq!(escaped.get("b"), Some(json!(2)));
        let half = JsonText::parse(r#"["\ud83d"]"#).unwrap();
        assert_eq!(half.as_str(), r#"["\ufffd"]"#);
        JsonText::parse("{").unwrap_err();
    }
}
