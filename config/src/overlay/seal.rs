//! The end of an executable that holds an archive: the length of the archive and a mark.

/// What the file ends with where an archive is in it; the archive's length stands before.
pub const MAGIC: [u8; 8] = *b"ah-embed";
/// The length and the magic: the comment of the archive.
pub const FOOTER: u64 = 16;
