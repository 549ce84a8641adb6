//! The `read` tool: a file as the model can use it, as numbered lines, a picture, the text of a PDF or the cells of a
//! notebook.
//!
//! What a file is, its bytes say, not its name; only a notebook would be a text by its bytes. However large it is, no more of it is held than is given back.

mod directory;
mod notebook;
mod text;

use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    Access, Content, Context, DisplayKey, Input, Interface, Output, ResultBlock, Tool, ToolSpec,
    ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::{self, Stop, Stoppable};
use crate::details;
use crate::file::Fault;
use crate::image;
use crate::naming::{describe, path_argument};
use crate::notebook::Notebook;
use crate::pdf;
use crate::seen::{Seen, Stamp};
use crate::workspace::{Opened, Workspace};

/// How many bytes are looked at to tell what a file is.
const PROBE: usize = 8192;
/// How large a picture or a PDF may be.
const MAX_WHOLE: usize = 64 << 20;

/// The tool.
pub struct Read {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    interface: Interface,
    seen: Arc<Seen>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    #[serde(default, deserialize_with = "blocking::count")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "blocking::count")]
    limit: Option<u64>,
    pages: Option<String>,
}

impl Read {
    /// The tool, for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let path = path_argument(interface);
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
            name: interface.pick("read", "Read").into(),
            description: describe(interface, include_str!("read.md")),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 50_000,
                lines: None,
            },
            key: Some(DisplayKey::Path(path)),
        };
        Self {
            spec,
            workspace,
            interface,
            seen: Arc::default(),
        }
    }

    /// The files that it has read.
    pub(crate) fn seen(&self) -> &Arc<Seen> {
        &self.seen
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.workspace.argument(input, self.interface, Access::Read)
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let (workspace, interface, seen) =
            (self.workspace.clone(), self.interface, self.seen.clone());
        blocking::answer(call, move |arguments: Arguments, stop| {
            workspace.check_form(interface, &arguments.path)?;
            let path = workspace.resolve(&arguments.path);
            let stamp = Stamp::of(&path);
            let output = read(&workspace, &path, &arguments, stop)?;
            seen.note(&path, stamp);
            Ok(output)
        })
        .await
    }
}

fn read(
    workspace: &Workspace,
    path: &Path,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Output, String> {
    let typed = arguments.path.as_str();
    workspace.check_readable(path)?;
    let Opened {
        source: mut file,
        len: size,
    } = match workspace.open(path) {
        Ok(opened) => opened,
        Err(Fault::Directory) => return directory::list(workspace, typed, path),
        Err(fault) => return Err(fault.tell(workspace, typed, path)),
    };
    let failed = |error| format!("cannot read `{typed}`: {error}");
    let start = part(&mut file, PROBE).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let source = Stoppable { source: file, stop };
    if let Some(format) = image::sniff(&start) {
        return picture(path, typed, &whole(source, typed)?, format);
    }
    if pdf::is_pdf(&start) {
        let content = whole(source, typed)?;
        return pages(path, typed, &content, arguments.pages.as_deref(), stop);
    }
    if let Some(reason) = text::why_binary(&start) {
        return Err(format!(
            "`{typed}` is a binary file of {size} bytes{reason}"
        ));
    }
    let window = text::Window {
        first: arguments.offset.unwrap_or(1).max(1),
        limit: arguments.limit.filter(|limit| *limit > 0),
    };
    if path.extension().is_some_and(|ending| ending == "ipynb") {
        let content = whole(source, typed)?;
        let text = String::from_utf8_lossy(&content);
        return match Notebook::parse(&text) {
            Ok(notebook) => Ok(notebook::view(path, &notebook, window)),
            // Then it is a text as any other, which can be repaired.
            Err(_) => lines(path, typed, content.as_slice(), window),
        };
    }
    lines(path, typed, source, window)
}

fn lines(
    path: &Path,
    typed: &str,
    source: impl io::Read,
    window: text::Window,
) -> Result<Output, String> {
    let lines =
        text::read(source, window).map_err(|error| format!("cannot read `{typed}`: {error}"))?;
    if lines.count == 0 && window.first > 1 {
        return Err(format!(
            "`{typed}` has only {} lines; there is no line {}",
            lines.skipped, window.first
        ));
    }
    let details = lines.details(path, window.first);
    Ok(Output::text(lines.text).with_details(details))
}

/// At most so many of the next bytes.
fn part(source: impl io::Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    source.take(bytes as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// All of a file that only makes sense as a whole.
fn whole(source: impl io::Read, typed: &str) -> Result<Vec<u8>, String> {
    match part(source, MAX_WHOLE + 1) {
        Ok(content) if content.len() <= MAX_WHOLE => Ok(content),
        Ok(_) => Err(format!(
            "`{typed}` is too large: more than {MAX_WHOLE} bytes"
        )),
        Err(error) => Err(format!("cannot read `{typed}`: {error}")),
    }
}

fn picture(
    path: &Path,
    typed: &str,
    content: &[u8],
    format: ::image::ImageFormat,
) -> Result<Output, String> {
    let picture = image::fit(content, format)
        .map_err(|error| format!("`{typed}` is no picture that can be shown: {error}"))?;
    let data = Some(&picture.image.data).filter(|data| data.len() <= details::LIMIT);
    let mut details = json!({
        "type": "image",
        "file": {
            "filePath": path.to_string_lossy(),
            // A larger one stands in the result alone.
            "base64": data.map_or("", String::as_str),
            "type": picture.image.media_type,
            "originalSize": content.len(),
        },
    });
    if let Some([(width, height), (to_width, to_height)]) = picture.scaled {
        details["file"]["dimensions"] = json!({
            "originalWidth": width,
            "originalHeight": height,
            "displayWidth": to_width,
            "displayHeight": to_height,
        });
    }
    let remark = picture
        .scaled
        .map(|[(width, height), (to_width, to_height)]| {
            let text = format!("[scaled from {width}x{height} to {to_width}x{to_height} pixels]");
            ResultBlock::Text { text }
        });
    let shown = ResultBlock::Image(picture.image);
    Ok(Output {
        content: Content::Blocks(remark.into_iter().chain([shown]).collect()),
        is_error: false,
        details: Some(details),
    })
}

fn pages(
    path: &Path,
    typed: &str,
    content: &[u8],
    wanted: Option<&str>,
    stop: &Stop,
) -> Result<Output, String> {
    let pages = pdf::read(content, wanted, stop)
        .map_err(|fault| format!("cannot read `{typed}`: {fault}"))?;
    let (first, last) = pages.given.into_inner();
    let mut text = pages.text;
    if last < pages.count && wanted.is_none() {
        text.push_str("\n[there are more pages: choose them with `pages`]");
    }
    Ok(Output::text(text).with_details(json!({
        "type": "parts",
        "file": {
            "filePath": path.to_string_lossy(),
            "originalSize": content.len(),
            "count": last + 1 - first,
            // Their text stands in the result.
            "outputDir": "",
        },
        "firstPage": first,
        "pageCount": pages.count,
    })))
}
