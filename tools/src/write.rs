//! The `write` tool: replaces the whole content of a file atomically.

use std::io::Read as _;
use std::sync::Arc;

use ah_conversation::{
    Access, Context, Foresight, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use bstr::ByteSlice;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::file::{self, FileError};
use crate::file_tool::{self, FileArguments, FileTool, Target};
use crate::read::Read;
use crate::workspace::Workspace;
use crate::{details, patch};

/// The `write` tool.
pub struct Write(FileTool);

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl FileArguments for Arguments {
    fn path(&self) -> &str {
        &self.path
    }
}

impl Write {
    /// Returns the tool for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let name = interface.tool_name("write");
        let spec = file_tool::spec::<Arguments>(interface, &name, include_str!("write.md"), 10_000);
        Self(FileTool::new(spec, workspace, interface, Access::Write))
    }

    /// Describes itself to a small model.
    #[must_use]
    pub(crate) fn brief(mut self) -> Self {
        const TEXT: &str = "Writes a whole file.{{| The path must be absolute; an existing file must be read first.}}";
        self.0.describe_briefly(TEXT, &[]);
        self
    }

    /// Limits the tool to new files and to those that `read` has read and that are unchanged since, as long as `read`
    /// exists.
    #[must_use]
    pub fn after(self, read: &Read) -> Self {
        Self(self.0.limited_to(read.seen()))
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.0.access(input)
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            foresight: Some(self),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        self.0.run(call, context, put).await
    }
}

#[async_trait]
impl Foresight for Write {
    async fn foreseen(&self, call: &ToolUse) -> Output {
        self.0.foreseen(call, put).await
    }
}

fn put(target: &Target<'_>, arguments: &Arguments) -> Result<Output, String> {
    let content = arguments.content.as_str();
    Ok(report(target, &write(target, content)?, content))
}

/// Former state of a file that was written.
enum Former {
    Missing,
    /// Its content, unless it was unreadable or too large for the details.
    File(Option<Vec<u8>>),
}

fn write(target: &Target<'_>, content: &str) -> Result<Former, String> {
    let Target {
        workspace,
        typed,
        path,
        ..
    } = target;
    workspace.check_writable(path)?;
    let is_new = match file::regular(path) {
        Ok(_) => false,
        Err(FileError::Missing) => true,
        Err(error) => return Err(target.explain(&error)),
    };
    target.check_seen()?;
    if let Some(folder) = path.parent() {
        if let Some(file) = folder.ancestors().find(|above| above.is_file()) {
            let file = workspace.show(file);
            return Err(format!("cannot write `{typed}`: `{file}` is a file"));
        }
        target.make_folders(folder)?;
    }
    let former = if is_new {
        Former::Missing
    } else {
        Former::File(small_content(target))
    };
    target.replace(content.as_bytes())?;
    Ok(former)
}

/// Returns the content of an existing file that may be read and is small enough for the details.
fn small_content(target: &Target<'_>) -> Option<Vec<u8>> {
    target.workspace.check_readable(&target.path).ok()?;
    let (file, limit) = (target.open().ok()?, details::LIMIT as u64);
    let mut content = Vec::new();
    file.source.take(limit + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limit).then_some(content)
}

fn report(target: &Target<'_>, former: &Former, content: &str) -> Output {
    let lines = match content.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    let (kind, done, old) = match former {
        Former::Missing => ("create", "created", None),
        Former::File(old) => ("update", "updated", old.as_deref()),
    };
    let text = match target.interface {
        Interface::Native => lines,
        Interface::AgentSdk => format!("{done} {} ({lines})", target.path.display()),
    };
    let hunks = old.map(|old| {
        let new = content.as_bytes();
        patch::hunks(old, new, 0..old.len(), 0..new.len())
    });
    Output::text(text).with_details(json!({
        "type": kind,
        "filePath": target.name(),
        "content": details::start(content),
        "structuredPatch": hunks.unwrap_or_default(),
        "originalFile": old.map(|old| old.to_str_lossy()),
        "userModified": false,
    }))
}
