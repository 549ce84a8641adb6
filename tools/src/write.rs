//! The `write` tool: the whole content of a file, put in its place at once.

use std::fs;
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

/// The tool.
pub struct Write {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl Write {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, naming: Naming) -> Self {
        let path = naming.path_argument();
        let schema = json!({
            "type": "object",
            "properties": {
                path: { "type": "string", "description": "The file to write" },
                "content": { "type": "string", "description": "All that it shall hold" },
            },
            "required": [path, "content"],
        });
        let spec = ToolSpec {
            name: naming.pick("write", "Write").into(),
            description: include_str!("write.md").trim_end().into(),
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
impl Tool for Write {
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
            write(&workspace, &arguments, stop)
        })
        .await
    }
}

fn write(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<Output, String> {
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
    let failed = |error| format!("cannot write `{typed}`: {error}");
    if let Some(folder) = path.parent() {
        if let Some(file) = folder.ancestors().find(|above| above.is_file()) {
            let file = workspace.show(file);
            return Err(format!("cannot write `{typed}`: `{file}` is a file"));
        }
        fs::create_dir_all(folder).map_err(failed)?;
    }
    stop.check()?;
    file::replace(&path, content.as_bytes()).map_err(failed)?;
    let lines = content.matches('\n').count() + 1;
    let details = json!({
        "path": path.to_string_lossy(),
        "bytes": content.len(),
        "line_count": lines,
        "created": is_new,
    });
    Ok(Output::text(format!("{lines} lines")).with_details(details))
}
