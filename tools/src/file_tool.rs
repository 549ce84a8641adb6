//! The common part of `read`, `write`, `edit` and `NotebookEdit`: each call names one file, which is resolved and
//! checked here, and works on it on a blocking thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, ToolSpec, ToolUse, Truncation, Unsaved,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::arguments;
use crate::blocking::{self, Stop};
use crate::file::{self, FileError};
use crate::held;
use crate::naming::{describe, path_argument};
use crate::seen::{self, Seen};
use crate::workspace::{OpenFile, Workspace};

/// Arguments that name a file.
pub(crate) trait FileArguments: DeserializeOwned + JsonSchema + Send + 'static {
    /// Returns the path as it was given.
    fn path(&self) -> &str;
}

/// A tool whose calls name one file each.
pub(crate) struct FileTool {
    pub(crate) spec: ToolSpec,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) interface: Interface,
    /// Kind of access to the file.
    pub(crate) access: fn(PathBuf) -> Access,
    /// Files that `read` has read; dangling if they do not matter.
    pub(crate) seen: Weak<Seen>,
}

/// The file that a call names.
pub(crate) struct Target<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) interface: Interface,
    /// The path as it was given.
    pub(crate) typed: &'a str,
    /// The resolved path.
    pub(crate) path: PathBuf,
    /// Set once the call was dropped.
    pub(crate) stop: &'a Stop,
    seen: Option<&'a Seen>,
    /// Its text, if the user has changed it without saving it.
    unsaved: Option<Arc<str>>,
    /// Whether nothing is changed: it is asked what would be done.
    is_trial: bool,
}

/// Returns the specification of a tool with a `path` argument, of whose output the model sees up to `bytes`.
pub(crate) fn spec<A: FileArguments>(
    interface: Interface,
    name: &str,
    description: &str,
    bytes: usize,
) -> ToolSpec {
    let path = path_argument(interface);
    let mut schema = arguments::schema::<A>();
    arguments::rename(&mut schema, "path", path);
    ToolSpec {
        truncation: Truncation { bytes, lines: None },
        key: Some(DisplayKey::Path(path)),
        ..arguments::spec(name, &describe(interface, description), schema)
    }
}

impl FileTool {
    /// Replaces its description by a short one, and leaves out arguments that can do without.
    pub(crate) fn describe_briefly(&mut self, text: &str, unused: &[&str]) {
        arguments::brief(&mut self.spec, describe(self.interface, text), unused);
    }

    /// Returns the tool, for which it does not matter which files were read.
    pub(crate) fn new(
        spec: ToolSpec,
        workspace: Arc<Workspace>,
        interface: Interface,
        access: fn(PathBuf) -> Access,
    ) -> Self {
        Self {
            spec,
            workspace,
            interface,
            access,
            seen: Weak::new(),
        }
    }

    /// Returns the tool limited to files in `seen`, as long as `seen` exists.
    pub(crate) fn limited_to(self, seen: &Arc<Seen>) -> Self {
        let seen = Arc::downgrade(seen);
        Self { seen, ..self }
    }

    /// Returns the accesses of a call with this input.
    pub(crate) fn access(&self, input: &Input) -> Vec<Access> {
        self.workspace.argument(input, self.interface, self.access)
    }

    /// Returns the accesses of a call that changes a part of its file: the answer may show others.
    pub(crate) fn access_to_change(&self, input: &Input) -> Vec<Access> {
        let mut accesses = self.access(input);
        let reads = accesses.iter().filter_map(|access| match access {
            Access::Write(path) => Some(Access::Read(path.clone())),
            _ => None,
        });
        accesses.extend(reads.collect::<Vec<_>>());
        accesses
    }

