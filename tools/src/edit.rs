//! The `edit` tool: one piece of a file replaced by another, in bytes, so that what is not meant stays as it is.

mod nearest;
mod replace;

use std::path::Path;
use std::sync::{Arc, Weak};

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use self::replace::Mismatch;
use crate::blocking::{self, Stop};
use crate::naming::{describe, path_argument};
use crate::read::Read;
use crate::seen::{self, Seen};
use crate::workspace::Workspace;
use crate::{details, file, patch};

/// How large a file may be, since all of it is held twice.
const MAX_BYTES: u64 = 256 << 20;

/// The tool.
pub struct Edit {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    interface: Interface,
    seen: Weak<Seen>,
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
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let path = path_argument(interface);
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
            name: interface.pick("edit", "Edit").into(),
            description: describe(interface, include_str!("edit.md")),
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

    /// The same tool, which changes only what `read` has read, as long as that is there.
    #[must_use]
    pub fn after(self, read: &Read) -> Self {
        let seen = Arc::downgrade(read.seen());
        Self { seen, ..self }
    }
}

#[async_trait]
impl Tool for Edit {
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
            edit(&workspace, seen.as_deref(), &arguments, stop)
        })
        .await
    }
}

fn edit(
    workspace: &Workspace,
    seen: Option<&Seen>,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Output, String> {
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
    seen.map_or(Ok(()), |seen| seen.check(typed, &path))?;
    let all = replace_all.unwrap_or(false);
    let edited = replace::replace(&content, old, new, all)
        .map_err(|mismatch| tell(&mismatch, typed, &content, old, new))?;
    stop.check()?;
    seen::replace(seen, typed, &path, &edited.content)?;
    let details = json!({
        "filePath": path.to_string_lossy(),
        "oldString": details::start(old),
        "newString": details::start(new),
        "originalFile": details::whole(&content),
        "structuredPatch": patch::hunks(
            &content,
            &edited.content,
            edited.old_range,
            edited.new_range,
        ),
        "userModified": false,
        "replaceAll": all,
    });
    Ok(Output::text(report(old, new, edited.replacements)).with_details(details))
}

fn content(workspace: &Workspace, typed: &str, path: &Path) -> Result<Vec<u8>, String> {
    let content = file::content(path, MAX_BYTES);
    content
        .map_err(|fault| fault.tell(workspace, typed, path))?
        .ok_or_else(|| format!("`{typed}` is too large to edit: more than {MAX_BYTES} bytes"))
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

/// What was taken out and what was put in, in lines.
fn report(old: &str, new: &str, replacements: usize) -> String {
    let removed = old.lines().map(|line| format!("- {line}\n"));
    let added = new.lines().map(|line| format!("+ {line}\n"));
    let mut text: String = removed.chain(added).collect();
    match replacements {
        1 => _ = text.pop(),
        count => text.push_str(&format!("[{count} occurrences]")),
    }
    text
}
