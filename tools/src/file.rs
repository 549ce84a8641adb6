//! Opens and replaces files without ever waiting on a pipe or device.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use ah_beneath::Folder;
use ah_replace::{Content, FurtherNames, Replacement};
use rustix::fs::{Mode, OFlags};

use crate::blocking::Stop;
use crate::held;

/// Error of opening a regular file.
#[derive(Debug)]
pub(crate) enum FileError {
    /// Nothing is there.
    Missing,
    /// It is a directory.
    Directory,
    /// It is of another kind, whose bytes may never come or never end.
    Special(&'static str),
    /// The system refuses.
    Io(io::Error),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

/// Returns the metadata of the regular file at `path`.
pub(crate) fn regular(path: &Path) -> Result<Metadata, FileError> {
    check_regular(fs::metadata(path)?)
}

/// Opens the regular file at `path` for reading.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), FileError> {
    regular(path)?;
    // Another process may have put a pipe there since, and some files below `/proc` block until something happens.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(held::open(path, flags, Mode::empty())?);
    let metadata = check_regular(file.metadata()?)?;
    Ok((file, metadata))
}

/// Returns the content of the regular file at `path`; `None` if it has more than `limit` bytes.
pub(crate) fn content(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
    let (file, _) = open(path)?;
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= limit).then_some(content))
}

fn check_regular(metadata: Metadata) -> Result<Metadata, FileError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(metadata)
    } else if kind.is_dir() {
        Err(FileError::Directory)
    } else if kind.is_fifo() {
        Err(FileError::Special("a pipe"))
    } else if kind.is_socket() {
        Err(FileError::Special("a socket"))
    } else {
        Err(FileError::Special("a device"))
    }
}

/// Replaces the file at a resolved path, whose directory exists, unless `stop` is requested meanwhile. All else about an
/// existing file stays as it is.
pub(crate) fn replace(path: &Path, content: &[u8], stop: &Stop) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let (folder, name) = Folder::around(path)?;
    let (process, number) = (std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed));
    let draft = OsString::from(format!(".ah-{process}-{number}.tmp"));
    let replacement = Replacement {
        folder: &folder,
        name,
        content: Content::Bytes(content),
        mode: None,
        draft: &draft,
        names: FurtherNames::Stay,
    };
    // A file that changes after its call was dropped looks as if somebody else had changed it.
    replacement.perform(|| stop.check().map_err(io::Error::other))
}
