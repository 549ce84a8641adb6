//! The file with the queue of runs, beside the sessions of a folder.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;

use super::schema::RUNS;
use super::{Durability, Failure, connect, connect_to_read, set_durability};
use crate::paths::create_folder;

/// Its name.
pub(super) const FILE: &str = "runs.queue";

/// Opens the queue of the folder with the sessions, or creates it.
pub(super) fn open(folder: &Path) -> Result<Connection, Failure> {
    let path = folder.join(FILE);
    create_folder(folder)?;
    RUNS.create_unless_exists(&path)?;
    let mut connection = connect(&path)?;
    RUNS.migrate(&mut connection)?;
    set_durability(&connection, Durability::Full)?;
    Ok(connection)
}

/// Returns the ids of the sessions in a folder that were queued.
pub(super) fn sessions_in(folder: &Path) -> HashSet<String> {
    // Without the queue nothing is lost but the difference.
    sessions(folder, "SELECT DISTINCT session FROM runs").unwrap_or_default()
}

/// Returns the ids of the sessions in a folder that have a run which is not over.
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
