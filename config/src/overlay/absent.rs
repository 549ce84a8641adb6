//! The archive in a build without embedded files: nothing is packed or unpacked.

use super::entry::ArchiveEntry;

/// Error of both directions.
const ABSENT: &str = "this build does not support embedded files";

/// Returns an error: files cannot be packed.
///
/// # Errors
///
/// Always.
pub fn pack(_: &[ArchiveEntry]) -> Result<Vec<u8>, String> {
    Err(ABSENT.to_owned())
}

/// Returns an error: files cannot be unpacked.
///
/// # Errors
///
/// Always.
pub fn unpack(_: &[u8]) -> Result<Vec<ArchiveEntry>, String> {
    Err(ABSENT.to_owned())
}
