//! Arguments of the built-in tools: one type per tool gives both the JSON Schema that the model is sent and the values
//! that the tool works with.
//!
//! A schema is sent with every request, so it has nothing in it that a model does not need. Where the two interfaces
//! differ, the derived schema is changed by [`rename`], [`require`] or [`leave_out`].

use std::sync::Arc;

use ah_conversation::{ToolSpec, ToolUse, Truncation};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Unsigned integer that may also come as a whole float or as digits in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let digits = match Value::deserialize(source)? {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        let whole = digits.strip_suffix(".0").unwrap_or(&digits);
        let count = whole.parse().map_err(|_| {
            D::Error::custom(format!("`{digits}` is not a whole number, at least 0"))
        })?;
        Ok(Self(count))
    }
}

impl JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "integer" })
    }
}

/// Parses the input of `call`.
///
/// # Errors
///
/// If the input does not fit; the text is for the model.
pub(crate) fn parse<A: DeserializeOwned>(call: &ToolUse) -> Result<A, String> {
    serde_json::from_value(call.input.to_value())
        .map_err(|error| format!("invalid input of {}: {error}", call.name))
}

/// Returns the specification of a tool with the default truncation and without a display key.
pub(crate) fn spec(name: &str, description: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.trim_end().to_owned(),
        input_schema: Arc::new(schema),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    }
}

/// Returns the schema of `A`, an object whose descriptions are the doc comments of its fields.
pub(crate) fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    RecursiveTransform(compact).transform(&mut schema);
    schema.into()
}

/// Renames the property `from` to `to`, which keeps its place.
pub(crate) fn rename(schema: &mut Value, from: &str, to: &str) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let renamed =
            |(name, property)| (if name == from { to.to_owned() } else { name }, property);
        *properties = std::mem::take(properties)
            .into_iter()
            .map(renamed)
            .collect();
    }
    if let Some(Value::Array(required)) = schema.get_mut("required")
        && let Some(name) = required.iter_mut().find(|name| *name == from)
    {
        *name = json!(to);
    }
}

/// Makes a property required: `name`, of the object at the JSON pointer `at`.
pub(crate) fn require(schema: &mut Value, at: &str, name: &str) {
    if let Some(Value::Array(required)) = schema.pointer_mut(&format!("{at}/required")) {
        required.push(json!(name));
    }
}

/// Removes an optional property, which is still accepted: `name`, of the object at the JSON pointer `at`.
pub(crate) fn leave_out(schema: &mut Value, at: &str, name: &str) {
    if let Some(Value::Object(properties)) = schema.pointer_mut(&format!("{at}/properties")) {
        properties.shift_remove(name);
    }
}

/// Gives a tool another description, and leaves out the optional arguments in `unused`, which are still accepted.
pub(crate) fn brief(spec: &mut ToolSpec, description: String, unused: &[&str]) {
    let schema = Arc::make_mut(&mut spec.input_schema);
    unused.iter().for_each(|name| leave_out(schema, "", name));
    spec.description = description;
}

/// Removes the keys that a model has no use for. `required` says which arguments may be absent, so `null` goes too.
fn compact(schema: &mut Schema) {
    let Some(keys) = schema.as_object_mut() else {
        return;
    };
    for noise in ["title", "format", "default"] {
        keys.shift_remove(noise);
    }
    if keys.get("additionalProperties") == Some(&Value::Bool(true)) {
        keys.shift_remove("additionalProperties");
    }
    if let Some(Value::Array(values)) = keys.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = keys.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            keys.insert("type".to_owned(), only);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn counts_are_read_from_what_models_write() {
        for (input, expected) in [
            (json!(7), Ok(7)),
            (json!(7.0), Ok(7)),
            (json!(" 7 "), Ok(7)),
            (json!(u64::MAX), Ok(u64::MAX)),
            (json!(-1), Err("`-1` is not a whole number, at least 0")),
            (json!(1.5), Err("`1.5` is not a whole number, at least 0")),
            (json!("x"), Err("`x` is not a whole number, at least 0")),
            (json!(true), Err("`true` is not a whole number, at least 0")),
        ] {
            let count = serde_json::from_value::<Count>(input.clone());
            let count = count
                .map(|Count(count)| count)
                .map_err(|error| error.to_string());
            assert_eq!(
                count.as_ref().copied().map_err(String::as_str),
                expected,
                "{input}"
            );
        }
    }

    #[test]
    fn a_schema_says_nothing_that_a_model_does_not_need() {
        #[derive(Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only the schema is of interest")]
        struct Arguments {
            /// The title
            title: String,
            #[schemars(range(min = 0))]
            default: Option<Count>,
            #[serde(default)]
            is_all: bool,
            #[serde(default)]
            format: Vec<Form>,
            form: Option<Form>,
            #[schemars(required, length(min = 1))]
            any_text: Option<String>,
            any: Map<String, Value>,
        }
        #[derive(Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        enum Form {
            Long,
            Short,
        }
        let mut derived = schema::<Arguments>();
        let form = json!({ "type": "string", "enum": ["long", "short"] });
        let mut expected = json!({
            "type": "object",
            "properties": {
                "title": { "type": "string", "description": "The title" },
                "default": { "type": "integer", "minimum": 0 },
                "isAll": { "type": "boolean" },
                "format": { "type": "array", "items": form },
                "form": form,
                "anyText": { "type": "string", "minLength": 1 },
                "any": { "type": "object" },
            },
            "required": ["title", "anyText", "any"],
        });
        assert_eq!(derived, expected);
        rename(&mut derived, "title", "heading");
        require(&mut derived, "", "isAll");
        leave_out(&mut derived, "", "form");
        let properties = expected["properties"].as_object_mut().unwrap();
        let title = properties.shift_remove("title").unwrap();
        properties.insert("heading".to_owned(), title);
        properties.shift_remove("form");
        expected["required"] = json!(["heading", "anyText", "any", "isAll"]);
        assert_eq!(derived, expected);
    }
}
