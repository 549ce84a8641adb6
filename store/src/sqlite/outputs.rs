//! Full outputs of tool calls: small ones in the database, large ones in files beside it.
//!
//! Outputs are stored byte for byte. The text that the model saw is stored only if it differs.

use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_conversation::{
    Audio, Content, Image, OutputPage, ResultBlock, Spool, ToolResult, ToolUseId, json,
};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rustix::fs::OFlags;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Failure;
use super::details::{Details, SpoolNote};
use crate::paths::{FILE_MODE, file_name, hex, output_name, outputs_folder};

/// Maximum size of an output in the database, in bytes; larger ones go to files.
const LARGEST_IN_DATABASE: usize = 256 * 1024;
/// Marks an output of images and text, as in the original program.
const ENVELOPE_MARK: &str = "__image__";

/// The column of the full output, as far as a result needs it: where the model saw it unchanged, or the details repeat it.
macro_rules! needed_output {
    () => {
        "CASE WHEN content IS NULL OR instr(details, '\"output_in\"') THEN tool_output END"
    };
}
pub(super) use needed_output;

/// A full output in its stored form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FullOutput {
    /// Text, or an envelope of images and text.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
    /// Output in a file.
    Spooled(SpoolNote),
}

/// Columns of a tool result, the same in the journal and among the content blocks.
pub(super) struct ResultColumns {
    pub content: Option<String>,
    pub details: Details,
    pub tool_output: FullOutput,
}

impl ToSql for FullOutput {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Spooled(_) => ValueRef::Null,
        }))
    }
}

impl FullOutput {
    /// Converts `content` to its stored form; large output is written to a file in `folder`, durably.
    pub(super) fn store(
        content: &Content,
        call: &ToolUseId,
        folder: &Path,
    ) -> Result<Self, Failure> {
        match content {
            Content::Bytes(bytes) if bytes.len() > LARGEST_IN_DATABASE => {
                Ok(Self::Spooled(spool(bytes, call, folder)?))
            }
            Content::Bytes(bytes) => Ok(match std::str::from_utf8(bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Bytes(bytes.clone()),
            }),
            Content::Spool(spool) => Ok(Self::Spooled(adopt(spool, call, folder)?)),
            Content::Blocks(blocks) => Ok(Self::Text(envelope(blocks))),
        }
    }

    /// Converts the content of a result, for calls without any other output.
    fn of_result(content: &[ResultBlock]) -> Self {
        match content {
            [ResultBlock::Text { text }] => Self::Text(text.clone()),
            blocks => Self::Text(envelope(blocks)),
        }
    }

    /// Reads a `tool_output` column and the reference to a file; `None` if both are empty.
    pub(super) fn read(
        value: ValueRef<'_>,
        spool: Option<SpoolNote>,
    ) -> Result<Option<Self>, Failure> {
        Ok(match value {
            ValueRef::Null => spool.map(Self::Spooled),
            ValueRef::Text(_) => Some(Self::Text(value.as_str()?.to_owned())),
            ValueRef::Blob(bytes) => Some(Self::Bytes(bytes.to_vec())),
            ValueRef::Integer(_) | ValueRef::Real(_) => {
                return Err(Failure::Damaged("a tool output is a number".to_owned()));
            }
        })
    }

    /// Opens the output for reading. A line marks the place where a part was left out.
    pub(super) fn open(self, folder: &Path) -> io::Result<Box<dyn BufRead>> {
        Ok(match self {
            Self::Text(text) => Box::new(Cursor::new(text)),
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Self::Spooled(note) => {
                let outputs = Folder::at(folder)?;
                let open = || outputs.open_file(note.file.as_ref(), OFlags::RDONLY);
                let head = BufReader::new(open()?);
                if note.left_out == 0 {
                    return Ok(Box::new(head));
                }
                let mut tail = BufReader::new(open()?);
                tail.seek(SeekFrom::Start(note.left_out_at))?;
                let notice = format!("\n[{} bytes left out]\n", note.left_out);
                Box::new(
                    head.take(note.left_out_at)
                        .chain(Cursor::new(notice))
                        .chain(tail),
                )
            }
        })
    }
}

