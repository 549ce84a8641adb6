//! Removes the parts of a schema that the validator cannot check exactly.
//!
//! Its regular expressions support neither look-around nor back-references, which would make the whole schema
//! unusable. Its `multipleOf` divides binary floating-point numbers, and would refuse `0.07` as a multiple of `0.01`.

use serde_json::{Map, Value};

/// Keywords whose values are data.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose values are maps of schemas by name.
const NAMED: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Returns the schema without these parts.
pub(crate) fn without(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(without).collect(),
        Value::Object(keywords) => Value::Object(of_object(keywords)),
        other => other.clone(),
    }
}

fn of_object(keywords: &Map<String, Value>) -> Map<String, Value> {
    let named = keywords.get("patternProperties").and_then(Value::as_object);
    let is_open = named.is_some_and(|named| named.keys().any(|name| needs_more(name)));
    let mut kept = Map::new();
    for (keyword, value) in keywords {
        let value = match (keyword.as_str(), value) {
            ("pattern", Value::String(pattern)) if needs_more(pattern) => continue,
            ("multipleOf", Value::Number(number)) if !is_whole(number) => continue,
            // Names that only a removed pattern allows are unknown.
            ("additionalProperties" | "unevaluatedProperties", _) if is_open => continue,
            (data, value) if DATA.contains(&data) => value.clone(),
            (named, Value::Object(schemas)) if NAMED.contains(&named) => schemas
                .iter()
                .filter(|(name, _)| named != "patternProperties" || !needs_more(name))
                .map(|(name, schema)| (name.clone(), without(schema)))
                .collect(),
            (_, value) => without(value),
        };
        kept.insert(keyword.clone(), value);
    }
    kept
}

/// Whether a pattern uses look-around or a back-reference.
fn needs_more(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(']) {
        let found = &rest[at..];
        if ["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|start| found.starts_with(start))
        {
            return true;
        }
        let mut chars = found.chars();
        let escaped = (chars.next() == Some('\\')).then(|| chars.next()).flatten();
        if matches!(escaped, Some('1'..='9' | 'k')) {
            return true;
        }
        rest = chars.as_str();
    }
    false
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    #[test]
    fn patterns_of_more_than_the_library_knows_are_left_out() {
        for (pattern, expected) in [
            ("^[a-z]+$", false),
            ("^(?:a|b)$", false),
            (r"\(?=", false),
            (r"\\1", false),
            (r"\d{4}", false),
            ("^(?!x-)", true),
            ("(?<=a)b", true),
            (r"(a)\1", true),
            (r"(?<a>a)\k<a>", true),
        ] {
            assert_eq!(needs_more(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn the_rest_of_the_schema_counts() {
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "name": {"type": "string", "pattern": "^(?!x)", "maxLength": 3},
                "price": {"type": "number", "multipleOf": 0.01, "minimum": 0},
                "kind": {"const": {"pattern": "(?!x)"}},
            },
            "patternProperties": {"^(?!x-)": {"type": "string"}, "^y": {"type": "integer"}},
            "additionalProperties": false,
        });
        let schema = Schema::new(&schema).unwrap();
        for (value, is_valid) in [
            (json!({"pattern": "a", "name": "abc", "price": 0.07}), true),
            (json!({"kind": {"pattern": "(?!x)"}, "z": "any"}), true),
            (json!({"pattern": 1}), false),
            (json!({"name": "abcd"}), false),
            (json!({"price": -1}), false),
            (json!({"kind": {}}), false),
            (json!({"y": "a"}), false),
        ] {
            assert_eq!(schema.is_valid(&value), is_valid, "{value}");
        }
    }
}
