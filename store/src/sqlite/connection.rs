//! Opening a database that is there, which may be a stranger's.

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{Failure, plain, settled};
use crate::paths::{file_name, is_sessions_folder, not_a_file, open_to_read, with_ending};

/// Fails if something other than a file lies in the place of a database or its logs, since opening it could wait forever, or if
/// its journal would have SQLite delete another file.
pub(super) fn require_files(path: &Path) -> Result<(), Failure> {
    refuse_link_of_project(path)?;
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

/// Fails if a database in a project's folder of sessions is a symbolic link: it may have come with the project, and what it leads to
/// would be read and written as a session. A path elsewhere is one that the user has named.
fn refuse_link_of_project(path: &Path) -> Result<(), Failure> {
    let absolute = std::path::absolute(path)?;
    let is_of_project = absolute.parent().is_some_and(is_sessions_folder);
    if !is_of_project || !path.is_symlink() {
        return Ok(());
    }
    Err(Failure::Refused {
        reason: format!("`{}` is a symbolic link", file_name(path)),
        hint: Some("if it is yours, name the file that it leads to".to_owned()),
    })
}

/// Returns whether a rollback journal ends with the name of a super-journal, that of a transaction in several databases. This
/// program makes none. SQLite deletes the file of that name after it has rolled back the journal, whatever it is, and in a
/// database with a write-ahead log, too.
fn names_a_super_journal(journal: &Path) -> io::Result<bool> {
    const LENGTH: i64 = 8;
    const MAGIC: [u8; LENGTH as usize] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut journal = match open_to_read(journal) {
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
pub(super) fn require_file(path: &Path) -> Result<(), Failure> {
    match not_a_file(path) {
        None => Ok(()),
        Some(kind) => Err(Failure::Refused {
            reason: format!("`{}` is {kind}, not a file", file_name(path)),
            hint: Some("remove it, or choose another path".to_owned()),
        }),
    }
}

/// Opens an existing database for reading and writing.
pub(super) fn connect(path: &Path) -> Result<Connection, Failure> {
    require_files(path)?;
    // Whatever journal is there by now.
    ah_sandbox::sqlite::guard();
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
pub(super) fn connect_to_read(path: &Path) -> Result<Connection, Failure> {
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
pub(super) fn connect_immutable(path: &Path) -> Result<Connection, Failure> {
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

/// Prepares a connection, unless the schema is not plain.
fn configured(connection: Connection) -> Result<Connection, Failure> {
    let connection = settled(connection)?;
    plain::check(&connection)?;
    Ok(connection)
}
