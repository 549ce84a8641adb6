//! The file with the queue of runs of a folder's sessions. It is the user's: one that came with the folder counts for nothing, so
//! it is kept elsewhere.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;

use super::connection::{connect, connect_to_read};
use super::schema::RUNS;
use super::{Durability, Failure, set_durability};
use crate::paths::create_folder;

/// Its name.
pub(super) const FILE: &str = "runs.queue";

/// Opens the queue in this folder, or creates it.
pub(super) fn open(folder: &Path) -> Result<Connection, Failure> {
    let path = folder.join(FILE);
    create_folder(folder)?;
    RUNS.create_unless_exists(&path)?;
    let mut connection = connect(&path)?;
    RUNS.migrate(&mut connection)?;
    set_durability(&connection, Durability::Full)?;
    Ok(connection)
}

/// Returns the ids of the sessions that were queued in this folder.
pub(super) fn sessions_in(folder: &Path) -> HashSet<String> {
    // Without the queue nothing is lost but the difference.
    sessions(folder, "SELECT DISTINCT session FROM runs").unwrap_or_default()
}

/// Returns the ids of the sessions that have a run in this folder which is not over.
pub(super) fn sessions_with_open_runs(folder: &Path) -> Result<HashSet<String>, Failure> {
    let open = "SELECT DISTINCT session FROM runs WHERE state IN ('queued', 'running')";
    sessions(folder, open)
}

fn sessions(folder: &Path, query: &str) -> Result<HashSet<String>, Failure> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(HashSet::new());
    }
    let connection = connect_to_read(&path)?;
    let mut statement = connection.prepare(query)?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}
