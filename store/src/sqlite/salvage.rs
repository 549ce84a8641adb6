//! Saves what can be read of a damaged database into a fresh one, and keeps the damaged one aside.
//!
//! Nothing is read through an index, and every row by itself, so that a page that cannot be read costs its own rows
//! and no others. Where not even the first page says what the file holds, that of a fresh database takes its place:
//! tables made by the same steps begin at the same pages. What was read and does not make sense is left out.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::schema::{CONVERSATION, QUEUE, Schema};
use super::{Failure, connect, context, prune};
use crate::id;
use crate::paths::{open_or_create, sync_folder, with_ending};

/// What the names of the two halves of a database in WAL mode end in.
const WAL: &str = "-wal";
const SHM: &str = "-shm";
/// After so many rows in a row that are not there, there are no more.
const MOST_MISSES: usize = 5_000;
/// The first page, and where in it stands how many pages the file has.
const PAGE: usize = 4096;
const PAGE_COUNT: std::ops::Range<usize> = 28..32;

/// What was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Salvaged {
    /// The damaged file.
    pub kept: PathBuf,
    /// How many messages, or letters of a queue, are in the fresh database.
    pub messages: usize,
}

/// A row by the names of its columns, in their order.
struct Table {
    name: &'static str,
    columns: Vec<String>,
}

/// A row of a table.
struct Row {
    rowid: i64,
    values: Vec<Value>,
}

/// Saves a conversation. The caller holds the session's lock and has no connection open.
pub(super) fn conversation(path: &Path) -> Result<Salvaged, Failure> {
    let mut saved = 0;
    let kept = replace(&CONVERSATION, path, |damaged, fresh| {
        saved = copy_conversation(damaged, fresh)?;
        Ok(())
    })?;
    Ok(Salvaged {
        kept,
        messages: saved,
    })
}

/// Saves the mail of a queue.
pub(super) fn queue(path: &Path) -> Result<Salvaged, Failure> {
    let mut saved = 0;
    let kept = replace(&QUEUE, path, |damaged, fresh| {
        let table = Table::of(fresh, "queue_messages")?;
        // A letter that is no text, or whose id is there twice, is beyond help.
        let rows = table.rows(damaged)?;
        saved = rows
            .iter()
            .filter(|row| table.insert(fresh, row).is_ok())
            .count();
        Ok(())
    })?;
    Ok(Salvaged {
        kept,
        messages: saved,
    })
}

/// Fills a fresh database from the damaged one at `path` and puts it in its place. Gives the name under which the
/// damaged one is kept. A crash in between leaves the damaged database, to be saved again.
fn replace(
    schema: &Schema,
    path: &Path,
    copy: impl FnOnce(&Connection, &Connection) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let kept = keep_aside(path)?;
    let patient = with_ending(path, ".salvage");
    remove_database(&patient)?;
    for ending in ["", WAL] {
        let from = with_ending(path, ending);
        if from.exists() {
            fs::copy(from, with_ending(&patient, ending))?;
        }
    }
    let draft = with_ending(path, ".saved");
    let filled = open_damaged(schema, &patient)
        .and_then(|damaged| schema.create(&draft, |fresh| copy(&damaged, fresh)));
    remove_database(&patient)?;
    filled?;
    fs::File::open(&draft)?.sync_all()?;
    // The log of the damaged database must not be replayed over the fresh one.
    for ending in [WAL, SHM] {
        remove_if_exists(&with_ending(path, ending))?;
    }
    fs::rename(&draft, path)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(kept)
}

/// Gives the damaged files a second name, or copies them where the file system knows no links.
fn keep_aside(path: &Path) -> io::Result<PathBuf> {
    let seconds = id::now().seconds();
    let kept = (0..)
        .map(|attempt| match attempt {
            0 => with_ending(path, &format!(".corrupt-{seconds}")),
            _ => with_ending(path, &format!(".corrupt-{seconds}-{attempt}")),
        })
        .find(|kept| !kept.exists())
        .expect("the names do not end");
    for ending in ["", WAL] {
        let (from, to) = (with_ending(path, ending), with_ending(&kept, ending));
        if from.exists() && fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(kept)
}

/// Opens a copy of the damaged database as far as it goes; its first page is mended if need be.
fn open_damaged(schema: &Schema, patient: &Path) -> Result<Connection, Failure> {
    if let Ok(connection) = open_leniently(patient)
        && schema.try_tables(&connection).is_ok()
    {
        return Ok(connection);
    }
    let template = with_ending(patient, "-template");
    schema.create(&template, |_| Ok(()))?;
    let mut pages = fs::read(&template)?;
    fs::remove_file(&template)?;
    // The file's own length counts, not the template's.
    pages[PAGE_COUNT].fill(0);
    let file = open_or_create(patient)?;
    let is_short = file.metadata()?.len() < pages.len() as u64;
    let mended = if is_short { &pages } else { &pages[..PAGE] };
    file.write_all_at(mended, 0)?;
    open_leniently(patient)
}

fn open_leniently(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path)?;
    // Lets SQLite read a file that is shorter than it says.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    Ok(connection)
}

