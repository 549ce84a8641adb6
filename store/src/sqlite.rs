//! The store on SQLite: connections, and what can go wrong with them.
//!
//! Each part below knows one group of tables or one file; only [`session`] decides in which order they are used.

mod blocks;
mod calls;
mod context;
mod copy;
mod database;
mod details;
mod events;
mod fault;
mod files;
mod lease;
pub(crate) mod lock;
mod log;
mod messages;
mod outputs;
mod prune;
pub(crate) mod queue;
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
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

/// How long to wait for another process that writes the same database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than all statements that a run uses.
const CACHED_STATEMENTS: usize = 64;

/// Codes that a sound database never gives: it ends before the end of a text, or a row points at one that is not there
/// though it was read just now.
const DAMAGE: [i32; 2] = [
    ffi::SQLITE_IOERR_SHORT_READ,
    ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
];

/// What went wrong, before it is said with which file.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// The file system says so.
    Io(io::Error),
    /// The database holds what this program does not write.
    Damaged(String),
    /// All is well with the file, but it must not be used so.
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
    /// Whether the database is broken, so that saving what can be read is the way on.
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

    /// The failure of a queue, which must not be taken for one of the conversation.
    fn of_queue(self) -> Self {
        match self.is_damage() {
            true => Self::Refused {
                reason: "its queue of mail is damaged beyond help".to_owned(),
                hint: Some("remove the file that ends in `.queue.db`".to_owned()),
            },
            false => self,
        }
    }

    fn is_full_disk(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Self::Damaged(_) | Self::Refused { .. } => false,
        }
    }

    /// Whether a full disk may be behind it: SQLite says so of the database, but not of the files beside it.
    fn may_be_full_disk(&self) -> bool {
        let is_io =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        self.is_full_disk() || matches!(self, Self::Sqlite(error) if is_io(error))
    }

    /// The error as the user reads it: what was being done with which file.
    pub(crate) fn at(self, action: &'static str, path: &Path) -> StoreError {
        let is_full = self.is_full_disk();
        let free = self.may_be_full_disk().then(|| free_bytes(path)).flatten();
        let is_damage = self.is_damage();
        let (mut reason, mut hint) = match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(failure, message)) => {
                (message.unwrap_or_else(|| failure.to_string()), None)
            }
            // Its own text would show the whole statement.
            Self::Sqlite(rusqlite::Error::SqlInputError { msg, .. }) => (msg, None),
            Self::Sqlite(error) => (error.to_string(), None),
            Self::Io(error) => (error.to_string(), None),
            Self::Damaged(reason) => (format!("it is damaged: {reason}"), None),
            Self::Refused { reason, hint } => (reason, hint),
        };
        if let Some(free) = free {
            reason = format!("{reason} ({free} bytes free)");
        }
        if is_full {
            hint = Some("free some space; everything said so far is stored".to_owned());
        }
        if is_damage {
            hint = Some(
                "a run on this session keeps the damaged file aside and saves what can be read"
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

/// Whether SQLite misses a table or column that every database of this version has.
fn is_about_schema(message: &str) -> bool {
    message.starts_with("no such table")
        || message.starts_with("no such column")
        || message.starts_with("malformed database schema")
}

fn free_bytes(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists())?;
    let volume = rustix::fs::statvfs(there).ok()?;
    Some(volume.f_bavail.saturating_mul(volume.f_frsize))
}

/// Opens an existing database for reading and writing.
fn connect(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // An absolute path cannot be taken for a URI, whatever the file is called.
    configured(Connection::open_with_flags(
        std::path::absolute(path)?,
        flags,
    )?)
}

/// Opens an existing database that will only be read.
///
/// Not by `SQLITE_OPEN_READ_ONLY`: such a connection leaves the files of the write-ahead log behind when it was the
/// last one. Where nothing can be written the database is read as it stands.
fn connect_to_read(path: &Path) -> Result<Connection, Failure> {
    let path = std::path::absolute(path)?;
    let is_writable = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_ok()
        && path
            .parent()
            .is_some_and(|folder| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok());
    let connection = if is_writable {
        connect(&path)?
    } else {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        configured(Connection::open_with_flags(as_immutable(&path), flags)?)?
    };
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// The URI of a file that nobody writes.
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
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON;")?;
    Ok(connection)
}

/// When a commit has reached the disk.
#[derive(Debug, Clone, Copy)]
enum Durability {
    /// When it returns.
    Full,
    /// With the next full one: for what is found again, or not missed, after a power loss.
    Deferred,
    /// Likewise, and not even the start of a new log is synced on its own.
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
