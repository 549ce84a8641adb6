//! What is known of a session besides its messages: single values under the original work's names.

use rusqlite::{Connection, OptionalExtension};

use super::Failure;

/// The id of the current message.
pub(super) const CURRENT_MESSAGE: &str = "current_message";
/// What people call the session.
pub(super) const NAME: &str = "session_name";
/// `idle`, `processing` or `closed`.
pub(super) const STATE: &str = "session_state";
/// What other programs call the session, where it is not the bits of its id.
pub(super) const UUID: &str = "session_uuid";

/// The value of a context key.
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
