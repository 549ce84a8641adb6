//! The module `env`: the variables that a script sees, which are those that its commands see. None of them is a secret.
//!
//! What a script sets is its own: no other tool sees it.

use std::collections::BTreeMap;

use mlua::{Lua, Table};

use super::modules::Module;
use super::state::surroundings;

/// What a script has set, over what it was given; `None` is unset.
#[derive(Default)]
struct Changes(BTreeMap<String, Option<String>>);

/// The module.
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

/// The variable `name` as the script sees it.
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

/// All variables as the script sees them.
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
