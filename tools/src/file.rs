//! Opens and replaces files without ever waiting on a pipe or device and without ever leaving half a file.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::blocking::Stop;
use crate::held::{self, Held};

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

/// Replaces the file at a resolved path, whose directory exists, atomically, unless `stop` is requested meanwhile. An
/// existing file keeps its mode and, where permitted, its owner.
pub(crate) fn replace(path: &Path, content: &[u8], stop: &Stop) -> io::Result<()> {
    let held = Held::entry(path)?;
    let path = held.path();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new()
        .prefix(".ah-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(without_path)?;
    file.write_all(content).map_err(without_path)?;
    if let Ok(old) = fs::symlink_metadata(path).and_then(regular_only) {
        let new = file.as_file().metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            // Only root may do this; for others the file becomes their own, as with any editor.
            let _ = std::os::unix::fs::chown(file.path(), Some(old.uid()), Some(old.gid()));
        }
        file.as_file().set_permissions(old.permissions())?;
    }
    // Without this a power failure could leave an empty file.
    file.as_file().sync_all()?;
    // A file that changes after its call was dropped looks as if somebody else had changed it.
    stop.check().map_err(io::Error::other)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn regular_only(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Removes the name of the temporary file from an error.
fn without_path(error: io::Error) -> io::Error {
    let number = error
        .get_ref()
        .and_then(|inner| inner.source())
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    number.map_or(error, io::Error::from_raw_os_error)
}
