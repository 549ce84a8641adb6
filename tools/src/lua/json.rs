//! The module `json`, and how values pass between Lua and JSON.

use ah_conversation::json;
use mlua::serde::{de, ser};
use mlua::{Lua, LuaSerdeExt, LuaString, Table, Value};

use super::module::{Module, ModuleResult, module_result};

/// Deeper nesting is a fault.
const MAX_DEPTH: usize = 100;

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.function(&["encode"], lua.create_function(encode)?)?;
    module.function(&["decode"], lua.create_function(decode)?)?;
    module.function(&["array"], lua.create_function(array)?)?;
    module.set("null", lua.null())?;
    Ok(module)
}

fn encode(
    lua: &Lua,
    (value, options): (Value, Option<Table>),
) -> mlua::Result<ModuleResult<String>> {
    let is_pretty = match options {
        Some(options) => options.get("pretty")?,
        None => false,
    };
    let text = from_lua(lua, value).and_then(|value| {
        let text = if is_pretty {
            serde_json::to_string_pretty(&value)
        } else {
            serde_json::to_string(&value)
        };
        text.map_err(|error| error.to_string())
    });
    Ok(module_result(text))
}

fn decode(lua: &Lua, text: LuaString) -> mlua::Result<ModuleResult<Value>> {
    match json::from_slice::<serde_json::Value>(&text.as_bytes()) {
        Ok(value) => Ok((Some(to_lua(lua, &value)?), None)),
        Err(error) => Ok((None, Some(error.to_string()))),
    }
}

/// Marks a table as an array, so that it is written as one even when it is empty.
fn array(lua: &Lua, table: Option<Table>) -> mlua::Result<Table> {
    let table = match table {
        Some(table) => table,
        None => lua.create_table()?,
    };
    table.set_metatable(Some(lua.array_metatable()))?;
    Ok(table)
}

/// The JSON value that a Lua value is; the keys of objects in order, since tables have none.
pub(super) fn from_lua(lua: &Lua, value: Value) -> Result<serde_json::Value, String> {
    let options = de::Options::new()
        .recursion_limit(MAX_DEPTH)
        .sort_keys(true);
    let read = lua.from_value_with(value.clone(), options);
    let read = read.map_err(|error| match error {
        mlua::Error::DeserializeError(message) => message,
        other => other.to_string(),
    })?;
    // What is nested too deeply, or in itself, is refused by now.
    match lost(&value)? {
        Some(key) => Err(format!(
            "a table has items and the key {key}: it is neither a list nor an object"
        )),
        None => Ok(read),
    }
}

/// Returns a key that a table has beside its items, which would be lost.
fn lost(value: &Value) -> Result<Option<String>, String> {
    let Value::Table(table) = value else {
        return Ok(None);
    };
    let items = table.raw_len();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let is_item = matches!(key, Value::Integer(at) if usize::try_from(at).is_ok_and(|at| (1..=items).contains(&at)));
        if items > 0 && !is_item {
            return key
                .to_string()
                .map(|key| Some(format!("`{key}`")))
                .map_err(|error| error.to_string());
        }
        if let Some(key) = lost(&value)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The Lua value of a JSON value; what is `null` there is `nil` here.
pub(super) fn to_lua(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    let options = ser::Options::new()
        .serialize_none_to_null(false)
        .serialize_unit_to_null(false);
    lua.to_value_with(value, options)
}
