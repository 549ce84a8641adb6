//! Sessions of other programs as sessions of ours: Claude Code, Codex, pi, opencode, Gemini CLI and Qwen Code. What is broken is saved as far as
//! it can be, and what is left out is told with its line.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod pi;
mod places;
mod session;

use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;

use ah_config::{Error, found_file};
use ah_conversation::{encoding, json};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

pub use places::{Found, found, session_files};
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
    if let Some((database, id)) = places::in_database(path) {
        let found = ah_store::opencode::session(database, id).map_err(|why| failed(&why))?;
        let found = found.ok_or_else(|| failed(&"there is no such session in the database"))?;
        return opencode::read(path, &found).map_err(|why| failed(&why));
    }
    let bytes = found_file::bytes(path, MAX_FILE).map_err(|error| failed(&error))?;
    let bytes = uncompressed(bytes, MAX_FILE).map_err(|error| failed(&error))?;
    let content = encoding::text_of(&bytes);
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let file = json::from_str(&content).map_err(|error| failed(&error))?;
        if let Some(imported) = gemini::read(&file) {
            return Ok(imported);
        }
        return opencode::read(path, &file).map_err(|why| failed(&why));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match program_of(&content) {
        Some(Program::Claude) => Ok(claude::read(&content, &stem)),
        Some(Program::Codex) => Ok(codex::read(&content)),
        Some(Program::Pi) => Ok(pi::read(&content)),
        Some(Program::Qwen) => Ok(gemini::read_lines(&content)),
        Some(Program::Gemini) => {
            gemini::read_log(&content).ok_or_else(|| failed(&"it has no messages of Gemini CLI"))
        }
        Some(Program::OpenCode) | None => Err(failed(
            &"it is not a session of Claude Code, Codex, pi, opencode, Gemini CLI or Qwen Code",
        )),
    }
}

/// Returns the bytes of a file as they were before Codex compressed it, if it has: up to `limit`, so that a small file cannot
/// fill the memory.
fn uncompressed(bytes: Vec<u8>, limit: u64) -> io::Result<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes);
    }
    let (mut rest, mut whole) = (&*bytes, Vec::new());
    while rest.starts_with(&MAGIC) {
        let frame = StreamingDecoder::new(&mut rest).map_err(io::Error::other)?;
        let left = limit.saturating_sub(whole.len() as u64);
        frame.take(left).read_to_end(&mut whole)?;
        if whole.len() as u64 >= limit {
            return Err(io::Error::other(format!("it has more than {limit} bytes")));
        }
    }
    Ok(whole)
}

/// Returns the program whose lines these are: the first that can be told from a line.
fn program_of(content: &str) -> Option<Program> {
    let lines = content
        .lines()
        .filter_map(|line| json::from_str::<Value>(line).ok());
    let lines: Vec<_> = lines.take(1000).collect();
    // Its lines have the names of Claude Code's, and messages in the form of Google's API.
    if lines.iter().any(|line| line["message"]["parts"].is_array()) {
        return Some(Program::Qwen);
    }
    if lines.iter().any(|line| line["projectHash"].is_string()) {
        return Some(Program::Gemini);
    }
    lines.iter().find_map(|line| {
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
