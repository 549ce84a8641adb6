//! What the sessions of a folder keep of files, so that their changes can be undone.

use std::fs;
use std::path::Path;

use ah_conversation::StoreError;

use super::{Sessions, entries, size};
use crate::big;
use crate::paths::{Paths, file_name};
use crate::sqlite::connection::connect;
use crate::sqlite::files::{self, Contents};
use crate::sqlite::lock::{Lock, LockAttempt};
use crate::sqlite::tree::Tree;
use crate::sqlite::{Failure, resting};

impl Sessions {
    /// Returns how many bytes of files' contents all sessions keep for undo, as far as they can be read.
    pub fn kept_for_undo(&self) -> Result<u64, StoreError> {
        let kept = self.each(|paths, _| kept_in(paths))?;
        Ok(kept.into_iter().flatten().sum())
    }

    /// Drops contents that are kept for undo until all sessions keep at most `most` bytes: those of the oldest sessions
    /// first, and the oldest of a session first. Sessions that are open stay as they are. Returns the bytes dropped.
    pub fn shrink_undo(&self, most: u64) -> Result<u64, StoreError> {
        // Cheap, and it is called at the beginning of each session.
        let files = entries(&self.folder).unwrap_or_default();
        if files.iter().map(|path| most_kept_in(path)).sum::<u64>() <= most {
            return Ok(0);
        }
        let all = self.each(|paths, _| (paths.clone(), kept_in(paths)))?;
        let (mut left, mut dropped) = (most, 0);
        for (paths, kept) in all.iter().rev() {
            // A session that cannot be read keeps what it has.
            let Some(kept) = *kept else {
                continue;
            };
            let shrunk = (kept > left)
                .then(|| shrink(paths, left).ok().flatten())
                .flatten();
            let kept_now = shrunk.unwrap_or(kept);
            left = left.saturating_sub(kept_now);
            dropped += kept - kept_now;
        }
        Ok(dropped)
    }
}

/// Returns how many bytes of files' contents a session keeps for undo, if it can be read.
fn kept_in(paths: &Paths) -> Option<u64> {
    let resting = resting::read(paths, |tree| tree.kept_for_undo().ok());
    resting.or_else(|| Tree::open(paths).ok()?.kept_for_undo().ok())
}

/// Drops the oldest contents of a session that undo keeps beyond `most` bytes, unless it is open. Returns how many bytes
/// are kept then.
fn shrink(paths: &Paths, most: u64) -> Result<Option<u64>, Failure> {
    let LockAttempt::Held(_lock) = Lock::try_take(&paths.lock())? else {
        return Ok(None);
    };
    let outputs = paths.outputs();
    let connection = connect(paths.database())?;
    files::drop_oldest(&connection, &outputs, &Contents::All, most)?;
    connection.execute_batch("VACUUM")?;
    files::kept(&connection, &outputs).map(Some)
}

/// Returns how many bytes undo keeps in a file or a folder of a session at most.
fn most_kept_in(path: &Path) -> u64 {
    let name = file_name(path);
    if name.ends_with(".db") {
        return size(path);
    }
    let outputs = name.ends_with(".out").then(|| entries(path).ok()).flatten();
    let outputs = outputs.unwrap_or_default();
    let big = outputs.iter().filter(|path| big::is_name(&file_name(path)));
    let found = big.filter_map(|path| fs::symlink_metadata(path).ok());
    found.map(|found| big::bytes(&found)).sum()
}
