//! Sessions of other programs as sessions of ours: Claude Code, Codex, pi and opencode. What is broken is saved as far as
//! it can be, and what is left out is told with its line.

mod build;
mod claude;
mod codex;
mod opencode;
mod pi;
mod places;
mod session;

use std::fmt;
use std::path::Path;

use ah_config::{Error, found_file};
use ah_conversation::{Message, encoding, json};
use serde_json::Value;

pub use places::{Found, found, session_files};
pub(crate) use session::losses;
pub use session::{Imported, Program};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 512 << 20;

/// Reads the session in a file, whose form tells the program.
///
/// # Errors
///
/// If the file cannot be read, or is no session.
pub fn read(path: &Path) -> Result<Imported, Error> {
    let failed = |why: &dyn fmt::Display| {
        Error::failure(format!("cannot import `{}`: {why}", path.display()))
    };
    let bytes = found_file::bytes(path, MAX_FILE).map_err(|error| failed(&error))?;
    let content = encoding::text_of(&bytes);
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let file = json::from_str(&content).map_err(|error| failed(&error))?;
        return opencode::read(path, &file).map_err(|why| failed(&why));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match program_of(&content) {
        Some(Program::Claude) => Ok(claude::read(&content, &stem)),
        Some(Program::Codex) => Ok(codex::read(&content)),
        Some(Program::Pi) => Ok(pi::read(&content)),
        Some(Program::OpenCode) | None => Err(failed(
            &"it is not a session of Claude Code, Codex, pi or opencode",
        )),
    }
}

/// Returns the conversation in a transcript of Claude Code or an SDK, whose last calls may still be open, and what was left
/// out of it.
pub(crate) fn transcript(content: &str) -> (Vec<Message>, Vec<String>) {
    let mut conversation = build::Conversation::default();
    let lines = session::json_lines(content, &mut conversation);
    claude::take(content, &lines, &mut conversation);
    conversation.end_open()
}

/// Returns the program whose lines these are: the first that can be told from a line.
fn program_of(content: &str) -> Option<Program> {
    let lines = content
        .lines()
        .filter_map(|line| json::from_str::<Value>(line).ok());
    lines.take(1000).find_map(|line| {
        let has = |key: &str| line.get(key).is_some();
        if line["type"] == "session" || (has("parentId") && has("id")) {
            Some(Program::Pi)
        } else if has("sessionId") || has("parentUuid") || has("leafUuid") {
            Some(Program::Claude)
        } else if has("payload")
            || has("record_type")
            || has("call_id")
            || (has("id") && has("instructions"))
        {
            Some(Program::Codex)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests;
