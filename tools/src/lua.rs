//! Lua files as tools: each returns a table that says what the tool is called, what it takes and what it does.
//!
//! A file is code that somebody trusts, but code has faults: whatever a script does, it ends, what it started ends with
//! it, and the program goes on. Which folders are searched, which tool wins over which, and whose files are trusted is
//! decided elsewhere; what confines a script is the sandbox.

#![expect(
    clippy::needless_pass_by_value,
    reason = "Lua hands over what a function takes"
)]

mod answer;
mod call;
mod codec;
mod contract;
mod env;
mod fs;
mod http;
mod json;
mod leash;
mod load;
mod modules;
mod places;
mod spawn;
mod sqlite;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Access, Context, Embedded, Input, Output, Tool, ToolSpec, ToolUse};
use async_trait::async_trait;

use crate::bash::Shell;
use crate::workspace::Workspace;
use call::Calls;
use contract::Contract;

/// What Lua files see of the world.
pub struct LuaSurroundings {
    /// Where relative paths begin, and where commands run.
    pub cwd: PathBuf,
    /// What paths mean, and which may be touched.
    pub workspace: Arc<Workspace>,
    /// What runs commands, and all variables that scripts and their commands see.
    pub shell: Shell,
    /// How servers are reached.
    pub http: ah_http::Options,
    /// The files that the program carries within itself.
    pub embedded: Arc<Embedded>,
}

/// Lua files, to be made tools.
#[derive(Clone)]
pub struct LuaFiles {
    around: Arc<LuaSurroundings>,
}

/// Tools, and what was wrong with other files, a line for each.
#[derive(Default)]
pub struct LuaTools {
    /// The tools, in the order of their files' names.
    pub tools: Vec<LuaTool>,
    /// The files that are no tools though they should be: where, and why not.
    pub warnings: Vec<String>,
}

impl LuaFiles {
    /// Files that see `around`.
    pub fn new(around: LuaSurroundings) -> Self {
        Self {
            around: Arc::new(around),
        }
    }

    /// The tools of a folder: all of its `*.lua` files but those that only others use. A folder that does not exist has
    /// none. Its files may `require` each other, and what lies in `modules`.
    pub fn folder(&self, folder: &Path, modules: &[PathBuf]) -> LuaTools {
        load::folder(&self.around, folder, modules)
    }

    /// The tool of one file; an `Err` is the warning that there is none.
    pub fn file(&self, path: &Path, modules: &[PathBuf]) -> Result<LuaTool, String> {
        load::file(&self.around, path, modules)
    }
}

/// A Lua file as a tool.
pub struct LuaTool {
    path: PathBuf,
    cwd: PathBuf,
    contract: Contract,
    calls: Calls,
}

impl LuaTool {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is there without being asked for by name.
    pub fn is_autoloaded(&self) -> bool {
        self.contract.is_autoloaded
    }

    /// The same tool under the name that the user gives it.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.contract.spec.name);
        self
    }
}

#[async_trait]
impl Tool for LuaTool {
    fn spec(&self) -> &ToolSpec {
        &self.contract.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        match self.contract.is_read_only {
            true => vec![Access::Read(self.cwd.clone())],
            false => vec![Access::Unknown],
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        self.calls.run(call, self.contract.limits).await
    }
}
