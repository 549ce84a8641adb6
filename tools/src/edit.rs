//! The `edit` tool: replaces text in a file byte by byte, so that everything else stays as it is, whatever its encoding.

mod nearest;
mod replace;

use std::sync::Arc;

use ah_conversation::{
    Access, Context, Foresight, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::replace::Mismatch;
use crate::file_tool::{self, FileArguments, FileTool, Target};
use crate::read::Read;
use crate::workspace::Workspace;
use crate::{details, patch};

/// Limit for the size of a file, which is held in memory twice.
const MAX_BYTES: u64 = 256 << 20;

/// The `edit` tool.
pub struct Edit(FileTool);

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

impl FileArguments for Arguments {
    fn path(&self) -> &str {
        &self.path
    }
}

impl Edit {
    /// Returns the tool for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let name = interface.tool_name("edit");
        let spec = file_tool::spec::<Arguments>(interface, &name, include_str!("edit.md"), 10_000);
        Self(FileTool::new(spec, workspace, interface, Access::Write))
    }

    /// Describes itself to a small model.
    #[must_use]
    pub(crate) fn brief(mut self) -> Self {
        const TEXT: &str = "Replaces text that occurs once in a file, without line numbers.{{| The path must be absolute; the \
                            file must be read first.}}";
        self.0.describe_briefly(TEXT, &["replace_all"]);
        self
    }

    /// Limits the tool to files that `read` has read and that are unchanged since, as long as `read` exists.
    #[must_use]
    pub fn after(self, read: &Read) -> Self {
        Self(self.0.limited_to(read.seen()))
    }
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.0.access_to_change(input)
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            foresight: Some(self),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        self.0.run(call, context, edit).await
    }
}

#[async_trait]
impl Foresight for Edit {
    async fn foreseen(&self, call: &ToolUse) -> Output {
        self.0.foreseen(call, edit).await
    }
}

fn edit(target: &Target<'_>, arguments: &Arguments) -> Result<Output, String> {
    let Arguments {
        old_string: old,
        new_string: new,
        replace_all,
        ..
    } = arguments;
    if old.is_empty() {
        return Err("old_string is empty: give the text to replace, or write the file".into());
    }
    if old == new {
        return Err("old_string and new_string are the same".into());
    }
    let content = target.content_to_change(MAX_BYTES)?;
    let all = replace_all.unwrap_or(false);
    let edited = replace::replace(&content, old, new, all)
        .map_err(|mismatch| explain(&mismatch, target.typed, &content, old, new))?;
    if is_of_another_encoding(&content) && !new.is_ascii() {
        return Err(format!(
            "`{}` is not UTF-8, as new_string is with characters beyond ASCII: one file would have two encodings. Use ASCII, or a \
             command that knows the file's encoding",
            target.typed
        ));
    }
    target.replace(&edited.content)?;
    let details = json!({
        "filePath": target.name(),
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

/// Returns whether the characters beyond ASCII are not those of UTF-8, as in Latin-1 or GBK.
fn is_of_another_encoding(content: &[u8]) -> bool {
    let mut chunks = content.utf8_chunks().peekable();
    chunks
        .peek()
        .is_some_and(|first| first.valid().len() < content.len())
        && chunks.all(|chunk| chunk.valid().is_ascii())
}

fn explain(mismatch: &Mismatch, typed: &str, content: &[u8], old: &str, new: &str) -> String {
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

/// Returns the removed and the added lines, behind `-` and `+`.
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
