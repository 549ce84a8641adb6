//! The `NotebookEdit` tool of the official SDKs: changes one cell of a Jupyter notebook.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Foresight, Input, Interface, Output, Tool, ToolExtras, ToolSpec,
    ToolUse,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::{schema, spec};
use crate::details;
use crate::file_tool::{FileArguments, FileTool, Target};
use crate::notebook::{Cell, CellType, Notebook};
use crate::read::Read;
use crate::workspace::Workspace;

/// Limit for the size of a notebook.
const MAX_BYTES: u64 = 64 << 20;

/// The `NotebookEdit` tool.
pub struct NotebookEdit(FileTool);

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    notebook_path: String,
    cell_id: Option<String>,
    #[schemars(required)]
    new_source: Option<String>,
    cell_type: Option<CellType>,
    /// Default: replace
    #[serde(default)]
    edit_mode: EditMode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

/// A change of a notebook.
struct CellEdit {
    /// The notebook after the change.
    text: String,
    cell_id: String,
    cell_type: String,
    old_source: Option<String>,
}

impl FileArguments for Arguments {
    fn path(&self) -> &str {
        &self.notebook_path
    }
}

impl NotebookEdit {
    /// Returns the tool for the notebooks of `workspace` that `read` has read.
    pub fn new(workspace: Arc<Workspace>, read: &Read) -> Self {
        let description = include_str!("notebook_edit.md");
        let spec = ToolSpec {
            key: Some(DisplayKey::Path("notebook_path")),
            ..spec("NotebookEdit", description, schema::<Arguments>())
        };
        let tool = FileTool::new(spec, workspace, Interface::AgentSdk, Access::Write);
        Self(tool.limited_to(read.seen()))
    }
}

#[async_trait]
impl Tool for NotebookEdit {
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
        self.0.run(call, context, changing(call)).await
    }
}

#[async_trait]
impl Foresight for NotebookEdit {
    async fn foreseen(&self, call: &ToolUse) -> Output {
        self.0.foreseen(call, changing(call)).await
    }
}

/// Returns the work of `call`.
fn changing(
    call: &ToolUse,
) -> impl FnOnce(&Target<'_>, &Arguments) -> Result<Output, String> + Send + 'static {
    let seed = call.id.as_str().to_owned();
    move |target, arguments| change(target, arguments, &seed)
}

fn change(target: &Target<'_>, arguments: &Arguments, seed: &str) -> Result<Output, String> {
    let typed = target.typed;
    let content = target.content_to_change(MAX_BYTES)?;
    let old = std::str::from_utf8(&content).map_err(|_| format!("`{typed}` is not text"))?;
    let notebook =
        Notebook::parse(old).map_err(|error| format!("`{typed}` is not a notebook: {error}"))?;
    let source = arguments.new_source.as_deref().unwrap_or_default();
    let edited =
        edit(&notebook, arguments, source, seed).map_err(|error| format!("`{typed}`: {error}"))?;
    target.replace(edited.text.as_bytes())?;
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
            "new_source": details::start(source),
            "old_source": edited.old_source.as_deref().map(details::start),
            "cell_id": edited.cell_id,
            "cell_type": edited.cell_type,
            "language": notebook.language,
            "edit_mode": arguments.edit_mode,
            "error": "",
            "notebook_path": target.name(),
            "original_file": shown(old),
            "updated_file": shown(&edited.text),
        })),
    )
}

fn edit(
    notebook: &Notebook<'_>,
    arguments: &Arguments,
    source: &str,
    seed: &str,
) -> Result<CellEdit, String> {
    let Arguments {
        cell_id,
        cell_type,
        edit_mode,
        ..
    } = arguments;
    let at = cell_id.as_deref().map(|id| notebook.find(id)).transpose()?;
    let meant = |at: Option<usize>| {
        let at = at.ok_or("`cell_id` says which cell, and is missing")?;
        Ok::<_, String>((at, &notebook.cells[at]))
    };
    let of = |cell: &Cell, text: String, kind: Option<CellType>| CellEdit {
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
            Ok(CellEdit {
                text,
                cell_id,
                cell_type: kind.word().to_owned(),
                old_source: None,
            })
        }
    }
}
