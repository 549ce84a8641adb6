//! The write-ahead log of a database, in which SQLite ignores some kinds of damage silently.
//!
//! SQLite takes a log with an invalid header for an empty one, and deletes the log of a missing or empty database. Both
//! may contain the latest messages, so such a log is kept under another name.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::notice::Notice;
use crate::paths::{open_to_read, with_ending};

/// The first four bytes of a log; the last bit is the byte order of its checksums.
const LITTLE_ENDIAN: u32 = 0x377f_0682;
const BIG_ENDIAN: u32 = 0x377f_0683;
/// Length of the header of a log, and of the part that the checksum at its end covers.
const HEAD: usize = 32;
const SUMMED: usize = 24;

/// Returns whether the file at `path` is missing or empty.
pub(super) fn is_missing_or_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// Returns whether the log of the database at `path` is missing or empty.
pub(super) fn is_new(path: &Path) -> bool {
    is_missing_or_empty(&log_of(path))
}

/// Renames the log of the database at `path` if it is not empty and SQLite would ignore or delete it.
pub(super) fn set_aside_if_unreadable(path: &Path) -> io::Result<Option<Notice>> {
    let log = log_of(path);
    if is_new(path) || (!is_missing_or_empty(path) && is_readable(&log)?) {
        return Ok(None);
    }
    let kept = with_ending(path, &format!(".corrupt-{}-log", ah_ids::now().seconds()));
    fs::rename(&log, &kept)?;
    Ok(Some(Notice::LogLost { kept }))
}

fn log_of(path: &Path) -> PathBuf {
    with_ending(path, "-wal")
}

fn is_readable(log: &Path) -> io::Result<bool> {
    let mut head = Vec::with_capacity(HEAD);
    open_to_read(log)?
        .take(HEAD as u64)
        .read_to_end(&mut head)?;
    // A crash may have interrupted the first write; nothing was acknowledged then.
    if head.len() < HEAD {
        return Ok(true);
    }
    let number = |at: usize, big: bool| {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        if big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    };
    let is_big = match number(0, true) {
        LITTLE_ENDIAN => false,
        BIG_ENDIAN => true,
        // A power loss may leave allocated blocks that were never written.
        _ => return Ok(head.iter().all(|byte| *byte == 0)),
    };
    let (mut first, mut second) = (0_u32, 0_u32);
    for at in (0..SUMMED).step_by(8) {
        first = first.wrapping_add(number(at, is_big)).wrapping_add(second);
        second = second
            .wrapping_add(number(at + 4, is_big))
            .wrapping_add(first);
    }
    Ok((first, second) == (number(SUMMED, true), number(SUMMED + 4, true)))
}
