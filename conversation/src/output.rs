//! Output of a tool call, complete: text, bytes in a file, or blocks with images.

use std::path::PathBuf;

use serde_json::Value;

use crate::ResultBlock;

/// Output of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Content of the output.
    pub content: Content,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Structured data about the output, for displays and programs.
    pub details: Option<Value>,
}

impl Output {
    /// Returns a successful output.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: Content::Bytes(text.into().into_bytes()),
            is_error: false,
            details: None,
        }
    }

    /// Returns a failed output; the text tells the model what to try.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            content: Content::Bytes(text.into().into_bytes()),
            is_error: true,
            details: None,
        }
    }

    /// Returns the same output with `details`.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }
}

/// Complete content of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Raw bytes, not necessarily text.
    Bytes(Vec<u8>),
    /// Output too big for memory, in a file.
    Spool(Spool),
    /// Text and images, sent to the model unchanged.
    Blocks(Vec<ResultBlock>),
}

impl Content {
    /// Returns the text; of output in a file, the beginning and the end.
    pub fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Spool(spool) => {
                let ends = [spool.head.as_slice(), b"\n[...]\n", &spool.tail].concat();
                String::from_utf8_lossy(&ends).into_owned()
            }
            Self::Blocks(blocks) => ResultBlock::text_of(blocks),
        }
    }
}

/// Output in a file, already written and synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    /// Path of the file.
    pub path: PathBuf,
    /// Total number of bytes that the tool wrote.
    pub len: u64,
    /// Number of lines that the tool wrote.
    pub lines: u64,
    /// Number of bytes between head and tail that the file omits, because they exceed the cap.
    pub left_out: u64,
    /// SHA-256 of the file's bytes, in lower-case hexadecimal.
    pub sha256: String,
    /// The first bytes, at least as many as any truncation keeps.
    pub head: Vec<u8>,
    /// The last bytes, at least as many as any truncation keeps; head and tail do not overlap.
    pub tail: Vec<u8>,
}
