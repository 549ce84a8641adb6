//! The table of a built-in module, and the result of its functions.

use std::fmt;

use mlua::{Function, Table};

/// Result of a module's function, as is usual in Lua: a value, or `nil` and the reason.
pub(super) type ModuleResult<T> = (Option<T>, Option<String>);

/// Converts a result for Lua.
pub(super) fn module_result<T, E: fmt::Display>(result: Result<T, E>) -> ModuleResult<T> {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

/// The table of a module.
pub(super) trait Module {
    /// Adds the function under each of `names`.
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
