//! What the tools, prompts and resources of the suite answer. Pure.

use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A picture of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A sound without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// Prompts with their arguments.
pub const PROMPTS: [(&str, &[&str]); 5] = [
    ("test_simple_prompt", &[]),
    ("test_prompt_with_arguments", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", &["resourceUri"]),
    ("test_prompt_with_image", &[]),
    ("test_input_required_result_prompt", &[]),
];

/// Tools whose result is always the same.
const TOOLS: [&str; 7] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_logging_tool",
];
/// Tools that send something meanwhile, or ask.
const OTHERS: [&str; 8] = [
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_streaming_elicitation",
];

/// Returns the names of all tools of the suite but the one with a schema.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter().chain(OTHERS).chain(crate::rounds::TOOLS)
}

/// Returns a value of the SDK.
///
/// # Errors
///
/// If it does not have that form.
pub fn of_json<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Returns a result that is none of several rounds; older clients are not sent the field.
pub fn complete(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the result of a tool.
pub fn called(name: &str) -> Option<Value> {
    let png = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let embedded = |uri: &str, kind: &str, words: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}});
    let content = match name {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![png],
        "test_audio_content" => {
            vec![json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"})]
        }
        "test_embedded_resource" => vec![embedded(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            text("Multiple content types test:"),
            png,
            embedded(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        "test_error_handling" => {
            let words = text("This tool intentionally returns an error for testing");
            return Some(json!({"isError": true, "content": [words]}));
        }
        "test_logging_tool" | "json_schema_2020_12_tool" => vec![text("done")],
        _ => return None,
    };
    Some(json!({"content": content}))
}

/// Returns the tool with an argument that is a header as well.
pub fn header_tool() -> Value {
    json!({
        "name": "header_tool",
        "description": "A tool with an argument that is a header as well.",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        },
    })
}

/// Returns the tool whose schema has to arrive whole.
pub fn schema_tool() -> Value {
    json!({
        "name": "json_schema_2020_12_tool",
        "description": "A tool with a schema of JSON Schema 2020-12.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
                "street": {"type": "string"}, "city": {"type": "string"},
            }}},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    })
}

/// Returns the messages of a prompt.
pub fn prompt(name: &str, arguments: &JsonObject) -> Option<Value> {
    let given = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            given("arg1"),
            given("arg2")
        ))],
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": given("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => vec![text("With this context, go on.")],
        _ => return None,
    };
    let messages = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}));
    Some(json!({"messages": messages.collect::<Vec<_>>()}))
}

/// Returns the contents of a resource.
pub fn resource(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" | "test://watched-resource" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        uri => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(json!({"contents": [content]}))
}

fn asks(message: &str, properties: &Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"mode": "form", "message": message, "requestedSchema": schema})
}

/// Returns a form of two texts.
pub fn form(message: &str) -> Value {
    let field = |about: &str| json!({"type": "string", "description": about});
    let fields =
        json!({"username": field("User's response"), "email": field("User's email address")});
    asks(message, &fields, &["username", "email"])
}

/// Returns a form with a default of each kind.
pub fn defaults() -> Value {
    let fields = json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    });
    asks("Fill it in", &fields, &[])
}

/// Returns a form with a choice of each kind.
pub fn choices() -> Value {
    let named = |values: [&str; 3], titles: [&str; 3]| {
        let both = values.into_iter().zip(titles);
        both.map(|(value, title)| json!({"const": value, "title": title}))
            .collect::<Vec<_>>()
    };
    let plain = ["option1", "option2", "option3"];
    let values = ["value1", "value2", "value3"];
    let fields = json!({
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": named(values, ["First Option", "Second Option", "Third Option"])},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {
            "anyOf": named(values, ["First Choice", "Second Choice", "Third Choice"]),
        }},
    });
    asks("Choose", &fields, &[])
}
