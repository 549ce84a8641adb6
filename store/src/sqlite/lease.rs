//! Who writes the session: an epoch that grows with each opening and that every append names, so that a writer whose
//! time is over cannot write. On one machine the file lock keeps writers apart; here it is also shown who holds it.

use rusqlite::{Connection, OptionalExtension, params};

use super::Failure;
use crate::id;

/// The session's one row.
const KEY: &str = "session";

/// Whether the last holder left the session in order, so that all it wrote is in the database and on the disk.
pub(super) fn was_released(connection: &Connection) -> Result<bool, Failure> {
    let mut statement = connection.prepare("SELECT 1 FROM lease WHERE owner IS NULL")?;
    Ok(statement.exists([])?)
}

/// Begins a new epoch, held by this process.
pub(super) fn take(connection: &Connection) -> Result<i64, Failure> {
    let epoch = connection.query_row(
        "INSERT INTO lease (key, epoch, owner, heartbeat_at) VALUES (?, 1, ?, ?)
         ON CONFLICT (key) DO UPDATE SET
             epoch = epoch + 1, owner = excluded.owner, heartbeat_at = excluded.heartbeat_at
         RETURNING epoch",
        params![KEY, owner(), id::now().seconds()],
        |row| row.get(0),
    )?;
    Ok(epoch)
}

/// Refuses if another epoch has begun.
pub(super) fn check(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    let current: Option<i64> = connection
        .prepare_cached("SELECT epoch FROM lease WHERE key = ?")?
        .query_row([KEY], |row| row.get(0))
        .optional()?;
    if current == Some(epoch) {
        return Ok(());
    }
    Err(Failure::Refused {
        reason: "another process has taken the session over".to_owned(),
        hint: Some("run it again to go on from what that process has stored".to_owned()),
    })
}

/// Shows that the holder of `epoch` is alive.
pub(super) fn beat(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE lease SET heartbeat_at = ? WHERE key = ? AND epoch = ?")?
        .execute(params![id::now().seconds(), KEY, epoch])?;
    Ok(())
}

/// Shows that nobody holds the session any more.
pub(super) fn release(connection: &Connection, epoch: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE lease SET owner = NULL WHERE key = ? AND epoch = ?")?
        .execute(params![KEY, epoch])?;
    Ok(())
}

fn owner() -> String {
    std::process::id().to_string()
}
