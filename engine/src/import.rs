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
use std::sync::Arc;

use ah_config::{Config, Error, found_file};
use ah_conversation::{Message, Record, SessionId, Store as _, encoding, json};
use ah_store::OpenError;
use serde_json::Value;

use crate::open::busy;
use crate::place::{sessions, take_new};
pub use places::{Found, found, session_files};
pub(crate) use session::losses;
pub use session::{Imported, Program};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 512 << 20;

/// Outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A new session has this id.
    New(SessionId),
    /// It has been imported before, or is one of ours.
    Known(SessionId),
    /// There is nothing in it.
    Empty,
}

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

/// Stores a session among those of the working directory, unless it is there.
///
/// # Errors
///
/// If the sessions cannot be read or written.
pub async fn store(config: &Config, imported: &Imported) -> Result<Outcome, Error> {
    let Some(last) = imported.messages.last() else {
        return Ok(Outcome::Empty);
    };
    let sessions = sessions(config);
    for head in sessions.list()? {
        let uuid = head.uuid.unwrap_or_else(|| ah_store::uuid_of(&head.id));
        if uuid.eq_ignore_ascii_case(&imported.uuid) {
            return Ok(Outcome::Known(head.id));
        }
    }
    let session = match take_new(config, last.created_at) {
        Ok(session) => session,
        Err(OpenError::Busy(holder)) => return Err(busy(&holder)),
        Err(OpenError::Store(error)) => return Err(error.into()),
    };
    session.set_uuid(imported.uuid.clone()).await?;
    if let Some(name) = imported
        .name
        .as_ref()
        .filter(|name| !name.trim().is_empty())
        && sessions.named(name).is_ok_and(|named| named.is_none())
    {
        session.set_name(name.clone()).await?;
    }
    let records = imported.messages.iter().cloned().map(Arc::new);
    session
        .append(records.map(Record::Message).collect())
        .await?;
    Ok(Outcome::New(session.id().clone()))
}

#[cfg(test)]
mod tests;
