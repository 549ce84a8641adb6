//! A file that is embedded, and the limits of all.

/// How many files can be embedded, and how many bytes they may have together.
pub const MAX_FILES: usize = 10_000;
/// See [`MAX_FILES`].
pub const MAX_BYTES: u64 = 256 << 20;

/// A file that is embedded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its path below the embedded folder, with `/` between the parts.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// What it holds.
    pub content: Vec<u8>,
}
