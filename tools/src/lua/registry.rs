//! Built-in modules by name: their names here, and those of the first `ah`.

use mlua::{Lua, Table, Value};

use super::{codec, env, fs, http, json, spawn, sqlite};

/// Builds a module.
type Build = fn(&Lua) -> mlua::Result<Table>;

/// All modules, sorted by name.
const MODULES: [(&str, Build); 17] = [
    ("codec", codec::build),
    ("cosmic.child", spawn::build),
    ("cosmic.codec", codec::build),
    ("cosmic.env", env::build),
    ("cosmic.fetch", http::build),
    ("cosmic.fs", fs::build),
    ("cosmic.http", http::build),
    ("cosmic.io", fs::build),
    ("cosmic.json", json::build),
    ("cosmic.spawn", spawn::build),
    ("cosmic.sqlite", sqlite::build),
    ("env", env::build),
    ("fs", fs::build),
    ("http", http::build),
    ("json", json::build),
    ("spawn", spawn::build),
    ("sqlite", sqlite::build),
];

/// Searcher for `require`: returns the function that builds the module, or the reason why there is none.
pub(super) fn search(lua: &Lua, name: String) -> mlua::Result<Value> {
    let Some((_, build)) = MODULES.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        let text = format!("\n\tno built-in module; there are {}", names.join(", "));
        return Ok(Value::String(lua.create_string(text)?));
    };
    let load = lua.create_function(|lua, ()| build(lua))?;
    Ok(Value::Function(load))
}
