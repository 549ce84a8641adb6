//! The lease of the writer: an epoch that increases with each opening and is checked by every append, so that a writer
//! that has been replaced cannot write. On one machine the file lock already excludes a second writer; the lease also
//! shows which process has the session open.

use rusqlite::{Connection, OptionalExtension, params};

use super::Failure;

/// Key of the only row.
const KEY: &str = "session";

/// Returns whether the last holder closed the session cleanly, so that all its writes are durable in the database.
pub(super) fn was_released(connection: &Connection) -> Result<bool, Failure> {
    let mut statement = connection.prepare("SELECT 1 FROM lease WHERE owner IS NULL")?;
    Ok(statement.exists([])?)
}

/// Starts a new epoch, held by this process, and returns it.
pub(super) fn take(connection: &Connection) -> Result<i64, Failure> {
    let epoch = connection.query_one(
        "INSERT INTO lease (key, epoch, owner, heartbeat_at) VALUES (?, 1, ?, ?)
         ON CONFLICT (key) DO UPDATE SET
             epoch = epoch + 1, owner = excluded.owner, heartbeat_at = excluded.heartbeat_at
         RETURNING epoch",
        params![KEY, owner(), ah_ids::now().seconds()],
        |row| row.get(0),
    )?;
    Ok(epoch)
}

/// Fails if another epoch has started.
pub(super) fn check(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    let current: Option<i64> = connection
        .prepare_cached("SELECT epoch FROM lease WHERE key = ?")?
        .query_row([KEY], |row| row.get(0))
        .optional()?;
    if current == Some(epoch) {
        return Ok(());
    }
    Err(Failure::Refused {
        reason: "another process has taken over the session".to_owned(),
        hint: Some("run again to continue from what that process has stored".to_owned()),
    })
}

/// Updates the heartbeat of the holder of `epoch`.
pub(super) fn heartbeat(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE lease SET heartbeat_at = ? WHERE key = ? AND epoch = ?")?
        .execute(params![ah_ids::now().seconds(), KEY, epoch])?;
    Ok(())
}

/// Clears the holder of `epoch`.
pub(super) fn release(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE lease SET owner = NULL WHERE key = ? AND epoch = ?")?
        .execute(params![KEY, epoch])?;
    Ok(())
}

fn owner() -> String {
    std::process::id().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_could_not_be_stored_is_not_taken() {
        let connection = Connection::open_in_memory().unwrap();
        let fails_at_its_commit = "
            PRAGMA foreign_keys = ON;
            CREATE TABLE lease (key TEXT PRIMARY KEY, epoch INTEGER, owner TEXT, heartbeat_at INTEGER);
            CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER fault AFTER INSERT ON lease BEGIN INSERT INTO child VALUES (1); END;";
        connection.execute_batch(fails_at_its_commit).unwrap();
        assert!(take(&connection).is_err());
    }
}
