//! The `read` tool: a file as the model can use it: numbered lines, a picture, the text of a PDF or the cells of a
//! notebook.
//!
//! The kind of a file is determined by its bytes, not by its name; the exception is a notebook, which cannot be told
//! from other text. Only the returned part of a file is held in memory.

mod directory;
mod notebook;
mod text;

use std::io::{self, Read as _, Seek as _};
use std::sync::Arc;

use ah_conversation::{
    Access, Audio, Content, Context, Input, Interface, Output, ResultBlock, Tool, ToolExtras,
    ToolSpec, ToolUse,
};
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::Count;
use crate::blocking::Stoppable;
use crate::details;
use crate::docx;
use crate::file::FileError;
use crate::file_tool::{self, FileArguments, FileTool, Target};
use crate::image;
use crate::notebook::Notebook;
use crate::pdf;
use crate::seen::{Seen, Stamp};
use crate::workspace::{OpenFile, Workspace};

/// Number of bytes that decide the kind of a file.
const PROBE: usize = 8192;
/// Limit for the size of a picture, a PDF or a notebook.
const MAX_WHOLE: usize = 64 << 20;

/// The `read` tool.
pub struct Read {
    tool: FileTool,
    seen: Arc<Seen>,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    /// From 1
    offset: Option<Count>,
    limit: Option<Count>,
    /// Of a PDF: "3" or "1-5"
    pages: Option<String>,
}

impl FileArguments for Arguments {
    fn path(&self) -> &str {
        &self.path
    }
}

impl Read {
    /// Returns the tool for the files of `workspace`.
    pub fn new(workspace: Arc<Workspace>, interface: Interface) -> Self {
        let name = interface.tool_name("read");
        let spec = file_tool::spec::<Arguments>(interface, &name, include_str!("read.md"), 50_000);
        Self {
            tool: FileTool::new(spec, workspace, interface, Access::Read),
            seen: Arc::default(),
        }
    }

    /// Describes itself to a small model.
    #[must_use]
    pub(crate) fn brief(mut self) -> Self {
        const TEXT: &str =
            "Reads a file as numbered lines, or lists a folder.{{| The path must be absolute.}}";
        self.tool.describe_briefly(TEXT, &["pages"]);
        self
    }

    /// Returns the files that it has read.
    pub(crate) fn seen(&self) -> &Arc<Seen> {
        &self.seen
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.tool.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.tool.access(input)
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            words_of: Some(text::words_of),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let seen = self.seen.clone();
        self.tool
            .run(
                call,
                context,
                move |target: &Target<'_>, arguments: &Arguments| {
                    let stamp = Stamp::of(&target.path);
                    let output = read(target, arguments)?;
                    seen.note(&target.path, stamp);
                    Ok(output)
                },
            )
            .await
    }
}

fn read(target: &Target<'_>, arguments: &Arguments) -> Result<Output, String> {
    let Target {
        workspace,
        typed,
        path,
        stop,
        ..
    } = target;
    workspace.check_readable(path)?;
    let OpenFile {
        source: mut file,
        len: size,
    } = match target.open() {
        Ok(opened) => opened,
        Err(FileError::Directory) => return directory::list(target),
        Err(error) => return Err(target.explain(&error)),
    };
    let failed = |error| format!("cannot read `{typed}`: {error}");
    let start = part(&mut file, PROBE).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let source = Stoppable { source: file, stop };
    if let Some(format) = image::sniff(&start) {
        return picture(target, &whole(source, typed)?, format);
    }
    if let Some(media_type) = Audio::sniff(&start) {
        return sound(target, &whole(source, typed)?, media_type);
    }
    if pdf::is_pdf(&start) {
        return pages(target, &whole(source, typed)?, arguments.pages.as_deref());
    }
    let window = text::Window {
        first: arguments.offset.map_or(1, |Count(line)| line.max(1)),
        limit: arguments
            .limit
            .map(|Count(lines)| lines)
            .filter(|lines| *lines > 0),
    };
    let is_named = |wanted: &str| path.extension().is_some_and(|ending| ending == wanted);
    if is_named("docx") && start.starts_with(b"PK") {
        let text = docx::text(&whole(source, typed)?, stop)
            .map_err(|error| format!("cannot read `{typed}`: {error}"))?;
        return lines(target, text.as_bytes(), window);
    }
    if let Some(reason) = text::why_binary(&start) {
        return Err(format!(
            "`{typed}` is a binary file of {size} bytes{reason}"
        ));
    }
    if is_named("ipynb") {
        let content = whole(source, typed)?;
        let text = String::from_utf8_lossy(&content);
        return match Notebook::parse(&text) {
            Ok(notebook) => Ok(notebook::view(path, &notebook, window)),
            // A broken notebook is shown as text, so that it can be repaired.
            Err(_) => lines(target, content.as_slice(), window),
        };
    }
    lines(target, source, window)
}

fn lines(
    target: &Target<'_>,
    source: impl io::Read,
    window: text::Window,
) -> Result<Output, String> {
    let typed = target.typed;
    let lines =
        text::read(source, window).map_err(|error| format!("cannot read `{typed}`: {error}"))?;
    if lines.count == 0 && window.first > 1 {
        return Err(format!(
            "`{typed}` has only {} lines; there is no line {}",
            lines.skipped, window.first
        ));
    }
    let details = lines.details(&target.path, window.first);
    Ok(Output::text(lines.text).with_details(details))
}

/// Returns the next bytes of `source`, at most `bytes`.
fn part(source: impl io::Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    source.take(bytes as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// Returns the whole content of a file that cannot be read in parts.
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
    target: &Target<'_>,
    content: &[u8],
    format: image::ImageFormat,
) -> Result<Output, String> {
    let picture = image::fit(content, format).map_err(|error| {
        format!(
            "`{}` is not a picture that can be shown: {error}",
            target.typed
        )
    })?;
    let data = Some(&picture.image.data).filter(|data| data.len() <= details::LIMIT);
    let mut details = json!({
        "type": "image",
        "file": {
            "filePath": target.name(),
            // A larger one is in the result only.
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

fn sound(target: &Target<'_>, content: &[u8], media_type: &str) -> Result<Output, String> {
    let audio = Audio {
        media_type: media_type.to_owned(),
        data: BASE64_STANDARD.encode(content),
    };
    if audio.data.len() > Audio::LIMIT {
        return Err(format!(
            "`{}` is a sound of {} bytes, which is too large for a model",
            target.typed,
            content.len()
        ));
    }
    let blocks = audio.shown(content.len()).into();
    Ok(Output {
        content: Content::Blocks(blocks),
        ..Output::text("")
    })
}

fn pages(target: &Target<'_>, content: &[u8], wanted: Option<&str>) -> Result<Output, String> {
    let pages = pdf::read(content, wanted, target.stop)
        .map_err(|error| format!("cannot read `{}`: {error}", target.typed))?;
    let (first, last) = pages.given.into_inner();
    let mut text = pages.text;
    if last < pages.count && wanted.is_none() {
        text.push_str("\n[there are more pages: choose them with `pages`]");
    }
    Ok(Output::text(text).with_details(json!({
        "type": "parts",
        "file": {
            "filePath": target.name(),
            "originalSize": content.len(),
            "count": last + 1 - first,
            // Their text is in the result.
            "outputDir": "",
        },
        "firstPage": first,
        "pageCount": pages.count,
    })))
}
