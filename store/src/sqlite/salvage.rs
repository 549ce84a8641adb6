//! Recovers what can be read of a damaged database into a new one, and keeps the damaged file.
//!
//! No index is used and each row is read by itself, so that an unreadable page loses only its own rows. If the first
//! page, with the schema, is unreadable, that of a new database replaces it: tables created by the same steps begin at
//! the same pages. Rows that were read but are invalid are left out.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::connection::connect;
use super::schema::{CONVERSATION, FIND_BLOCKS, FIND_ORIGINS, PAGES, QUEUE, Schema};
use super::{Failure, context, prune};
use crate::paths::{
    new_file, open_or_create, open_to_read, remove_if_exists, sync_folder, with_ending,
};

/// Endings of the log and of the shared memory file of a database in WAL mode.
const WAL: &str = "-wal";
const SHM: &str = "-shm";
/// Number of consecutive unreadable rows after which the table is taken to end. An inner page of the tree has some thousand
/// rows below it.
const MOST_MISSES: usize = 5_000;
/// Position of the number of pages in the first one.
const PAGE_COUNT: std::ops::Range<usize> = 28..32;

/// Result of salvaging a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Salvaged {
    /// Path of the damaged file.
    pub kept: PathBuf,
    /// Number of recovered messages, or queued messages of a queue.
    pub messages: usize,
}

/// A table with the names of its columns.
struct Table {
    name: &'static str,
    columns: Vec<String>,
}

/// A row of a table.
struct Row {
    rowid: i64,
    values: Vec<Value>,
}

/// Salvages a conversation. The caller holds the session's lock and has no connection open.
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

