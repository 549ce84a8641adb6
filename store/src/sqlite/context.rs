//! Key-value pairs of a session. Keys that the original program has too are named as there.

use ah_conversation::Time;
use rusqlite::{Connection, OptionalExtension};

use super::Failure;
use crate::paths::Paths;
use ah_ids::created_at;

/// Id of the current message.
pub(super) const CURRENT_MESSAGE: &str = "current_message";
/// Name of the session.
pub(super) const NAME: &str = "session_name";
/// State of the session: `idle`, `processing` or `closed`.
pub(super) const STATE: &str = "session_state";
/// UUID of the session, if it is not the bits of its id.
pub(super) const UUID: &str = "session_uuid";

/// Working directory when the session was used last.
pub(super) const FOLDER: &str = "session_folder";
/// Branch of the repository then; empty without one.
pub(super) const GIT_BRANCH: &str = "session_branch";
/// Time at which the session was begun in Unix milliseconds, if its id says a later one: ids increase, also after the
/// clock was ahead.
pub(super) const BEGUN: &str = "session_begun";

/// Model of the session, as `--model` names it.
pub(super) const MODEL: &str = "session_model";
/// Permission mode that was chosen in the session, as `--permission-mode` names it.
pub(super) const PERMISSION_MODE: &str = "session_permission_mode";

/// Returns the context key of a note.
pub(super) fn note(key: &str) -> String {
    format!("note.{key}")
}

/// Returns the value of a context key.
pub(super) fn get(connection: &Connection, key: &str) -> Result<Option<String>, Failure> {
    let value = connection
        .prepare_cached("SELECT value FROM context WHERE key = ?")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(value.flatten())
}

/// Sets the value of a context key.
pub(super) fn set(connection: &Connection, key: &str, value: &str) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO context (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )?
        .execute([key, value])?;
    Ok(())
}

/// Returns what is to be recorded at the time `now` as the beginning of a new session: nothing, unless its id is from a clock
/// that was ahead.
pub(super) fn begun(paths: &Paths, now: Time) -> Option<String> {
    let is_ahead = |id: &_| created_at(id) > now;
    paths.id().filter(is_ahead).map(|_| now.0.to_string())
}
