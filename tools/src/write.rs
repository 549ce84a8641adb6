//! The `write` tool: the whole content of a file, put in its place at once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use bstr::ByteSlice;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::{self, Stop};
use crate::file::{self, Fault};
use crate::held;
use crate::naming::{describe, path_argument};
use crate::read::Read;
use crate::seen::{self, Seen};
use crate::workspace::Workspace;
use crate::{details, patch};

/// The tool.
pub struct Write {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    interface: Interface,
    seen: Weak<Seen>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl Write {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let path = path_argument(interface);
        let schema = json!({
            "type": "object",
            "properties": {
                path: { "type": "string", "description": "The file to write" },
                "content": { "type": "string", "description": "All that it shall hold" },
            },
            "required": [path, "content"],
        });
        let spec = ToolSpec {
            name: interface.pick("write", "Write").into(),
            description: describe(interface, include_str!("write.md")),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 10_000,
                lines: None,
            },
            key: Some(DisplayKey::Path(path)),
        };
        Self {
            spec,
            workspace,
            interface,
            seen: Weak::new(),
        }
    }

    /// The same tool, which replaces only what `read` has read, as long as that is there.
    #[must_use]
    pub fn after(self, read: &Read) -> Self {
        let seen = Arc::downgrade(read.seen());
        Self { seen, ..self }
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.workspace
            .argument(input, self.interface, Access::Write)
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let (workspace, interface) = (self.workspace.clone(), self.interface);
        let seen = self.seen.upgrade();
        blocking::answer(call, move |arguments: Arguments, stop| {
            workspace.check_form(interface, &arguments.path)?;
            let written = write(&workspace, seen.as_deref(), &arguments, stop)?;
            Ok(report(&written, &arguments.content, interface))
        })
        .await
    }
}

/// A file that was written.
struct Written {
    path: PathBuf,
    is_new: bool,
    /// What it held before, unless that was too much.
    old: Option<Vec<u8>>,
}

fn write(
    workspace: &Workspace,
    seen: Option<&Seen>,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Written, String> {
    let Arguments {
        path: typed,
        content,
    } = arguments;
    let path = workspace.resolve(typed);
    workspace.check_writable(&path)?;
    let is_new = match file::regular(&path) {
        Ok(_) => false,
        Err(Fault::Missing) => true,
        Err(fault) => return Err(fault.tell(workspace, typed, &path)),
    };
    seen.map_or(Ok(()), |seen| seen.check(typed, &path))?;
    let failed = |error| format!("cannot write `{typed}`: {error}");
    if let Some(folder) = path.parent() {
        if let Some(file) = folder.ancestors().find(|above| above.is_file()) {
            let file = workspace.show(file);
            return Err(format!("cannot write `{typed}`: `{file}` is a file"));
        }
        held::make_folders(folder).map_err(failed)?;
    }
    let old = match is_new {
        true => None,
        false => small(workspace, &path),
    };
    stop.check()?;
    seen::replace(seen, typed, &path, content.as_bytes())?;
    Ok(Written { path, is_new, old })
}

/// The content of a file that is there, if it may be read and is so small that it can be told.
fn small(workspace: &Workspace, path: &Path) -> Option<Vec<u8>> {
    workspace.check_readable(path).ok()?;
    file::content(path, details::LIMIT as u64).ok()?
}

fn report(written: &Written, content: &str, interface: Interface) -> Output {
    let Written { path, is_new, old } = written;
    let lines = content.matches('\n').count() + 1;
    let (kind, done) = match is_new {
        true => ("create", "created"),
        false => ("update", "updated"),
    };
    let text = match interface {
        Interface::Native => format!("{lines} lines"),
        Interface::AgentSdk => format!("{done} {} ({lines} lines)", path.display()),
    };
    let hunks = old.as_ref().map(|old| {
        let new = content.as_bytes();
        patch::hunks(old, new, 0..old.len(), 0..new.len())
    });
    Output::text(text).with_details(json!({
        "type": kind,
        "filePath": path.to_string_lossy(),
        "content": details::start(content),
        "structuredPatch": hunks.unwrap_or_default(),
        "originalFile": old.as_ref().map(|old| old.to_str_lossy()),
        "userModified": false,
    }))
}
