//! The modules that scripts may require besides their own files, under the names that they have here and under those
//! that they had in the first `ah`.

use mlua::{Function, Lua, Table, Value};

use super::{codec, env, fs, http, json, spawn, sqlite};

/// Builds a module.
type Build = fn(&Lua) -> mlua::Result<Table>;

/// All names.
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

/// A searcher of `require`: the function that makes the module, or why there is none.
pub(super) fn search(lua: &Lua, name: String) -> mlua::Result<Value> {
    let Some((_, build)) = MODULES.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        let text = format!("\n\tno built-in module; there are {}", names.join(", "));
        return Ok(Value::String(lua.create_string(text)?));
    };
    let load = lua.create_function(|lua, ()| build(lua))?;
    Ok(Value::Function(load))
}

/// The usual answer of a module's function: a value, or nothing and the reason.
pub(super) type Answer<T> = (Option<T>, Option<String>);

/// The answer that `result` makes.
pub(super) fn answer<T, E: std::fmt::Display>(result: Result<T, E>) -> Answer<T> {
    match result {
        Ok(value) => (Some(value), None),
        Err(fault) => (None, Some(fault.to_string())),
    }
}

/// Adds functions to a module.
pub(super) trait Module {
    /// The same function under each of `names`.
    fn function(&self, names: &[&str], function: Function) -> mlua::Result<()>;
}

impl Module for Table {
    fn function(&self, names: &[&str], function: Function) -> mlua::Result<()> {
        for name in names {
            self.raw_set(*name, &function)?;
        }
        Ok(())
    }
}
