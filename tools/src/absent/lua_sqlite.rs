//! SQLite for Lua files in a build without it: the module cannot be loaded.

use mlua::{Lua, Table};

/// Returns an error: there is no such module.
pub(super) fn build(_: &Lua) -> mlua::Result<Table> {
    Err(mlua::Error::runtime("this build does not support SQLite"))
}
