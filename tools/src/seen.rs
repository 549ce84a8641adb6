//! Files whose current content the model knows. Under the interface of the SDKs an existing file may be changed only
//! after it was read, and only while no other process has changed it, so that a model with an outdated view of a file
//! does it no harm.
//!
//! This is not part of the conversation: after a resume the files must be read again, since they may have changed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::blocking::Stop;
use crate::file;

/// The files by resolved path, each with its stamp when it was last read or written.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

/// Metadata of a file that changes when its content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file at `path`; `None` if there is no file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

impl Seen {
    /// Records that the model knows the file as it was at the time of the stamp.
    pub(crate) fn note(&self, path: &Path, stamp: Option<Stamp>) {
        let mut files = self.0.lock();
        if let Some(stamp) = stamp {
            files.insert(path.to_owned(), stamp);
        }
    }

    /// Refuses to change an existing file whose present state is not known.
    pub(crate) fn check(&self, typed: &str, path: &Path) -> Result<(), String> {
        let Some(now) = Stamp::of(path) else {
            return Ok(());
        };
        let files = self.0.lock();
        match files.get(path) {
            Some(known) if *known == now => Ok(()),
            Some(_) => Err(format!(
                "`{typed}` has been changed since you read it: read it again"
            )),
            None => Err(format!(
                "`{typed}` has not been read yet: read it before you change it"
            )),
        }
    }
}

/// Replaces the file at `path`, whose new state is recorded as known.
pub(crate) fn replace(
    seen: Option<&Seen>,
    typed: &str,
    path: &Path,
    content: &[u8],
    stop: &Stop,
) -> Result<(), String> {
    file::replace(path, content, stop)
        .map_err(|error| format!("cannot write `{typed}`: {error}"))?;
    if let Some(seen) = seen {
        seen.note(path, Stamp::of(path));
    }
    Ok(())
}
