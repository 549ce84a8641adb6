//! The module `env`: environment variables of a script and its commands, without secrets. Changes are private to the
//! script.

use std::collections::BTreeMap;

use mlua::{Lua, Table};

use super::module::Module;
use super::surroundings::surroundings;

/// Changes by the script; `None` is unset.
#[derive(Default)]
struct Changes(BTreeMap<String, Option<String>>);

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.function(
        &["get"],
        lua.create_function(|lua, name: String| variable(lua, &name))?,
    )?;
    module.function(
        &["set"],
        lua.create_function(|lua, (name, value): (String, String)| change(lua, name, Some(value)))?,
    )?;
    module.function(
        &["unset"],
        lua.create_function(|lua, name: String| change(lua, name, None))?,
    )?;
    module.function(
        &["all", "list"],
        lua.create_function(|lua, ()| variables(lua))?,
    )?;
    Ok(module)
}

/// Returns the value of a variable for the script.
pub(super) fn variable(lua: &Lua, name: &str) -> mlua::Result<Option<String>> {
    if let Some(changes) = lua.app_data_ref::<Changes>()
        && let Some(value) = changes.0.get(name)
    {
        return Ok(value.clone());
    }
    let around = surroundings(lua)?;
    let mut variables = around.shell.environment.iter();
    let found = variables.find(|(known, _)| known == name);
    Ok(found.map(|(_, value)| value.clone()))
}

/// Returns all variables of the script.
pub(super) fn variables(lua: &Lua) -> mlua::Result<BTreeMap<String, String>> {
    let mut variables: BTreeMap<_, _> = surroundings(lua)?
        .shell
        .environment
        .iter()
        .cloned()
        .collect();
    if let Some(changes) = lua.app_data_ref::<Changes>() {
        for (name, value) in &changes.0 {
            match value {
                Some(value) => variables.insert(name.clone(), value.clone()),
                None => variables.remove(name),
            };
        }
    }
    Ok(variables)
}

fn change(lua: &Lua, name: String, value: Option<String>) -> mlua::Result<bool> {
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    if !is_name || value.as_ref().is_some_and(|value| value.contains('\0')) {
        return Err(mlua::Error::runtime("not a name and a value of a variable"));
    }
    let mut changes = lua.remove_app_data::<Changes>().unwrap_or_default();
    changes.0.insert(name, value);
    lua.set_app_data(changes);
    Ok(true)
}
