//! The store on SQLite: connections and their failures.
//!
//! Each module knows one group of tables or one file; only [`session`] and [`database`] decide the order in which they
//! are used.

mod blocks;
mod calls;
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

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::time::Duration;

use ah_conversation::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, ffi};

use crate::paths::{file_name, not_a_file, with_ending};

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

/// Fails if something other than a file lies in the place of a database or its logs, since opening it could wait forever, or if
/// its journal would have SQLite delete another file.
fn require_files(path: &Path) -> Result<(), Failure> {
    // SQLite looks beside the file that a link leads to.
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let journal = with_ending(path, "-journal");
    for path in [path, &with_ending(path, "-wal"), &journal] {
        require_file(path)?;
    }
    match names_a_super_journal(&journal)? {
        false => Ok(()),
        true => Err(Failure::Refused {
            reason: format!(
                "its journal `{}` names another file, which would be deleted",
                file_name(&journal)
            ),
            hint: Some("remove the journal, or ask who sent it".to_owned()),
        }),
    }
}

/// Returns whether a rollback journal ends with the name of a super-journal, that of a transaction in several databases. This
/// program makes none. SQLite deletes the file of that name after it has rolled back the journal, whatever it is, and in a
/// database with a write-ahead log, too.
fn names_a_super_journal(journal: &Path) -> io::Result<bool> {
    const LENGTH: i64 = 8;
    const MAGIC: [u8; LENGTH as usize] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut journal = match File::open(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    if journal.seek(io::SeekFrom::End(-LENGTH)).is_err() {
        // It is shorter.
        return Ok(false);
    }
    let mut end = [0; LENGTH as usize];
    journal.read_exact(&mut end)?;
    Ok(end == MAGIC)
}

/// Fails if something other than a file lies at `path`.
fn require_file(path: &Path) -> Result<(), Failure> {
    match not_a_file(path) {
        None => Ok(()),
        Some(kind) => Err(Failure::Refused {
            reason: format!("`{}` is {kind}, not a file", file_name(path)),
            hint: Some("remove it, or choose another path".to_owned()),
        }),
    }
}

/// Opens an existing database for reading and writing.
fn connect(path: &Path) -> Result<Connection, Failure> {
    require_files(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // An absolute path cannot be taken for a URI, whatever the file is called.
    configured(Connection::open_with_flags(
        std::path::absolute(path)?,
        flags,
    )?)
}

/// Opens an existing database for reading.
///
/// `SQLITE_OPEN_READ_ONLY` is avoided, since the last such connection leaves the files of the write-ahead log behind.
/// If nothing can be written, the database is opened as immutable.
fn connect_to_read(path: &Path) -> Result<Connection, Failure> {
    require_files(path)?;
    let path = std::path::absolute(path)?;
    let is_writable = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_ok()
        && path
            .parent()
            .is_some_and(|folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok());
    let connection = if is_writable {
        connect(&path)?
    } else {
        connect_immutable(&path)?
    };
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens the database at an absolute path as one that nobody changes: without locks, and without its log.
fn connect_immutable(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    configured(Connection::open_with_flags(as_immutable(path), flags)?)
}

/// Returns the URI that opens a file as immutable.
fn as_immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri + "?immutable=1"
}

fn configured(connection: Connection) -> Result<Connection, Failure> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Half a megabyte of pages, for each open session, in the place of two: a session is read once, and then written at
    // its end.
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; PRAGMA cache_size = -512;",
    )?;
    // What a schema defines may have come with the file: it calls nothing, and is looked at before anything is read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    check_schema(&connection)?;
    Ok(connection)
}

/// Checks that the tables of a database are plain ones. This program makes no others, and a query of a view, a trigger or a
/// computed column of somebody else could run forever, or change what is stored.
fn check_schema(connection: &Connection) -> Result<(), Failure> {
    let first = |sql| -> Result<Option<(String, String)>, Failure> {
        let found = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(found.optional()?)
    };
    let not_plain =
        "SELECT iif(type = 'table', 'virtual table', type), name FROM main.sqlite_schema
         WHERE type IN ('view', 'trigger') OR type = 'table' AND coalesce(rootpage, 0) = 0 LIMIT 1";
    let computed = "SELECT 'computed column', own.name FROM main.sqlite_schema, pragma_table_xinfo(sqlite_schema.name) own
         WHERE sqlite_schema.type = 'table' AND own.hidden > 0 LIMIT 1";
    let foreign = match first(not_plain)? {
        None => first(computed)?,
        found => found,
    };
    match foreign {
        None => Ok(()),
        Some((kind, name)) => Err(Failure::Refused {
            reason: format!("it has the {kind} `{name}`, and this program makes none"),
            hint: Some(
                "it was changed by another program; remove it, or ask who sent it".to_owned(),
            ),
        }),
    }
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
