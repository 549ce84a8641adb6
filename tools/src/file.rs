//! Opens and replaces files as every file tool must: never waiting on a pipe or device, never leaving half a file.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::held::{self, Held};

/// Why there is no file to work on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing is there.
    Missing,
    /// A directory is there.
    Directory,
    /// Something is there whose bytes may never end or never come.
    Special(&'static str),
    /// The system says no.
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

/// What is at `path`, if it is a regular file.
pub(crate) fn regular(path: &Path) -> Result<Metadata, Fault> {
    check_regular(fs::metadata(path)?)
}

/// Opens the regular file at `path` for reading.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), Fault> {
    regular(path)?;
    // Another process may have put a pipe there since, and some files below `/proc` wait for news.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(held::open(path, flags, Mode::empty())?);
    let metadata = check_regular(file.metadata()?)?;
    Ok((file, metadata))
}

/// The content of the regular file at `path`; none, if it has more than `limit` bytes.
pub(crate) fn content(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Fault> {
    let (file, _) = open(path)?;
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= limit).then_some(content))
}

fn check_regular(metadata: Metadata) -> Result<Metadata, Fault> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(metadata)
    } else if kind.is_dir() {
        Err(Fault::Directory)
    } else if kind.is_fifo() {
        Err(Fault::Special("a pipe"))
    } else if kind.is_socket() {
        Err(Fault::Special("a socket"))
    } else {
        Err(Fault::Special("a device"))
    }
}

/// Puts a file with `content` at a resolved path, whose directory exists: whoever reads it sees the old content or the
/// new, whole. An existing file keeps its mode and, where we may give it, its owner.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
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
            // Only root may, and for others the file is theirs from now on, as with any editor.
            let _ = std::os::unix::fs::chown(file.path(), Some(old.uid()), Some(old.gid()));
        }
        file.as_file().set_permissions(old.permissions())?;
    }
    // Without this a power cut could leave the new name with no content behind it.
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn regular_only(metadata: Metadata) -> io::Result<Metadata> {
    match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::other("it is no file any more")),
    }
}

/// The same error without the name of a file that nobody knows.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.source());
    let inner = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    match inner.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error,
    }
}
