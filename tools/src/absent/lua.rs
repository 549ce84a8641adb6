//! Lua files in a build without Lua: each folder that has some is a warning.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Access, Context, Denied, Embedded, HiddenFiles, Input, Interface, Output, Tool, ToolExtras,
    ToolSpec, ToolUse,
};
use async_trait::async_trait;

use crate::bash::Shell;
use crate::workspace::Workspace;

/// The world that Lua files would see.
pub struct LuaSurroundings {
    /// Working directory.
    pub cwd: PathBuf,
    /// Resolves paths, and knows which of them may be touched.
    pub workspace: Arc<Workspace>,
    /// Runs commands.
    pub shell: Shell,
    /// Settings for HTTP requests.
    pub http: ah_http::Options,
    /// Files embedded in the program.
    pub embedded: Arc<Embedded>,
    /// Files that permission rules hide.
    pub hidden: HiddenFiles,
    /// What permission rules keep from programs.
    pub denied: Denied,
}

/// Returns no tool.
pub fn script(_: Interface) -> Option<Arc<dyn Tool>> {
    None
}

/// Loader that loads nothing.
#[derive(Clone)]
pub struct LuaFiles(());

/// No tools, and warnings.
#[derive(Default)]
pub struct LuaTools {
    /// Always empty.
    pub tools: Vec<LuaTool>,
    /// One line if the folder has Lua files.
    pub warnings: Vec<String>,
}

impl LuaFiles {
    /// Returns a loader that loads nothing.
    pub fn new(around: LuaSurroundings) -> Self {
        drop(around);
        Self(())
    }

    /// Returns no tools, and a warning if `folder` has Lua files.
    pub fn folder(&self, folder: &Path, _: &[PathBuf]) -> LuaTools {
        let has_ending = |path: PathBuf| path.extension().is_some_and(|ending| ending == "lua");
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let is_wanted = entries.map(|entry| entry.path()).any(has_ending);
        LuaTools {
            tools: Vec::new(),
            warnings: is_wanted.then(|| without_lua(folder)).into_iter().collect(),
        }
    }

    /// Returns a warning: the file cannot be loaded.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn file(&self, path: &Path, _: &[PathBuf]) -> Result<LuaTool, String> {
        Err(without_lua(path))
    }
}

fn without_lua(path: &Path) -> String {
    format!("{}: this build does not support Lua tools", path.display())
}

/// A Lua file as a tool; has no values.
pub enum LuaTool {}

impl LuaTool {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        match *self {}
    }

    /// Whether the tool is available without being requested by name.
    pub fn is_autoloaded(&self) -> bool {
        match *self {}
    }

    /// Returns the tool under a name given by the user.
    #[must_use]
    pub fn named(self, _: &str) -> Self {
        match self {}
    }
}

#[async_trait]
impl Tool for LuaTool {
    fn spec(&self) -> &ToolSpec {
        match *self {}
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        match *self {}
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        match *self {}
    }
}
