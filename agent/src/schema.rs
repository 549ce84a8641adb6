//! Validation of a call's input against its tool's schema, after correcting frequent mistakes of models: values sent as
//! text, null for what is left out, and alternative argument names.

use std::sync::OnceLock;

use ah_conversation::{Input, ToolSpec, json};
use serde_json::{Map, Value};

/// Alternative names of the same argument; a tool knows one of them.
const SAME: [&[&str]; 2] = [
    &["path", "file_path", "notebook_path"],
    &["task_id", "bash_id", "shell_id"],
];

/// A tool's schema, compiled on first use.
#[derive(Debug, Default)]
pub(crate) struct Schema(OnceLock<Option<ah_schema::Schema>>);

impl Schema {
    /// Returns the corrected input, or all validation errors in one text for the model.
    pub(crate) fn check(&self, spec: &ToolSpec, input: &Input) -> Result<Input, String> {
        let map = match input {
            Input::Object(map) => map,
            Input::Malformed(Value::String(text)) => {
                return Err(format!(
                    "validation error: the arguments are not valid JSON: {}",
                    start_of(text)
                ));
            }
            Input::Malformed(other) => {
                return Err(format!(
                    "validation error: the arguments must be a JSON object, not {}",
                    start_of(&other.to_string())
                ));
            }
        };
        let value = Value::Object(mended(map.clone(), &spec.input_schema));
        // A tool with an invalid schema accepts any input. That it is invalid matters when it refuses one.
        let compiled = || ah_schema::Schema::assumed(&spec.input_schema).ok();
        let Some(schema) = self.0.get_or_init(compiled) else {
            return Ok(value.into());
        };
        let errors: Vec<String> = schema.faults(&value).iter().map(error_text).collect();
        if errors.is_empty() || ah_schema::Schema::new(&spec.input_schema).is_err() {
            Ok(value.into())
        } else {
            Err(format!("validation error: {}", errors.join("; ")))
        }
    }
}

fn error_text(fault: &ah_schema::Fault) -> String {
    let message = fault.told_of("the value");
    match fault.place().trim_start_matches('/') {
        "" => message,
        place => format!("`{place}`: {message}"),
    }
}

fn mended(mut input: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return input;
    };
    for names in SAME {
        let mut known = names.iter().filter(|name| properties.contains_key(**name));
        if let (Some(known), None) = (known.next(), known.next())
            && !input.contains_key(*known)
            && let Some(value) = names.iter().find_map(|other| input.shift_remove(*other))
        {
            input.insert((*known).to_owned(), value);
        }
    }
    for (name, property) in properties {
        let Some(kind) = property.get("type").and_then(Value::as_str) else {
            continue;
        };
        match input.get(name) {
            Some(Value::String(text)) => {
                if let Some(value) = coerced(text, kind) {
                    input.insert(name.clone(), value);
                }
            }
            Some(Value::Null) if kind != "null" && !is_required(name, schema) => {
                input.shift_remove(name);
            }
            _ => {}
        }
    }
    input
}

fn is_required(name: &str, schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|it| it == name))
}

