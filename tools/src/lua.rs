//! Lua files as tools: each returns a table with the tool's name, input schema and function.
//!
//! A script is trusted but may be faulty: it always ends, so do the programs that it started, and `ah` goes on. Others
//! decide which folders are searched, which tool overrides which, and whose files are trusted; the sandbox confines
//! scripts.

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
mod module;
mod places;
mod registry;
mod script;
mod spawn;
mod sqlite;
mod state;
mod surroundings;
mod wait;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;

use call::Calls;
use contract::Contract;
use load::LoadedTool;
use script::Script;
pub use surroundings::LuaSurroundings;

/// Returns the tool by which the model scripts others; `None` in a build without Lua.
pub fn script(interface: Interface) -> Option<Arc<dyn Tool>> {
    Some(Arc::new(Script::new(interface)))
}

/// Loads Lua files as tools.
#[derive(Clone)]
pub struct LuaFiles {
    around: Arc<LuaSurroundings>,
}

/// The tools of a folder, and warnings about its other files.
#[derive(Default)]
pub struct LuaTools {
    /// The tools, sorted by file name.
    pub tools: Vec<LuaTool>,
    /// One line for each file that is not a tool but should be: its path and the reason.
    pub warnings: Vec<String>,
}

impl LuaFiles {
    /// Returns a loader of files that see `around`.
    pub fn new(around: LuaSurroundings) -> Self {
        Self {
            around: Arc::new(around),
        }
    }

    /// Loads the tools of a folder: all of its `*.lua` files except those that are modules of others. A folder that does
    /// not exist has none. The files may `require` each other and the files in the folders `modules`.
    pub fn folder(&self, folder: &Path, modules: &[PathBuf]) -> LuaTools {
        let loaded = load::folder(&self.around, folder, modules);
        let tools = loaded.tools.into_iter();
        LuaTools {
            tools: tools.map(|tool| self.tool(tool)).collect(),
            warnings: loaded.warnings,
        }
    }

    /// Loads the tool of one file; an `Err` is a warning with the path and the reason.
    pub fn file(&self, path: &Path, modules: &[PathBuf]) -> Result<LuaTool, String> {
        load::file(&self.around, path, modules).map(|tool| self.tool(tool))
    }

    fn tool(&self, loaded: LoadedTool) -> LuaTool {
        LuaTool {
            path: loaded.source.path.clone(),
            cwd: self.around.cwd.clone(),
            is_confined: self.around.workspace.is_confined(),
            contract: loaded.contract,
            calls: Calls::new(self.around.clone(), loaded.source, loaded.script),
        }
    }
}

/// A Lua file as a tool.
pub struct LuaTool {
    path: PathBuf,
    cwd: PathBuf,
    /// Whether the sandbox's policy applies to it.
    is_confined: bool,
    contract: Contract,
    calls: Calls,
}

impl LuaTool {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the tool is available without being requested by name.
    pub fn is_autoloaded(&self) -> bool {
        self.contract.is_autoloaded
    }

    /// Returns the tool under a name given by the user.
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
        if self.contract.is_read_only {
            vec![Access::Read(self.cwd.clone())]
        } else {
            vec![match self.is_confined {
                true => Access::Confined { promised: false },
                false => Access::Unknown,
            }]
        }
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let limits = self.contract.limits;
        self.calls.run(call, context, limits).await
    }
}
