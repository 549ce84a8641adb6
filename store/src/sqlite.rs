//! The store on SQLite: connections and their failures.
//!
//! Each module knows one group of tables or one file; only [`session`] and [`database`] decide the order in which they
//! are used.
//!
//! A change that gives a row back, outside of a transaction, is made by `query_one`: SQLite stores it behind that row, where
//! `query_row` does not look, and so would tell no failure of it.

mod blocks;
mod calls;
mod connection;
mod context;
mod copy;
mod database;
mod details;
mod events;
mod fault;
mod files;
pub(crate) mod head;
mod lease;
pub(crate) mod lock;
mod log;
mod logged;
mod messages;
mod number;
mod outputs;
mod plain;
mod prefixes;
mod prune;
pub(crate) mod queue;
mod queued;
mod resting;
pub(crate) mod runs;
mod salvage;
mod schema;
pub(crate) mod session;
pub(crate) mod sessions;
mod transcript;
pub(crate) mod tree;

use std::io;
use std::path::Path;
use std::time::Duration;

use ah_conversation::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

/// Maximum wait for another process that writes the same database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Capacity of the statement cache, larger than the number of statements that a run uses.
const CACHED_STATEMENTS: usize = 64;

/// Copies all pages in one step, so that the copy is a consistent snapshot.
const ALL_PAGES: i32 = -1;

/// Error codes that an intact database never returns: the file ends within a record, or a row references one that is
/// missing although it was just read.
const DAMAGE: [i32; 2] = [
    ffi::SQLITE_IOERR_SHORT_READ,
    ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
];

/// A failure before action and file are known; [`Failure::at`] adds them.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// An error of the file system.
    Io(io::Error),
    /// The database has content that this program never writes.
    Damaged(String),
    /// The database is intact, but the operation is not allowed.
    Refused {
        reason: String,
        hint: Option<String>,
    },
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Failure {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl Failure {
    /// Returns whether the database is damaged, and should be salvaged.
    fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Io(_) | Self::Refused { .. } => false,
            Self::Sqlite(error) => match error {
                rusqlite::Error::SqliteFailure(failure, message) => {
                    matches!(
                        failure.code,
                        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase
                    ) || DAMAGE.contains(&failure.extended_code)
                        || message.as_deref().is_some_and(is_about_schema)
                }
                rusqlite::Error::SqlInputError { msg, .. } => is_about_schema(msg),
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::InvalidColumnType(..) => true,
                _ => false,
            },
        }
    }

    /// Converts the failure of a queue, whose damage must not be taken for damage of the conversation.
    fn of_queue(self) -> Self {
        if self.is_damage() {
            Self::Refused {
                reason: "the queue is damaged and cannot be recovered".to_owned(),
                hint: Some("remove the file ending in `.queue.db`".to_owned()),
            }
        } else {
            self
        }
    }

    fn is_full_disk(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Self::Damaged(_) | Self::Refused { .. } => false,
        }
    }

    /// Returns whether a full disk may be the cause: SQLite reports it for the database, but for the files beside it
    /// only as an I/O error.
    fn may_be_full_disk(&self) -> bool {
        let is_io =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        self.is_full_disk() || matches!(self, Self::Sqlite(error) if is_io(error))
    }

    /// Converts to the error shown to the user: `action` on `path` failed.
    pub(crate) fn at(self, action: &'static str, path: &Path) -> StoreError {
        let is_full = self.is_full_disk();
        let free = self.may_be_full_disk().then(|| free_bytes(path)).flatten();
        let is_damage = self.is_damage();
        let (mut reason, mut hint) = match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(failure, message)) => {
                (message.unwrap_or_else(|| failure.to_string()), None)
            }
            // The text of the error itself contains the SQL statement.
            Self::Sqlite(rusqlite::Error::SqlInputError { msg, .. }) => (msg, None),
            Self::Sqlite(error) => (error.to_string(), None),
            Self::Io(error) => (error.to_string(), None),
            Self::Damaged(reason) => (format!("the database is damaged: {reason}"), None),
            Self::Refused { reason, hint } => (reason, hint),
        };
        if let Some(free) = free {
            reason = format!("{reason} ({free} bytes free)");
        }
        if is_full {
            hint = Some("free some disk space; nothing stored so far is lost".to_owned());
        }
        if is_damage {
            hint = Some(
                "start a run on this session: it recovers what can be read and keeps the damaged file"
                    .to_owned(),
            );
        }
        StoreError {
            action,
            path: path.to_owned(),
            reason,
            hint,
        }
    }
}

/// Returns whether SQLite reports a missing table or column, which every database of this version has.
fn is_about_schema(message: &str) -> bool {
    message.starts_with("no such table")
        || message.starts_with("no such column")
        || message.starts_with("malformed database schema")
}

fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|path| path.exists())?;
    let volume = rustix::fs::statvfs(existing).ok()?;
    Some(volume.f_bavail.saturating_mul(volume.f_frsize))
}

/// Prepares a connection to a database that this process has made, or knows to be plain.
fn settled(connection: Connection) -> Result<Connection, Failure> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Half a megabyte of pages, for each open session, in the place of two: a session is read once, and then written at
    // its end.
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; PRAGMA cache_size = -512;",
    )?;
    // What a schema defines may have come with the file: it calls nothing, and is looked at before anything is read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(connection)
}

/// When a commit is durable.
#[derive(Debug, Clone, Copy)]
enum Durability {
    /// When it returns.
    Full,
    /// With the next full commit: for writes that are repeated, or not missed, after a power loss.
    Deferred,
    /// As `Deferred`; in addition the header of a new log is not synced.
    DeferredInNewLog,
}

fn set_durability(connection: &Connection, durability: Durability) -> Result<(), Failure> {
    let word = match durability {
        Durability::Full => "FULL",
        Durability::Deferred => "NORMAL",
        Durability::DeferredInNewLog => "OFF",
    };
    connection.pragma_update(None, "synchronous", word)?;
    Ok(())
}
