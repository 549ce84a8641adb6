//! Reads files of unknown origin: the path may lead to an endless device, or a pipe without a writer.

use std::fs;
use std::io;
use std::path::Path;

use ah_conversation::encoding;

/// Maximum size of a settings file in bytes.
const MAX_SETTINGS: u64 = 16 << 20;

/// Returns the content of a regular file of up to `limit` bytes.
///
/// # Errors
///
/// If it cannot be read, is larger, or is not a regular file.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Checked before opening: opening a pipe waits for a writer.
    let metadata = fs::metadata(path)?;
    if metadata.is_file() && metadata.len() <= limit {
        fs::read(path)
    } else {
        Err(io::Error::other(format!(
            "not a regular file of up to {limit} bytes"
        )))
    }
}

/// Returns the text of a file with settings of any kind, in any of the encodings in which people's programs write it.
///
/// # Errors
///
/// If it cannot be read, or is not a regular text file.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = bytes(path, MAX_SETTINGS)?;
    encoding::text(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the text of a file that the user has named: it may be a pipe, such as that of a shell's `<(…)`.
///
/// # Errors
///
/// If it cannot be read, or is not text.
pub fn named(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    encoding::text(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Maximum size of a file with instructions in bytes.
const MAX_INSTRUCTIONS: u64 = 1_000_000;

/// Returns the text of a file with instructions: a skill, a command, the definition of a subagent. The check for
/// commands to run reads the same text.
///
/// # Errors
///
/// If it cannot be read, or is not a file of up to a megabyte.
pub fn instructions(path: &Path) -> io::Result<String> {
    let bytes = bytes(path, MAX_INSTRUCTIONS)?;
    Ok(encoding::text_of(&bytes))
}
