//! What a Lua file says of its tool, checked: a fault here is for whoever wrote the file, who is told the line.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{DisplayKey, ToolSpec, Truncation};
use mlua::{Function, Lua, Table, Value};
use serde_json::{Map, Value as Json, json};

use super::json;
use super::leash::Limits;

/// As long as the strictest server allows.
const MAX_NAME: usize = 64;
/// Longer descriptions and guidance are refused, as those of programs are cut: they stand in every request.
const MAX_DESCRIPTION: usize = 10_000;
const MAX_GUIDANCE: usize = 20_000;
/// The longest time that a call may ask for: a day.
const MAX_SECONDS: u64 = 24 * 60 * 60;

/// What a file says.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) spec: ToolSpec,
    pub(super) limits: Limits,
    pub(super) is_read_only: bool,
    pub(super) is_autoloaded: bool,
}

/// What is wrong, and the word in the file beside which it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) text: String,
    pub(super) near: &'static str,
}

/// What a file turned out to be.
pub(super) enum Returned {
    /// A tool, and its function.
    Tool(Box<Contract>, Function),
    /// Something that other files may use.
    Module,
}

/// Reads what a file returned.
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

/// A table with none of these is a module that other files use; with some of them it is a tool that may lack others.
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
    match text.len() <= most {
        true => Ok(text),
        false => Err(Fault {
            text: format!("`{near}` has {} bytes, more than {most}", text.len()),
            near,
        }),
    }
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

/// The schema as the model gets it.
fn schema(lua: &Lua, value: Value) -> Result<Json, Fault> {
    let fault = |text: String| Fault {
        text,
        near: "input_schema",
    };
    if !value.is_table() {
        return Err(wrong("input_schema", "a table", &value));
    }
    let schema = json::from_lua(lua, value)
        .map_err(|reason| fault(format!("`input_schema` is no JSON Schema: {reason}")))?;
    let Json::Object(mut schema) = with_arrays(schema) else {
        return Err(fault(
            "`input_schema` is no JSON Schema: it is a list".to_owned(),
        ));
    };
    if schema.entry("type").or_insert_with(|| json!("object")) != "object" {
        return Err(fault("`input_schema.type` must be \"object\"".to_owned()));
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = Json::Object(schema);
    // A server would refuse the whole conversation for it.
    match jsonschema::draft202012::meta::validate(&schema) {
        Ok(()) => {}
        Err(error) => {
            let place = error.instance_path().to_string().replace('/', ".");
            let text = format!("`input_schema{place}` is no JSON Schema: {error}");
            return Err(fault(text));
        }
    }
    Ok(schema)
}

/// An empty Lua table is neither list nor map; where a schema can only have a list, it is one.
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
                let value = match is_empty && LISTS.contains(&key.as_str()) {
                    true => json!([]),
                    false => with_arrays(value),
                };
                (key, value)
            });
            Json::Object(entries.collect())
        }
        other => other,
    }
}

/// The argument that stands for a call: one that is known by its name, or the first that is required.
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
