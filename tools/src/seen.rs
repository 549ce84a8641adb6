//! Which files the model knows as they are. In the naming of the SDKs a file that is there is changed only after it was
//! read, and only as long as nobody else has changed it since: so a model that is wrong about a file cannot harm it.
//!
//! This is no part of the conversation: after a resume the files have to be read again, as they may be others.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::file;

/// The files, by resolved path, and what told of each that it was as it was.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

/// What changes when a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// That of the file at `path`; none, where there is no file.
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
    /// Notes that the model knows the file as it was at the time of the stamp.
    pub(crate) fn note(&self, path: &Path, stamp: Option<Stamp>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stamp) = stamp {
            files.insert(path.to_owned(), stamp);
        }
    }

    /// Refuses to change a file that is there and is not known as it is.
    pub(crate) fn check(&self, typed: &str, path: &Path) -> Result<(), String> {
        let Some(now) = Stamp::of(path) else {
            return Ok(());
        };
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Puts `content` in the place of the file at `path`, whose new state the model knows then.
pub(crate) fn replace(
    seen: Option<&Seen>,
    typed: &str,
    path: &Path,
    content: &[u8],
) -> Result<(), String> {
    file::replace(path, content).map_err(|error| format!("cannot write `{typed}`: {error}"))?;
    if let Some(seen) = seen {
        seen.note(path, Stamp::of(path));
    }
    Ok(())
}