    /// Runs `work` on the file that `call` names; an `Err` is a failure that the model is told of.
    pub(crate) async fn run<A, F>(&self, call: &ToolUse, context: &Context, work: F) -> Output
    where
        A: FileArguments,
        F: FnOnce(&Target<'_>, &A) -> Result<Output, String> + Send + 'static,
    {
        self.work(call, context.unsaved.clone(), work, false).await
    }

    /// Runs `work` with nothing changed: what it returns is what it would do.
    pub(crate) async fn foreseen<A, F>(&self, call: &ToolUse, work: F) -> Output
    where
        A: FileArguments,
        F: FnOnce(&Target<'_>, &A) -> Result<Output, String> + Send + 'static,
    {
        self.work(call, Vec::new(), work, true).await
    }

    async fn work<A, F>(
        &self,
        call: &ToolUse,
        unsaved: Vec<Unsaved>,
        work: F,
        is_trial: bool,
    ) -> Output
    where
        A: FileArguments,
        F: FnOnce(&Target<'_>, &A) -> Result<Output, String> + Send + 'static,
    {
        let (workspace, interface) = (self.workspace.clone(), self.interface);
        let seen = self.seen.upgrade();
        blocking::answer(call, move |arguments: A, stop| {
            let typed = arguments.path();
            workspace.check_form(interface, typed)?;
            let path = workspace.resolve(typed);
            let unsaved = { unsaved.into_iter() }.find(|unsaved| unsaved.path == path);
            let target = Target {
                workspace: &workspace,
                interface,
                typed,
                path,
                stop,
                seen: seen.as_deref(),
                unsaved: unsaved.map(|unsaved| unsaved.text),
                is_trial,
            };
            work(&target, &arguments)
        })
        .await
    }
}

impl Target<'_> {
    /// Returns the content of a file that is to be changed.
    ///
    /// # Errors
    ///
    /// If the file may not be changed, is not a regular file or has more than `limit` bytes.
    pub(crate) fn content_to_change(&self, limit: u64) -> Result<Vec<u8>, String> {
        self.workspace.check_readable(&self.path)?;
        self.workspace.check_writable(&self.path)?;
        let content = match &self.unsaved {
            Some(text) => Ok(Some(text.as_bytes().to_vec())),
            None => file::content(&self.path, limit),
        };
        let content = { content.map_err(|error| self.explain(&error))? }
            .filter(|content| content.len() as u64 <= limit)
            .ok_or_else(|| {
                let typed = self.typed;
                format!("`{typed}` is too large to edit: more than {limit} bytes")
            })?;
        self.check_seen()?;
        Ok(content)
    }

    /// Opens the file to read it, as its user sees it.
    ///
    /// # Errors
    ///
    /// If it is hidden, missing or no regular file.
    pub(crate) fn open(&self) -> Result<OpenFile<'_>, FileError> {
        let opened = self.workspace.open(&self.path)?;
        Ok(match &self.unsaved {
            Some(text) => OpenFile::of(text.as_bytes()),
            None => opened,
        })
    }

    /// Refuses to change an existing file that the model does not know in its present state.
    pub(crate) fn check_seen(&self) -> Result<(), String> {
        self.seen
            .map_or(Ok(()), |seen| seen.check(self.typed, &self.path))
    }

    /// Makes the folders above the file that are missing.
    ///
    /// # Errors
    ///
    /// If one cannot be made.
    pub(crate) fn make_folders(&self, folder: &Path) -> Result<(), String> {
        if self.is_trial {
            return Ok(());
        }
        let failed = |error| format!("cannot write `{}`: {error}", self.typed);
        held::make_folders(folder).map_err(failed)
    }

    /// Replaces the file, unless the call was dropped. The model knows the new content.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), String> {
        if self.is_trial {
            return Ok(());
        }
        self.stop.check()?;
        seen::replace(self.seen, self.typed, &self.path, content, self.stop)
    }

    /// Returns the error's text for the model.
    pub(crate) fn explain(&self, error: &FileError) -> String {
        error.explain(self.workspace, self.typed, &self.path)
    }

    /// Returns the resolved path as text.
    pub(crate) fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}
