//! The write-ahead log beside a database, where SQLite alone would pass over damage in silence.
//!
//! SQLite takes a log whose first bytes make no sense for an empty one, and throws the log of a missing or empty
//! database away. Both may hold what was said last, so such a log is kept under another name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::session::Notice;
use crate::id;
use crate::paths::with_ending;

/// The first four bytes of a log; the last bit says how its checksums read their words.
const LITTLE_ENDIAN: u32 = 0x377f_0682;
const BIG_ENDIAN: u32 = 0x377f_0683;
/// How long the head of a log is, and how much of it the checksum at its end covers.
const HEAD: usize = 32;
const SUMMED: usize = 24;

/// Whether there is no database at `path`, or one that not a byte was written of.
pub(super) fn is_missing_or_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// Whether the log of the database at `path` holds nothing yet.
pub(super) fn is_new(path: &Path) -> bool {
    is_missing_or_empty(&log_of(path))
}

/// Renames the log beside `path` if SQLite would ignore or delete it though it is not empty.
pub(super) fn set_aside_if_unreadable(path: &Path) -> io::Result<Option<Notice>> {
    let log = log_of(path);
    if is_new(path) || (!is_missing_or_empty(path) && is_readable(&log)?) {
        return Ok(None);
    }
    let kept = with_ending(path, &format!(".corrupt-{}-log", id::now().seconds()));
    fs::rename(&log, &kept)?;
    Ok(Some(Notice::LogLost { kept }))
}

fn log_of(path: &Path) -> PathBuf {
    with_ending(path, "-wal")
}

fn is_readable(log: &Path) -> io::Result<bool> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(log)?.take(HEAD as u64).read_to_end(&mut head)?;
    // A crash may cut the very first write off; nothing was acknowledged then.
    if head.len() < HEAD {
        return Ok(true);
    }
    let number = |at: usize, big: bool| {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        match big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    };
    let is_big = match number(0, true) {
        LITTLE_ENDIAN => false,
        BIG_ENDIAN => true,
        // So may a power loss leave room that was never written.
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
