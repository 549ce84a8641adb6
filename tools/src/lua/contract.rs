//! Checks the table that a Lua file returns. Errors are for the author of the file, so they come with a line.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{DisplayKey, ToolSpec, Truncation};
use mlua::{Function, Lua, Table, Value};
use serde_json::{Map, Value as Json, json};

use super::json;
use super::leash::Limits;

/// Maximum length of a name: the limit of the strictest server.
const MAX_NAME: usize = 64;
/// Maximum length of a description, in bytes. Descriptions and guidance are part of every request.
const MAX_DESCRIPTION: usize = 10_000;
/// Maximum length of `system_prompt`, in bytes.
const MAX_GUIDANCE: usize = 20_000;
/// Maximum time limit of a call: a day.
const MAX_SECONDS: u64 = 24 * 60 * 60;

/// The tool that a file describes.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) spec: ToolSpec,
    pub(super) limits: Limits,
    pub(super) is_read_only: bool,
    pub(super) is_autoloaded: bool,
}

/// An error, and the word in the file that it concerns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) text: String,
    pub(super) near: &'static str,
}

/// The value that a file returned.
pub(super) enum Returned {
    /// A tool and its function `execute`.
    Tool(Box<Contract>, Function),
    /// A module for other files.
    Module,
}

/// Checks the value that a file returned.
pub(super) fn read(lua: &Lua, returned: &Value) -> Result<Returned, Fault> {
    let table = match returned {
        Value::Table(table) if is_meant_as_tool(table) => table,
        Value::Table(_) | Value::Function(_) => return Ok(Returned::Module),
        other => {
            let text = format!("a tool's file returns a table, not {}", other.type_name());
            return Err(Fault {
                text,
                near: "return",
            });
        }
    };
    let execute = match field(table, "execute")? {
        Value::Function(execute) => execute,
        other => return Err(wrong("execute", "a function", &other)),
    };
    let input_schema = schema(lua, field(table, "input_schema")?)?;
    let contract = Contract {
        spec: ToolSpec {
            name: name(text(table, "name")?)?,
            description: short(text(table, "description")?, "description", MAX_DESCRIPTION)?,
            key: key(&input_schema),
            input_schema: Arc::new(input_schema),
            guidance: match field(table, "system_prompt")? {
                Value::Nil => None,
                _ => Some(short(
                    text(table, "system_prompt")?,
                    "system_prompt",
                    MAX_GUIDANCE,
                )?)
                .filter(|text| !text.trim().is_empty()),
            },
            truncation: Truncation::DEFAULT,
        },
        limits: limits(table)?,
        is_read_only: flag(table, "read_only")?.unwrap_or(false),
        is_autoloaded: flag(table, "autoload")?.unwrap_or(true),
    };
    Ok(Returned::Tool(Box::new(contract), execute))
}

/// Whether the table describes a tool, perhaps an incomplete one; otherwise it is a module.
fn is_meant_as_tool(table: &Table) -> bool {
    ["execute", "input_schema", "description"]
        .iter()
        .any(|key| {
            table
                .raw_get(*key)
                .is_ok_and(|value: Value| !value.is_nil())
        })
}

fn field(table: &Table, name: &'static str) -> Result<Value, Fault> {
    table.get(name).map_err(|error| Fault {
        text: format!("`{name}`: {error}"),
        near: name,
    })
}

fn wrong(near: &'static str, expected: &str, found: &Value) -> Fault {
    let text = match found {
        Value::Nil => format!("a tool needs `{near}`, {expected}"),
        other => format!("`{near}` must be {expected}, not {}", other.type_name()),
    };
    Fault { text, near }
}

fn text(table: &Table, name: &'static str) -> Result<String, Fault> {
    match field(table, name)? {
        Value::String(text) => Ok(text.to_string_lossy()),
        other => Err(wrong(name, "a string", &other)),
    }
}

fn short(text: String, near: &'static str, most: usize) -> Result<String, Fault> {
    if text.len() > most {
        return Err(Fault {
            text: format!("`{near}` has {} bytes, more than {most}", text.len()),
            near,
        });
    }
    Ok(text)
}

