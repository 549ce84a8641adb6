//! A session that was read from a file of another program, and what the readers of all programs need.

use std::fmt;

use ah_conversation::{Message, Time, text_of};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use ah_engine::sessions::plan::is_uuid;
use ah_engine::sessions::transcript_reader::{Conversation, losses};

/// A program whose sessions are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Claude Code, and `ah` where it stands in for it.
    Claude,
    /// Codex.
    Codex,
    /// The coding agent pi.
    Pi,
    /// opencode.
    OpenCode,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 6] = [
        Self::Claude,
        Self::Codex,
        Self::Pi,
        Self::OpenCode,
        Self::Gemini,
        Self::Qwen,
    ];
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Pi => "pi",
            Self::OpenCode => "opencode",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
        })
    }
}

/// A session that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The program that it is of.
    pub program: Program,
    /// Its UUID, which stays the same when the session is read again.
    pub uuid: String,
    /// The working directory, if the session tells it.
    pub cwd: Option<String>,
    /// Its name, if the user has given one.
    pub name: Option<String>,
    /// The messages.
    pub messages: Vec<Message>,
    /// What was left out, with the place of each.
    pub left: Vec<String>,
}

impl Imported {
    /// Returns the session of a conversation; `id` is what the program knows it by.
    pub fn new(
        program: Program,
        id: Option<String>,
        cwd: Option<String>,
        name: Option<String>,
        conversation: Conversation,
    ) -> Self {
        let (messages, left) = conversation.end();
        // A session without an id is known by its first words.
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| {
            let first = messages.first();
            first.map_or_else(String::new, |first| {
                format!("{}{}", first.created_at.0, text_of(&first.content))
            })
        });
        let uuid = if is_uuid(&id) {
            id.to_ascii_lowercase()
        } else {
            uuid_for(&program.to_string(), &id)
        };
        Self {
            program,
            uuid,
            cwd,
            name,
            messages,
            left,
        }
    }

    /// Returns what was left out, of many only the first places.
    pub fn losses(&self) -> Vec<String> {
        losses(&self.left)
    }
}

/// Returns a UUID for the session that a program knows by another id.
pub fn uuid_for(program: &str, id: &str) -> String {
    let hash = Sha256::digest(format!("{program}\n{id}"));
    let hex: String = hash
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // Version 8: of the application's own making.
    format!(
        "{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Returns the time in a timestamp.
pub fn time(value: &Value) -> Time {
    let at = value
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    Time(at.map_or(0, Timestamp::as_millisecond))
}
