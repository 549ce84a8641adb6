//! The `NotebookEdit` tool, for those who know it from the official SDKs: one cell of a Jupyter notebook.

use std::sync::{Arc, Weak};

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::blocking::{self, Stop};
use crate::notebook::{Cell, CellType, Notebook};
use crate::read::Read;
use crate::seen::{self, Seen};
use crate::workspace::Workspace;
use crate::{details, file};

/// How large a notebook may be.
const MAX_BYTES: u64 = 64 << 20;

/// The tool.
pub struct NotebookEdit {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    seen: Weak<Seen>,
}

#[derive(Deserialize)]
struct Arguments {
    notebook_path: String,
    cell_id: Option<String>,
    #[serde(default)]
    new_source: String,
    cell_type: Option<CellType>,
    #[serde(default)]
    edit_mode: EditMode,
}

/// What is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

/// A notebook with its change.
struct Edited {
    text: String,
    cell_id: String,
    cell_type: String,
    old_source: Option<String>,
}

impl NotebookEdit {
    /// The tool, for the notebooks of `workspace` that `read` has read.
    pub fn new(workspace: Arc<Workspace>, read: &Read) -> Self {
        let text = |what: &str| json!({ "type": "string", "description": what });
        let schema = json!({
            "type": "object",
            "properties": {
                "notebook_path": text("The notebook to change"),
                "cell_id": text("The cell that is meant; with `insert` the one before"),
                "new_source": text("The new source of the cell"),
                "cell_type": { "type": "string", "enum": ["code", "markdown"], "description": "What the cell is" },
                "edit_mode": {
                    "type": "string",
                    "enum": ["replace", "insert", "delete"],
                    "description": "What to do (default replace)",
                },
            },
            "required": ["notebook_path", "new_source"],
        });
        let spec = ToolSpec {
            name: "NotebookEdit".into(),
            description: include_str!("notebook_edit.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Path("notebook_path")),
        };
        Self {
            spec,
            workspace,
            seen: Arc::downgrade(read.seen()),
        }
    }
}

#[async_trait]
impl Tool for NotebookEdit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.workspace
            .argument(input, Interface::AgentSdk, Access::Write)
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let workspace = self.workspace.clone();
        let (seen, seed) = (self.seen.upgrade(), call.id.as_str().to_owned());
        blocking::answer(call, move |arguments: Arguments, stop| {
            workspace.check_form(Interface::AgentSdk, &arguments.notebook_path)?;
            change(&workspace, seen.as_deref(), &arguments, &seed, stop)
        })
        .await
    }
}

fn change(
    workspace: &Workspace,
    seen: Option<&Seen>,
    arguments: &Arguments,
    seed: &str,
    stop: &Stop,
) -> Result<Output, String> {
    let typed = arguments.notebook_path.as_str();
    let path = workspace.resolve(typed);
    workspace.check_readable(&path)?;
    workspace.check_writable(&path)?;
    let content = file::content(&path, MAX_BYTES)
        .map_err(|fault| fault.tell(workspace, typed, &path))?
        .ok_or_else(|| format!("`{typed}` is too large: more than {MAX_BYTES} bytes"))?;
    seen.map_or(Ok(()), |seen| seen.check(typed, &path))?;
    let old = std::str::from_utf8(&content).map_err(|_| format!("`{typed}` is no text"))?;
    let notebook =
        Notebook::parse(old).map_err(|fault| format!("`{typed}` is no notebook: {fault}"))?;
    let edited = edit(&notebook, arguments, seed).map_err(|fault| format!("`{typed}`: {fault}"))?;
    stop.check()?;
    seen::replace(seen, typed, &path, edited.text.as_bytes())?;
    let done = match arguments.edit_mode {
        EditMode::Replace => "replaced the source of",
        EditMode::Insert => "inserted",
        EditMode::Delete => "deleted",
    };
    let shown = |text: &str| {
        details::whole(text.as_bytes())
            .unwrap_or_default()
            .into_owned()
    };
    Ok(
        Output::text(format!("{done} cell {}", edited.cell_id)).with_details(json!({
            "new_source": details::start(&arguments.new_source),
            "old_source": edited.old_source.as_deref().map(details::start),
            "cell_id": edited.cell_id,
            "cell_type": edited.cell_type,
            "language": notebook.language,
            "edit_mode": arguments.edit_mode,
            "error": "",
            "notebook_path": path.to_string_lossy(),
            "original_file": shown(old),
            "updated_file": shown(&edited.text),
        })),
    )
}

fn edit(notebook: &Notebook<'_>, arguments: &Arguments, seed: &str) -> Result<Edited, String> {
    let Arguments {
        cell_id,
        new_source: source,
        cell_type,
        edit_mode,
        ..
    } = arguments;
    let at = cell_id.as_deref().map(|id| notebook.find(id)).transpose()?;
    let meant = |at: Option<usize>| {
        let at = at.ok_or("`cell_id` says which cell, and is missing")?;
        Ok::<_, String>((at, &notebook.cells[at]))
    };
    let of = |cell: &Cell, text: String, kind: Option<CellType>| Edited {
        text,
        cell_id: cell.id.clone(),
        cell_type: kind.map_or_else(|| cell.kind().to_owned(), |kind| kind.word().to_owned()),
        old_source: Some(cell.source()),
    };
    match edit_mode {
        EditMode::Replace => {
            let (at, cell) = meant(at)?;
            Ok(of(
                cell,
                notebook.replaced(at, source, *cell_type),
                *cell_type,
            ))
        }
        EditMode::Delete => {
            let (at, cell) = meant(at)?;
            Ok(of(cell, notebook.deleted(at), None))
        }
        EditMode::Insert => {
            let kind = cell_type.ok_or("`cell_type` says what the new cell is, and is missing")?;
            let (text, cell_id) = notebook.inserted(at, kind, source, seed);
            Ok(Edited {
                text,
                cell_id,
                cell_type: kind.word().to_owned(),
                old_source: None,
            })
        }
    }
}