impl ResultColumns {
    /// Returns the columns of `result`; without `full_output`, the result itself is the full output.
    pub(super) fn new(
        result: &ToolResult,
        full_output: Option<FullOutput>,
    ) -> Result<Self, Failure> {
        let full_output = full_output.unwrap_or_else(|| FullOutput::of_result(&result.content));
        let (content, is_blocks) = match (&full_output, result.content.as_slice()) {
            (FullOutput::Text(all), [ResultBlock::Text { text }]) if all == text => (None, false),
            (_, [ResultBlock::Text { text }]) => (Some(text.clone()), false),
            (FullOutput::Text(all), blocks) if *all == envelope(blocks) => (None, true),
            (_, blocks) => (Some(serde_json::to_string(blocks)?), true),
        };
        let spool = match &full_output {
            FullOutput::Spooled(note) => Some(note.clone()),
            FullOutput::Text(_) | FullOutput::Bytes(_) => None,
        };
        let mut details = Details {
            own: result.details.clone(),
            spool,
            is_blocks,
            lines: result.lines,
            output_in: None,
        };
        if let FullOutput::Text(output) = &full_output {
            details.leave_out(output);
        }
        Ok(Self {
            content,
            details,
            tool_output: full_output,
        })
    }

    /// Returns what the model saw: the `content` column or, if that is NULL, the full output.
    pub(super) fn seen(
        content: Option<String>,
        tool_output: ValueRef<'_>,
        is_blocks: bool,
    ) -> Result<Vec<ResultBlock>, Failure> {
        Ok(match (content, is_blocks) {
            (Some(text), false) => vec![ResultBlock::Text { text }],
            (Some(blocks), true) => json::from_str(&blocks)?,
            (None, true) => opened(tool_output.as_str()?)?,
            (None, false) => {
                let text = tool_output.as_str()?.to_owned();
                vec![ResultBlock::Text { text }]
            }
        })
    }
}

/// Returns an unused path for the output of `call`.
pub(super) fn free_path(folder: &Path, call: &ToolUseId) -> PathBuf {
    let name = match Folder::at(folder) {
        Ok(outputs) => free_name(&outputs, call),
        Err(_) => output_name(call, 0),
    };
    folder.join(name)
}

/// Returns an unused name for the output of `call`.
fn free_name(outputs: &Folder, call: &ToolUseId) -> String {
    let is_free = |name: &String| !matches!(outputs.status(name.as_ref()), Ok(Some(_)));
    (0..)
        .map(|attempt| output_name(call, attempt))
        .find(is_free)
        .expect("there are infinitely many names")
}

/// Returns the lines `offset` (1-based) to `offset + limit - 1` and the total number of lines. Only the requested lines
/// are held in memory.
pub(super) fn page(
    mut output: impl BufRead,
    offset: usize,
    limit: usize,
) -> io::Result<OutputPage> {
    let wanted = offset.max(1)..offset.max(1).saturating_add(limit);
    let mut text = Vec::new();
    let mut lines = 0;
    let mut is_inside_line = false;
    loop {
        let buffer = output.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let used = buffer.len();
        for piece in buffer.split_inclusive(|byte| *byte == b'\n') {
            lines += usize::from(!is_inside_line);
            is_inside_line = piece.last() != Some(&b'\n');
            if wanted.contains(&lines) {
                text.extend_from_slice(piece);
            }
        }
        output.consume(used);
    }
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok(OutputPage {
        text: String::from_utf8_lossy(&text).into_owned(),
        lines,
    })
}

fn spool(bytes: &[u8], call: &ToolUseId, folder: &Path) -> io::Result<SpoolNote> {
    let outputs = outputs_folder(folder)?;
    let name = free_name(&outputs, call);
    let mut file = outputs.create_file(name.as_ref(), FILE_MODE)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    outputs.sync()?;
    Ok(SpoolNote {
        file: name,
        len: bytes.len() as u64,
        left_out: 0,
        left_out_at: 0,
        sha256: hex(&Sha256::digest(bytes)),
    })
}

