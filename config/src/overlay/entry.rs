//! An embedded file, and the limits for all of them.

/// Maximum number of embedded files.
pub const MAX_FILES: usize = 10_000;
/// Maximum total size of embedded files in bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// An embedded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its path below the embedded folder, with `/` between the parts.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// Its content.
    pub content: Vec<u8>,
}