fn copy_conversation(damaged: &Connection, fresh: &Connection) -> Result<usize, Failure> {
    fresh.execute_batch("PRAGMA foreign_keys = OFF")?;
    let table = Table::of(fresh, "messages")?;
    let mut rows = table.rows(damaged)?;
    table.mend_parents(&mut rows);
    for row in &rows {
        let _ = table.insert(fresh, row);
    }
    for name in [
        "content_blocks",
        "tool_calls",
        "events",
        "file_steps",
        "file_states",
    ] {
        let table = Table::of(fresh, name)?;
        for row in table.rows(damaged)? {
            let _ = table.insert(fresh, &row);
        }
    }
    for key in [
        "current_message",
        "session_name",
        "session_state",
        "session_uuid",
    ] {
        if let Ok(Some(value)) = context::get(damaged, key) {
            context::set(fresh, key, &value)?;
        }
    }
    prune::delete_unreadable(fresh)?;
    let saved: i64 = fresh.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
    Ok(usize::try_from(saved).unwrap_or(0))
}

impl Table {
    fn of(connection: &Connection, name: &'static str) -> Result<Self, Failure> {
        let statement = connection.prepare(&format!("SELECT * FROM {name}"))?;
        let columns = statement
            .column_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        Ok(Self { name, columns })
    }

    fn position(&self, column: &str) -> usize {
        self.columns
            .iter()
            .position(|name| name == column)
            .expect("the schema has the column")
    }

    /// All rows that can be read, each by its number.
    fn rows(&self, connection: &Connection) -> Result<Vec<Row>, Failure> {
        let sql = format!(
            "SELECT {} FROM {} NOT INDEXED WHERE rowid = ?",
            self.columns.join(", "),
            self.name
        );
        let Ok(mut statement) = connection.prepare(&sql) else {
            return Ok(Vec::new());
        };
        let newest = format!("SELECT max(rowid) FROM {}", self.name);
        let newest = connection.query_row(&newest, [], |row| row.get(0));
        let (mut rows, mut misses) = (Vec::new(), 0);
        for rowid in 1..=newest.unwrap_or(i64::MAX) {
            let values = statement.query_row([rowid], |row| {
                (0..self.columns.len())
                    .map(|column| row.get(column))
                    .collect::<rusqlite::Result<Vec<Value>>>()
            });
            match values {
                Ok(values) => {
                    misses = 0;
                    rows.push(Row { rowid, values });
                }
                Err(_) if misses == MOST_MISSES => break,
                Err(_) => misses += 1,
            }
        }
        Ok(rows)
    }

    fn insert(&self, connection: &Connection, row: &Row) -> Result<(), Failure> {
        let places = vec!["?"; self.columns.len() + 1].join(", ");
        let sql = format!(
            "INSERT INTO {} ({}, rowid) VALUES ({places})",
            self.name,
            self.columns.join(", ")
        );
        let rowid = Value::Integer(row.rowid);
        connection
            .prepare_cached(&sql)?
            .execute(params_from_iter(row.values.iter().chain([&rowid])))?;
        Ok(())
    }

    /// Hangs messages whose parent is lost below the newest older message that is not deeper than the lost one was,
    /// so that the conversation stays in one piece.
    fn mend_parents(&self, rows: &mut Vec<Row>) {
        let (id, parent, seq) = (
            self.position("id"),
            self.position("parent_id"),
            self.position("seq"),
        );
        let depth = |row: &Row| match row.values[seq] {
            Value::Integer(depth) if depth >= 0 => Some(depth),
            _ => None,
        };
        rows.retain(|row| depth(row).is_some() && matches!(row.values[id], Value::Text(_)));
        let mut known: HashMap<String, i64> = HashMap::new();
        for at in 0..rows.len() {
            let own = depth(&rows[at]).unwrap_or(0);
            let is_sound = match &rows[at].values[parent] {
                Value::Null => own == 0,
                Value::Text(parent) => known.get(parent).is_some_and(|depth| *depth < own),
                _ => false,
            };
            if !is_sound {
                let newest = rows[..at]
                    .iter()
                    .rev()
                    .find(|row| depth(row).is_some_and(|depth| depth < own));
                let found = newest.map_or(Value::Null, |row| row.values[id].clone());
                rows[at].values[parent] = found;
            }
            if let Value::Text(id) = &rows[at].values[id] {
                known.insert(id.clone(), own);
            }
        }
    }
}

fn remove_database(path: &Path) -> io::Result<()> {
    ["", WAL, SHM]
        .into_iter()
        .try_for_each(|ending| remove_if_exists(&with_ending(path, ending)))
}

/// Removes a file that may not be there.
pub(super) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