fn flag(table: &Table, name: &'static str) -> Result<Option<bool>, Fault> {
    match field(table, name)? {
        Value::Nil => Ok(None),
        Value::Boolean(value) => Ok(Some(value)),
        other => Err(wrong(name, "true or false", &other)),
    }
}

fn name(name: String) -> Result<String, Fault> {
    let is_usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_usable) {
        return Ok(name);
    }
    Err(Fault {
        text: format!(
            "`{name}` cannot be the name of a tool: 1 to {MAX_NAME} letters, digits, `_` and `-`"
        ),
        near: "name",
    })
}

fn limits(table: &Table) -> Result<Limits, Fault> {
    let given = match field(table, "limits")? {
        Value::Nil => return Ok(Limits::DEFAULT),
        Value::Table(given) => given,
        other => return Err(wrong("limits", "a table", &other)),
    };
    let count = |name: &'static str| match given.get::<Option<u64>>(name) {
        Ok(Some(0)) | Err(_) => Err(Fault {
            text: format!("`limits.{name}` must be a whole number above 0"),
            near: "limits",
        }),
        Ok(count) => Ok(count),
    };
    let defaults = Limits::DEFAULT;
    let megabytes = count("megabytes")?.and_then(|count| usize::try_from(count).ok());
    Ok(Limits {
        time: count("seconds")?.map_or(defaults.time, |seconds| {
            Duration::from_secs(seconds.min(MAX_SECONDS))
        }),
        instructions: count("instructions")?.unwrap_or(defaults.instructions),
        memory: megabytes.map_or(defaults.memory, |count| count.saturating_mul(1 << 20)),
    })
}

/// Returns the input schema for the model.
fn schema(lua: &Lua, value: Value) -> Result<Json, Fault> {
    let fault = |text: String| Fault {
        text,
        near: "input_schema",
    };
    if !value.is_table() {
        return Err(wrong("input_schema", "a table", &value));
    }
    let schema = json::from_lua(lua, value)
        .map_err(|reason| fault(format!("`input_schema` is not a JSON Schema: {reason}")))?;
    let Json::Object(mut schema) = with_arrays(schema) else {
        return Err(fault(
            "`input_schema` is not a JSON Schema: it is a list".to_owned(),
        ));
    };
    if schema.entry("type").or_insert_with(|| json!("object")) != "object" {
        return Err(fault("`input_schema.type` must be \"object\"".to_owned()));
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = Json::Object(schema);
    // With an invalid schema a server would refuse every request.
    match ah_schema::check(&schema) {
        Ok(()) => Ok(schema),
        Err(error) => {
            let place = error.place().replace('/', ".");
            let text = format!("`input_schema{place}` is not a JSON Schema: {error}");
            Err(fault(text))
        }
    }
}

/// Converts empty tables to lists where a schema requires a list: an empty Lua table may be either.
fn with_arrays(schema: Json) -> Json {
    const LISTS: [&str; 7] = [
        "required",
        "enum",
        "examples",
        "oneOf",
        "anyOf",
        "allOf",
        "prefixItems",
    ];
    match schema {
        Json::Array(items) => items.into_iter().map(with_arrays).collect(),
        Json::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| {
                let is_empty = value.as_object().is_some_and(Map::is_empty);
                let value = if is_empty && LISTS.contains(&key.as_str()) {
                    json!([])
                } else {
                    with_arrays(value)
                };
                (key, value)
            });
            Json::Object(entries.collect())
        }
        other => other,
    }
}

/// Returns the argument that represents a call on screen: one with a known name, or the first required one.
fn key(schema: &Json) -> Option<DisplayKey> {
    let properties = schema["properties"].as_object()?;
    let known = |name: &&str| properties.contains_key(*name);
    if let Some(name) = ["path", "file_path"].into_iter().find(known) {
        return Some(DisplayKey::Path(name));
    }
    if properties.contains_key("command") {
        return Some(DisplayKey::Command("command"));
    }
    let first = schema["required"].as_array()?.first()?.as_str()?;
    Some(DisplayKey::Text(first.to_owned()))
}
