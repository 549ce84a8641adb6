//! The world that Lua files see, available in every Lua state.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Denied, Embedded, HiddenFiles};
use mlua::Lua;

use crate::bash::Shell;
use crate::workspace::Workspace;

/// The world that Lua files see.
#[derive(Clone)]
pub struct LuaSurroundings {
    /// Working directory of scripts and their commands; relative paths start here.
    pub cwd: PathBuf,
    /// Resolves paths, and knows which of them may be touched.
    pub workspace: Arc<Workspace>,
    /// Runs commands, and holds all variables that scripts and their commands see.
    pub shell: Shell,
    /// Settings for HTTP requests.
    pub http: ah_http::Options,
    /// Files embedded in the program.
    pub embedded: Arc<Embedded>,
    /// Files that permission rules hide from the call that runs; none while a file is loaded.
    pub hidden: HiddenFiles,
    /// What permission rules keep from the programs that the call starts.
    pub denied: Denied,
}

impl LuaSurroundings {
    /// Returns `path` as messages show it: relative to the working directory if it is below that.
    pub(super) fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.cwd).unwrap_or(path);
        path.display().to_string()
    }
}

/// Returns the surroundings of the scripts in `lua`.
pub(super) fn surroundings(lua: &Lua) -> mlua::Result<Arc<LuaSurroundings>> {
    match lua.app_data_ref::<Arc<LuaSurroundings>>() {
        Some(around) => Ok(around.clone()),
        None => Err(mlua::Error::runtime("this state has no surroundings")),
    }
}