/// Salvages a queue.
pub(super) fn queue(path: &Path) -> Result<Salvaged, Failure> {
    let mut saved = 0;
    let kept = replace(&QUEUE, path, |damaged, fresh| {
        let table = Table::of(fresh, "queue_messages")?;
        // Queued messages that are not text or have a duplicate id are lost.
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

/// Fills a new database from the damaged one at `path` and replaces that. Returns the path under which the damaged one
/// is kept. A crash in between leaves the damaged database, to be salvaged again.
fn replace(
    schema: &Schema,
    path: &Path,
    fill: impl FnOnce(&Connection, &Connection) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    // A link is one that the user has named: what it leads to is salvaged.
    let real = path.is_symlink().then(|| fs::canonicalize(path));
    let real = real.transpose()?;
    let path = real.as_deref().unwrap_or(path);
    let kept = keep_damaged(path)?;
    let work_copy = with_ending(path, ".salvage");
    remove_database(&work_copy)?;
    for ending in ["", WAL] {
        copy(&with_ending(path, ending), &with_ending(&work_copy, ending))?;
    }
    let draft = with_ending(path, ".saved");
    let filled = open_damaged(schema, &work_copy)
        .and_then(|damaged| schema.create(&draft, |fresh| fill(&damaged, fresh)));
    remove_database(&work_copy)?;
    filled?;
    fs::File::open(&draft)?.sync_all()?;
    // The log of the damaged database must not be replayed into the new one.
    for ending in [WAL, SHM] {
        remove_if_exists(&with_ending(path, ending))?;
    }
    fs::rename(&draft, path)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(kept)
}

/// Links the damaged files to a new name, or copies them if links are not possible; returns the new path.
fn keep_damaged(path: &Path) -> io::Result<PathBuf> {
    let seconds = ah_ids::now().seconds();
    let kept = (0..)
        .map(|attempt| match attempt {
            0 => with_ending(path, &format!(".corrupt-{seconds}")),
            _ => with_ending(path, &format!(".corrupt-{seconds}-{attempt}")),
        })
        .find(|kept| {
            ["", WAL]
                .iter()
                .all(|ending| is_free(&with_ending(kept, ending)))
        })
        .expect("there are infinitely many names");
    for ending in ["", WAL] {
        let (from, to) = (with_ending(path, ending), with_ending(&kept, ending));
        if !is_free(&from) && fs::hard_link(&from, &to).is_err() {
            copy(&from, &to)?;
        }
    }
    Ok(kept)
}

/// Returns whether nothing has this name, not even a link that leads nowhere.
fn is_free(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Copies a file, if it is there, to a new name. Links may have come with a session: none is followed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut original = match open_to_read(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    io::copy(&mut original, &mut new_file(to)?)?;
    Ok(())
}

/// Opens a copy of the damaged database; replaces its first page if that is unreadable.
fn open_damaged(schema: &Schema, work_copy: &Path) -> Result<Connection, Failure> {
    let readable = || {
        let connection = open_leniently(work_copy).ok()?;
        let is_readable = schema.try_tables(&connection).is_ok();
        is_readable.then_some(connection)
    };
    if let Some(connection) = readable() {
        return Ok(connection);
    }
    // How large its pages were was in the first one: with the wrong size the schema is not found behind it.
    for page in [schema.page()].into_iter().chain(PAGES) {
        replace_first_page(&schema.by_steps(page), work_copy)?;
        if let Some(connection) = readable() {
            return Ok(connection);
        }
    }
    open_leniently(work_copy)
}

/// Replaces the first page of a damaged database by that of a new one; all pages, if it is shorter than a new one.
fn replace_first_page(schema: &Schema, work_copy: &Path) -> Result<(), Failure> {
    let template = with_ending(work_copy, "-template");
    schema.create_empty(&template)?;
    let mut pages = fs::read(&template)?;
    fs::remove_file(&template)?;
    // With 0, SQLite derives the number of pages from the length of the file, not of the template.
    pages[PAGE_COUNT].fill(0);
    let file = open_or_create(work_copy)?;
    let is_short = file.metadata()?.len() < pages.len() as u64;
    let replacement = match pages.get(..usize::from(schema.page())) {
        Some(first) if !is_short => first,
        _ => &pages,
    };
    Ok(file.write_all_at(replacement, 0)?)
}

fn open_leniently(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path)?;
    // Lets SQLite read a file that is shorter than its header claims.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    Ok(connection)
}

fn copy_conversation(damaged: &Connection, fresh: &Connection) -> Result<usize, Failure> {
    fresh.execute_batch("PRAGMA foreign_keys = OFF")?;
    let table = Table::of(fresh, "messages")?;
    let mut rows = table.rows(damaged)?;
    table.reattach_orphans(&mut rows);
    for row in &rows {
        let _ = table.insert(fresh, row);
    }
    for name in [
        "content_blocks",
        "tool_calls",
        "events",
        "file_steps",
        "file_states",
        "file_notes",
        "file_seals",
        "prefixes",
    ] {
        let table = Table::of(fresh, name)?;
        for row in table.rows(damaged)? {
            let _ = table.insert(fresh, &row);
        }
    }
    fresh.execute(FIND_ORIGINS, [])?;
    fresh.execute(FIND_BLOCKS, [])?;
    for key in [
        context::CURRENT_MESSAGE,
        context::NAME,
        context::STATE,
        context::UUID,
        context::MODEL,
        context::PERMISSION_MODE,
        context::FOLDER,
        context::GIT_BRANCH,
        context::BEGUN,
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

    /// Returns all readable rows, each read by its rowid.
    fn rows(&self, connection: &Connection) -> Result<Vec<Row>, Failure> {
        // One of an older version lacks some.
        let has = |column: &&String| {
            let sql = format!("SELECT {column} FROM {}", self.name);
            connection.prepare(&sql).is_ok()
        };
        let columns = self.columns.iter();
        let columns = columns.map(|column| if has(&column) { column } else { "NULL" });
        let sql = format!(
            "SELECT {} FROM {} NOT INDEXED WHERE rowid = ?",
            columns.collect::<Vec<_>>().join(", "),
            self.name
        );
        let Ok(mut statement) = connection.prepare(&sql) else {
            return Ok(Vec::new());
        };
        let mut next = connection.prepare(&format!(
            "SELECT rowid FROM {} NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT 1",
            self.name
        ))?;
        let (mut rows, mut misses, mut rowid) = (Vec::new(), 0, 0_i64);
        while misses <= MOST_MISSES {
            // The next row, or the next number where the way to it is damaged.
            let following = rowid.saturating_add(1);
            rowid = match next.query_row([rowid], |row| row.get(0)).optional() {
                Ok(Some(found)) => following.max(found),
                Ok(None) => break,
                Err(_) => following,
            };
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

    /// Attaches messages whose parent is lost to the newest older message of a smaller depth, so that the conversation
    /// stays in one piece.
    fn reattach_orphans(&self, rows: &mut Vec<Row>) {
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
            let is_intact = match &rows[at].values[parent] {
                Value::Null => own == 0,
                Value::Text(parent) => known.get(parent).is_some_and(|depth| *depth < own),
                _ => false,
            };
            if !is_intact {
                let newest = rows[..at]
                    .iter()
                    .rev()
                    .find(|row| depth(row).is_some_and(|depth| depth < own));
                let new_parent = newest.map_or(Value::Null, |row| row.values[id].clone());
                rows[at].values[parent] = new_parent;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation of an earlier version had larger pages, which only its first page says.
    #[test]
    fn a_conversation_of_larger_pages_is_recovered_without_its_first_page() {
        let folder = tempfile::tempdir().unwrap();
        for page in PAGES {
            let path = folder.path().join(format!("{page}.db"));
            CONVERSATION.by_steps(page).create_empty(&path).unwrap();
            let connection = Connection::open(&path).unwrap();
            let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'";
            let root: i64 = connection.query_row(root, [], |row| row.get(0)).unwrap();
            assert_eq!(root == 2, page == 4096, "as earlier versions had it");
            let messages = "WITH RECURSIVE counted (value) AS (VALUES (0) UNION ALL SELECT value + 1 FROM counted WHERE value < 999) \
                INSERT INTO messages (id, role, seq, created_at, origin) \
                SELECT 'm' || value, 'user', value, 0, 'prompt' FROM counted";
            connection.execute_batch(messages).unwrap();
            connection.close().unwrap();
            let file = open_or_create(&path).unwrap();
            file.write_all_at(&vec![0; usize::from(page)], 0).unwrap();
            assert_eq!(conversation(&path).unwrap().messages, 1000, "{page}");
        }
    }
}
