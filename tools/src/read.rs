//! The `read` tool: a file as the model can use it, as numbered lines, a picture or the text of a PDF.
//!
//! What a file is, its bytes say, not its name. However large it is, no more of it is held than is given back.

mod directory;
mod text;

use std::io::{Read as _, Seek as _};
use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::{self, Stop};
use crate::file::{self, Fault};
use crate::naming::Naming;
use crate::workspace::Workspace;

/// How many bytes are looked at to tell what a file is.
const PROBE: usize = 8192;

/// The tool.
pub struct Read {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    #[serde(default, deserialize_with = "blocking::count")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "blocking::count")]
    limit: Option<u64>,
}

impl Read {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, naming: Naming) -> Self {
        let path = naming.path_argument();
        let schema = json!({
            "type": "object",
            "properties": {
                path: { "type": "string", "description": "The file to read" },
                "offset": { "type": "integer", "minimum": 0, "description": "First line to read, from 1" },
                "limit": { "type": "integer", "minimum": 0, "description": "How many lines to read; absent: all" },
                "pages": { "type": "string", "description": "Pages of a PDF, as \"3\" or \"1-5\", at most 20" },
            },
            "required": [path],
        });
        let spec = ToolSpec {
            name: naming.pick("read", "Read").into(),
            description: include_str!("read.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 50_000,
                lines: None,
            },
            key: Some(DisplayKey::Path(path)),
        };
        Self { spec, workspace }
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let path = self.workspace.argument(input);
        path.map(Access::Read).into_iter().collect()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let workspace = self.workspace.clone();
        blocking::answer(call, move |arguments, stop| {
            read(&workspace, &arguments, stop)
        })
        .await
    }
}

fn read(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<Output, String> {
    let typed = arguments.path.as_str();
    let path = workspace.resolve(typed);
    let (mut file, metadata) = match file::open(&path) {
        Ok(opened) => opened,
        Err(Fault::Directory) => return directory::list(typed, &path),
        Err(fault) => return Err(fault.tell(workspace, typed, &path)),
    };
    let in_file = |error| format!("cannot read `{typed}`: {error}");
    let mut start = Vec::with_capacity(PROBE);
    (&file)
        .take(PROBE as u64)
        .read_to_end(&mut start)
        .map_err(in_file)?;
    if let Some(reason) = text::why_binary(&start) {
        let size = metadata.len();
        return Err(format!(
            "`{typed}` is a binary file of {size} bytes{reason}"
        ));
    }
    file.rewind().map_err(in_file)?;
    let window = text::Window {
        first: arguments.offset.unwrap_or(1).max(1),
        limit: arguments.limit.filter(|limit| *limit > 0),
    };
    let lines = text::read(file, window, stop).map_err(in_file)?;
    stop.check()?;
    if lines.count == 0 && window.first > 1 {
        return Err(format!(
            "`{typed}` has only {} lines; there is no line {}",
            lines.skipped, window.first
        ));
    }
    let details = json!({
        "path": path.to_string_lossy(),
        "line_count": lines.count,
        "start_line": window.first,
        "more": lines.more,
    });
    Ok(Output::text(lines.text).with_details(details))
}
