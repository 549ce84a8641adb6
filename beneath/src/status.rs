//! What is at a name.

use rustix::fs::{FileType, Stat};

/// What is at a name, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Kind of file; a symbolic link is one.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Device and inode.
    pub identity: (u64, u64),
    /// User and group.
    pub owner: (u32, u32),
    /// Number of names (hard links).
    pub names: u64,
    /// Length in bytes.
    pub length: u64,
    /// Time of the last change of the content, in seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// Time of the last change of anything, in seconds and nanoseconds since 1970.
    pub changed: (i64, i64),
}

impl Status {
    /// Returns whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Returns whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Returns whether it is as it was: the same file with the same content, or the same folder, whatever is in it.
    pub fn is_same(&self, other: &Self) -> bool {
        let content = |status: &Self| (status.length, status.modified);
        (self.kind, self.identity) == (other.kind, other.identity)
            && (self.is_folder() || content(self) == content(other))
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "the types depend on the system"
)]
impl From<Stat> for Status {
    fn from(found: Stat) -> Self {
        let seconds = |time| i64::try_from(time).unwrap_or(i64::MAX);
        Self {
            kind: FileType::from_raw_mode(found.st_mode),
            mode: u32::from(found.st_mode) & 0o7777,
            identity: (
                u64::try_from(found.st_dev).unwrap_or_default(),
                u64::from(found.st_ino),
            ),
            owner: (found.st_uid, found.st_gid),
            names: found.st_nlink.into(),
            length: u64::try_from(found.st_size).unwrap_or_default(),
            modified: (
                i64::try_from(found.st_mtime).unwrap_or(i64::MAX),
                seconds(found.st_mtime_nsec),
            ),
            changed: (
                i64::try_from(found.st_ctime).unwrap_or(i64::MAX),
                seconds(found.st_ctime_nsec),
            ),
        }
    }
}
