//! Key-value pairs of a session; the keys are those of the original program.

use rusqlite::{Connection, OptionalExtension};

use super::Failure;

/// Id of the current message.
pub(super) const CURRENT_MESSAGE: &str = "current_message";
/// Name of the session.
pub(super) const NAME: &str = "session_name";
/// State of the session: `idle`, `processing` or `closed`.
pub(super) const STATE: &str = "session_state";
/// UUID of the session, if it is not the bits of its id.
pub(super) const UUID: &str = "session_uuid";

/// Model of the session, as `--model` names it.
pub(super) const MODEL: &str = "session_model";

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