/// Returns a reference to a file that a tool has written and synced; a file outside of `folder` is moved there.
fn adopt(spool: &Spool, call: &ToolUseId, folder: &Path) -> io::Result<SpoolNote> {
    let outputs = outputs_folder(folder)?;
    let name = if spool.path.parent() == Some(folder) {
        file_name(&spool.path)
    } else {
        let name = free_name(&outputs, call);
        let mut copy = outputs.create_file(name.as_ref(), FILE_MODE)?;
        let place = spool.path.parent().zip(spool.path.file_name());
        let (around, own) = place.ok_or(io::ErrorKind::InvalidInput)?;
        let around = Folder::at(around)?;
        io::copy(&mut around.open_file(own, OFlags::RDONLY)?, &mut copy)?;
        copy.sync_all()?;
        around.remove_file(own)?;
        name
    };
    outputs.set_mode(name.as_ref(), FILE_MODE)?;
    outputs.sync()?;
    Ok(SpoolNote {
        file: name,
        len: spool.len,
        left_out: spool.left_out,
        left_out_at: spool
            .len
            .saturating_sub(spool.left_out + spool.tail.len() as u64),
        sha256: spool.sha256.clone(),
    })
}

/// Encodes images and text as JSON in the format of the Messages API.
fn envelope(blocks: &[ResultBlock]) -> String {
    let content: Vec<_> = blocks.iter().map(wire).collect();
    json!({ ENVELOPE_MARK: true, "content": content }).to_string()
}

fn wire(block: &ResultBlock) -> Value {
    match block {
        ResultBlock::Text { text } => json!({ "type": "text", "text": text }),
        ResultBlock::Image(Image { media_type, data }) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
        ResultBlock::Audio(Audio { media_type, data }) => json!({
            "type": "audio",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
    }
}

/// Decodes an envelope.
fn opened(envelope: &str) -> Result<Vec<ResultBlock>, Failure> {
    let mut envelope: Value = json::from_str(envelope)?;
    let Some(Value::Array(content)) = envelope.get_mut("content").map(Value::take) else {
        return Err(Failure::Damaged(
            "an image output has no content".to_owned(),
        ));
    };
    let text = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.map(str::to_owned)
            .ok_or_else(|| Failure::Damaged(format!("an image output has no `{name}`")))
    };
    let block = |value: &Value| match value.get("source") {
        Some(source) if value["type"] == "audio" => Ok(ResultBlock::Audio(Audio {
            media_type: text(source, "media_type")?,
            data: text(source, "data")?,
        })),
        Some(source) => Ok(ResultBlock::Image(Image {
            media_type: text(source, "media_type")?,
            data: text(source, "data")?,
        })),
        None => Ok(ResultBlock::Text {
            text: text(value, "text")?,
        }),
    };
    content.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_and_sound_come_back() {
        let data = || "AAAA".to_owned();
        let blocks = vec![
            ResultBlock::Text {
                text: "[audio/wav, 3 bytes]".to_owned(),
            },
            ResultBlock::Audio(Audio {
                media_type: "audio/wav".to_owned(),
                data: data(),
            }),
            ResultBlock::Image(Image {
                media_type: "image/png".to_owned(),
                data: data(),
            }),
        ];
        assert_eq!(opened(&envelope(&blocks)).unwrap(), blocks);
    }

    #[test]
    fn a_page_has_the_requested_lines_and_the_total() {
        for (output, offset, limit, expected, lines) in [
            ("", 1, 10, "", 0),
            ("a", 1, 10, "a", 1),
            ("a\nb\nc\n", 2, 1, "b", 3),
            ("a\nb\nc", 2, 5, "b\nc", 3),
            ("a\n\nc\n", 1, 2, "a\n", 3),
            ("a\nb\n", 3, 1, "", 2),
            ("a\nb\n", 0, 1, "a", 2),
            ("a\nb\n", 1, usize::MAX, "a\nb", 2),
        ] {
            let page = page(Cursor::new(output), offset, limit).unwrap();
            assert_eq!(
                (page.text.as_str(), page.lines),
                (expected, lines),
                "{output:?}"
            );
        }
    }

    #[test]
    fn a_page_does_not_depend_on_the_size_of_reads() {
        let output = "first\nsecond, longer\n\nlast \u{fc}";
        for capacity in 1..40 {
            let reader = BufReader::with_capacity(capacity, Cursor::new(output));
            let page = page(reader, 2, 3).unwrap();
            assert_eq!(page.text, "second, longer\n\nlast \u{fc}");
            assert_eq!(page.lines, 4);
        }
    }
}
