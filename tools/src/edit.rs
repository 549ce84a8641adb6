//! The `edit` tool: one piece of a file replaced by another, in bytes, so that what is not meant stays as it is.

mod nearest;
mod patch;
mod replace;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use self::replace::{Edited, Mismatch};
use crate::blocking::{self, Stop};
use crate::file;
use crate::naming::Naming;
use crate::workspace::Workspace;

/// How large a file may be, since all of it is held twice.
const MAX_BYTES: u64 = 256 << 20;

/// The tool.
pub struct Edit {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

impl Edit {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, naming: Naming) -> Self {
        let path = naming.path_argument();
        let schema = json!({
            "type": "object",
            "properties": {
                path: { "type": "string", "description": "The file to change" },
                "old_string": { "type": "string", "description": "The text to replace" },
                "new_string": { "type": "string", "description": "The text to put in its place" },
                "replace_all": { "type": "boolean", "description": "Replace every occurrence (default false)" },
            },
            "required": [path, "old_string", "new_string"],
        });
        let spec = ToolSpec {
            name: naming.pick("edit", "Edit").into(),
            description: include_str!("edit.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 10_000,
                lines: None,
            },
            key: Some(DisplayKey::Path(path)),
        };
        Self { spec, workspace }
    }
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let path = self.workspace.argument(input);
        vec![path.map_or(Access::Unknown, Access::Write)]
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let workspace = self.workspace.clone();
        blocking::answer(call, move |arguments, stop| {
            edit(&workspace, &arguments, stop)
        })
        .await
    }
}

fn edit(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<Output, String> {
    let Arguments {
        path: typed,
        old_string: old,
        new_string: new,
        replace_all,
    } = arguments;
    if old.is_empty() {
        return Err("old_string is empty: give the text to replace, or write the file".into());
    }
    if old == new {
        return Err("old_string and new_string are the same".into());
    }
    let path = workspace.resolve(typed);
    workspace.check_readable(&path)?;
    workspace.check_writable(&path)?;
    let content = content(workspace, typed, &path)?;
    let edited = replace::replace(&content, old, new, replace_all.unwrap_or(false))
        .map_err(|mismatch| tell(&mismatch, typed, &content, old, new))?;
    stop.check()?;
    file::replace(&path, &edited.content)
        .map_err(|error| format!("cannot write `{typed}`: {error}"))?;
    Ok(report(&path, old, new, &content, &edited))
}

fn content(workspace: &Workspace, typed: &str, path: &Path) -> Result<Vec<u8>, String> {
    let (file, metadata) = file::open(path).map_err(|fault| fault.tell(workspace, typed, path))?;
    let mut content = Vec::new();
    if metadata.len() <= MAX_BYTES {
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(|error| format!("cannot read `{typed}`: {error}"))?;
    }
    if metadata.len().max(content.len() as u64) > MAX_BYTES {
        return Err(format!(
            "`{typed}` is too large to edit: {} bytes of at most {MAX_BYTES}",
            metadata.len()
        ));
    }
    Ok(content)
}

fn tell(mismatch: &Mismatch, typed: &str, content: &[u8], old: &str, new: &str) -> String {
    match mismatch {
        Mismatch::None => {
            let near = nearest::explain(content, old, new);
            format!("old_string is not in `{typed}`{near}")
        }
        Mismatch::Several(lines) => {
            const NAMED: usize = 10;
            let named: Vec<_> = lines.iter().take(NAMED).map(ToString::to_string).collect();
            let others = if lines.len() > NAMED { ", …" } else { "" };
            format!(
                "old_string is {} times in `{typed}`, at lines {}{others}: give more of the lines around it, or set \
                 replace_all",
                lines.len(),
                named.join(", ")
            )
        }
    }
}

fn report(path: &Path, old: &str, new: &str, content: &[u8], edited: &Edited) -> Output {
    let removed = old.lines().map(|line| format!("- {line}\n"));
    let added = new.lines().map(|line| format!("+ {line}\n"));
    let mut text: String = removed.chain(added).collect();
    match edited.replacements {
        1 => _ = text.pop(),
        count => text.push_str(&format!("[{count} occurrences]")),
    }
    Output::text(text).with_details(json!({
        "path": path.to_string_lossy(),
        "old_lines": old.lines().count(),
        "new_lines": new.lines().count(),
        "replacements": edited.replacements,
        "patch": patch::hunks(content, edited),
    }))
}