fn coerced(text: &str, kind: &str) -> Option<Value> {
    let text = text.trim();
    match kind {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text
            .parse::<i64>()
            .map(Value::from)
            .or_else(|_| text.parse::<f64>().map(Value::from))
            .ok(),
        "boolean" => text.parse::<bool>().ok().map(Value::from),
        "array" => json::from_str(text).ok().filter(Value::is_array),
        "object" => json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

fn start_of(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        text.chars().take(SHOWN).chain("…".chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ah_conversation::Truncation;
    use serde_json::json;

    use super::*;

    fn spec(input_schema: Value) -> ToolSpec {
        ToolSpec {
            name: "read".into(),
            description: String::new(),
            input_schema: Arc::new(input_schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        }
    }

    fn check(input: &Value) -> String {
        let spec = spec(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "limit": {"type": "integer", "minimum": 1},
                    "ratio": {"type": "number"},
                    "all": {"type": "boolean"},
                    "mode": {"enum": ["a", "b"]},
                },
                "required": ["path", "mode"],
        }));
        match Schema::default().check(&spec, &input.clone().into()) {
            Ok(input) => input.to_value().to_string(),
            Err(errors) => errors,
        }
    }

    #[test]
    fn frequent_mistakes_of_models_are_corrected() {
        let input =
            json!({"file_path": "x", "mode": "a", "limit": "2", "ratio": " 0.5", "all": "true"});
        assert_eq!(
            check(&input),
            r#"{"mode":"a","limit":2,"ratio":0.5,"all":true,"path":"x"}"#
        );
    }

    #[test]
    fn alternative_argument_names_are_accepted() {
        let spec = spec(json!({
            "type": "object",
            "properties": {"task_id": {"type": "string"}},
            "required": ["task_id"],
        }));
        for (input, expected) in [
            (json!({"shell_id": "a"}), r#"{"task_id":"a"}"#),
            (
                json!({"bash_id": "a", "filter": "x"}),
                r#"{"filter":"x","task_id":"a"}"#,
            ),
            (
                json!({"task_id": "a", "shell_id": "b"}),
                r#"{"task_id":"a","shell_id":"b"}"#,
            ),
        ] {
            let checked = Schema::default().check(&spec, &input.into()).unwrap();
            assert_eq!(checked.to_value().to_string(), expected);
        }
    }

    #[test]
    fn null_stands_for_what_is_left_out_and_text_for_lists_and_objects() {
        let spec = spec(json!({
            "type": "object",
            "properties": {
                "must": {"type": "string"}, "may": {"type": "string"},
                "nothing": {"type": "null"}, "either": {"type": ["string", "null"]},
                "list": {"type": "array"}, "map": {"type": "object"},
            },
            "required": ["must"],
        }));
        let check = |input: Value| match Schema::default().check(&spec, &input.into()) {
            Ok(input) => input.to_value().to_string(),
            Err(error) => error,
        };
        insta::assert_snapshot!(check(json!({
            "must": "a", "may": null, "nothing": null, "either": null, "list": "[1]", "map": "{}",
        })), @r#"{"must":"a","nothing":null,"either":null,"list":[1],"map":{}}"#);
        insta::assert_snapshot!(check(json!({"must": null})), @r#"validation error: `must`: the value is not of type "string""#);
        insta::assert_snapshot!(check(json!({"must": "a", "list": "1"})), @r#"validation error: `list`: the value is not of type "array""#);
    }

    #[test]
    fn a_tool_with_an_invalid_schema_accepts_any_input() {
        for invalid in [
            json!({"type": "object", "properties": {"path": {"type": "text", "minLength": 9}}}),
            json!({"type": "object", "properties": 1, "required": ["other"]}),
            json!({"$schema": "https://example.org/schema", "required": ["other"]}),
            json!({"$ref": "https://example.org/schema", "required": ["other"]}),
        ] {
            let input = json!({"path": "x"});
            let checked = Schema::default().check(&spec(invalid), &input.clone().into());
            assert_eq!(checked.unwrap().to_value(), input);
        }
    }

    #[test]
    fn unknown_arguments_are_passed_on() {
        assert_eq!(
            check(&json!({"path": "x", "mode": "b", "why": 1})),
            r#"{"path":"x","mode":"b","why":1}"#
        );
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        insta::assert_snapshot!(check(&json!({"path": 1, "limit": "two", "all": []})), @r#"validation error: "mode" is a required property; `path`: the value is not of type "string"; `limit`: the value is not of type "integer"; `all`: the value is not of type "boolean""#);
        insta::assert_snapshot!(check(&json!("{\"path\": ")), @r#"validation error: the arguments are not valid JSON: {"path": "#);
        insta::assert_snapshot!(check(&json!([1])), @r#"validation error: the arguments must be a JSON object, not [1]"#);
    }
}
