//! The end of an executable that holds an archive: the length of the archive and a mark.

/// Last bytes of a file with an archive; the archive's length precedes them.
pub const MAGIC: [u8; 8] = *b"ah-embed";
/// Size of length and magic, the archive's comment, in bytes.
pub const FOOTER: u64 = 16;
