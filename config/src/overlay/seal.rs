//! The end of an executable that holds an archive: the length of the archive and a mark.

/// What the file ends with where an archive is in it; the archive's length stands before.
pub const MAGIC: [u8; 8] = *b"ah-embed";
/// The length and the magic: the comment of the archive.
pub const FOOTER: u64 = 16;

/// What the comment of an archive has to be for it to be found: `length` is that of the whole archive.
pub fn seal(length: u64) -> [u8; FOOTER as usize] {
    let mut footer = [0; FOOTER as usize];
    footer[..8].copy_from_slice(&length.to_le_bytes());
    footer[8..].copy_from_slice(&MAGIC);
    footer
}
