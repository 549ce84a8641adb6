//! Files whose contents the store keeps in files of their own.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns whether two files have the same content.
pub(super) fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (found, then) = (fs::metadata(one)?, fs::metadata(other)?);
    if (found.dev(), found.ino()) == (then.dev(), then.ino()) {
        return Ok(true);
    }
    if found.len() != then.len() {
        return Ok(false);
    }
    let mut one = BufReader::new(File::open(one)?);
    let mut other = BufReader::new(File::open(other)?);
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 || left[..count] != right[..count] {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(count);
        other.consume(count);
    }
}
