//! Files that are looked for in folders which may be anybody's: behind the name may be a device that never ends, or a
//! pipe that nobody fills.

use std::fs;
use std::io;
use std::path::Path;

/// Longer files hold no settings.
const MAX_SETTINGS: u64 = 16 << 20;

/// The bytes of a regular file of up to `limit` bytes.
///
/// # Errors
///
/// Where it cannot be read, or is none.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Asked before it is opened: opening a pipe waits for whoever writes.
    let metadata = fs::metadata(path)?;
    match metadata.is_file() && metadata.len() <= limit {
        true => fs::read(path),
        false => Err(io::Error::other(format!(
            "it is no file of up to {limit} bytes"
        ))),
    }
}

/// The text of a file with settings of any kind.
///
/// # Errors
///
/// Where it cannot be read, or is none.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = bytes(path, MAX_SETTINGS)?;
    String::from_utf8(bytes).map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))
}

/// Longer files are no instructions.
const MAX_INSTRUCTIONS: u64 = 1_000_000;

/// Returns the text of a file with instructions: a skill, a command, the definition of a subagent. Whether it runs
/// commands is judged by the same text.
///
/// # Errors
///
/// If it cannot be read, or is not a file of up to a megabyte.
pub fn instructions(path: &Path) -> io::Result<String> {
    let bytes = bytes(path, MAX_INSTRUCTIONS)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
