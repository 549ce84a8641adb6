//! A Jupyter notebook for the model: cell by cell, with the outputs of each.

use std::fmt::Write as _;
use std::path::Path;

use ah_conversation::{Content, Output, ResultBlock};
use serde_json::{Value, json};

use super::text::Window;
use crate::notebook::{Cell, Notebook, joined};
use crate::{details, image};

/// Limits for the text of one output and of a whole notebook with pictures, in bytes, and for the number of pictures.
const OUTPUT_BYTES: usize = 10_000;
const TEXT_BYTES: usize = 50_000;
const PICTURES: usize = 10;

/// The blocks of the view so far.
#[derive(Default)]
struct NotebookView {
    blocks: Vec<ResultBlock>,
    text: String,
    pictures: usize,
}

/// Shows the cells of the window, which counts cells here.
pub(super) fn view(path: &Path, notebook: &Notebook<'_>, window: Window) -> Output {
    let skip = usize::try_from(window.first - 1).unwrap_or(usize::MAX);
    let take = usize::try_from(window.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut view = NotebookView::default();
    if notebook.cells.is_empty() {
        view.text.push_str("[the notebook has no cells]\n");
    }
    for cell in notebook.cells.iter().skip(skip).take(take) {
        view.push(cell);
    }
    let mut cells: Vec<_> = notebook
        .cells
        .iter()
        .map(|cell| details_of(cell, &notebook.language))
        .collect();
    if json!(cells).to_string().len() > details::LIMIT {
        cells.clear();
    }
    Output {
        content: view.finish(),
        is_error: false,
        details: Some(json!({
            "type": "notebook",
            "file": { "filePath": path.to_string_lossy(), "cells": cells },
        })),
    }
}

impl NotebookView {
    fn push(&mut self, cell: &Cell) {
        let run = cell
            .run()
            .map_or_else(String::new, |run| format!(", run {run}"));
        self.line(&format!("[cell {}: {}{run}]", cell.id, cell.kind()));
        self.line(&cell.source());
        for output in cell.outputs() {
            self.line(&format!("[output of {}]", cell.id));
            let text = text_of(output);
            let start = &text[..text.floor_char_boundary(OUTPUT_BYTES)];
            self.line(start.trim_end_matches('\n'));
            if start.len() < text.len() {
                self.line(&format!("[{} more bytes]", text.len() - start.len()));
            }
            self.picture(output);
        }
    }

    fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.text.push('\n');
        }
    }

    fn picture(&mut self, output: &Value) {
        let Some((_, data)) = picture_of(output) else {
            return;
        };
        self.pictures += 1;
        if self.pictures > PICTURES {
            return self.line("[a picture that is not shown: there are too many]");
        }
        match image::in_base64(&data) {
            Ok(image) => {
                self.close();
                self.blocks.push(ResultBlock::Image(image));
            }
            Err(_) => self.line("[a picture that cannot be shown]"),
        }
    }

    /// Ends a block of text.
    fn close(&mut self) {
        let text = std::mem::take(&mut self.text)
            .trim_end_matches('\n')
            .to_owned();
        if !text.is_empty() {
            self.blocks.push(ResultBlock::Text { text });
        }
    }

    fn finish(mut self) -> Content {
        // The truncation of the tool applies to text without pictures.
        if self.blocks.is_empty() {
            let text = self.text.trim_end_matches('\n');
            return Content::Bytes(text.as_bytes().to_vec());
        }
        self.close();
        let mut room = TEXT_BYTES;
        for block in &mut self.blocks {
            if let ResultBlock::Text { text } = block {
                let end = text.floor_char_boundary(room);
                room -= end;
                if end < text.len() {
                    let left_out = text.len() - end;
                    text.truncate(end);
                    let _ = write!(
                        text,
                        "\n[{left_out} more bytes: read part of the cells with offset and limit]"
                    );
                }
            }
        }
        Content::Blocks(self.blocks)
    }
}

/// Returns the text of an output: a stream, the value of the last line, or an error.
fn text_of(output: &Value) -> String {
    match output["output_type"].as_str() {
        Some("stream") => joined(output.get("text")),
        Some("error") => {
            let of = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
            let trace: Vec<_> = output["traceback"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(without_colours)
                .collect();
            format!("{}: {}\n{}", of("ename"), of("evalue"), trace.join("\n"))
        }
        _ => joined(output["data"].get("text/plain")),
    }
}

/// Returns the media type of the picture of an output, and the picture in base64.
fn picture_of(output: &Value) -> Option<(&'static str, String)> {
    ["image/png", "image/jpeg"]
        .into_iter()
        .find_map(|kind| Some((kind, joined(Some(output["data"].get(kind)?)))))
}

/// Removes the escape sequences for colours.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    plain + rest
}

/// Returns the details of a cell, in the shape of the official SDKs.
fn details_of(cell: &Cell, language: &str) -> Value {
    let output = |output: &Value| {
        let mut details = json!({ "output_type": output["output_type"], "text": text_of(output) });
        if let Some((kind, data)) = picture_of(output) {
            details["image"] = json!({ "image_data": data, "media_type": kind });
        }
        details
    };
    let mut details =
        json!({ "cellType": cell.kind(), "source": cell.source(), "cell_id": cell.id });
    if cell.kind() == "code" {
        details["language"] = json!(language);
        details["execution_count"] = json!(cell.run());
        details["outputs"] = cell.outputs().iter().map(output).collect();
    }
    details
}
