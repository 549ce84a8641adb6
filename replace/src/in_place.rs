//! Writing over a file.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use ah_beneath::Status;
use rustix::fs::OFlags;

use crate::replacement::{Content, Replacement, is_refused, open_source};

/// Longest content that is written back after a failure.
const MOST_KEPT: u64 = 256 << 20;

/// The file, open for writing, with its content until now.
pub(crate) struct OpenFile {
    file: File,
    mode: u32,
    /// `None` if it cannot be read, or is too long.
    content: Option<Vec<u8>>,
}

impl OpenFile {
    /// Opens the file that was found.
    pub(crate) fn open(new: &Replacement<'_>, old: &Status) -> io::Result<Self> {
        let open = |access| new.folder.open_file(new.name, access);
        let (mut file, is_readable) = match open(OFlags::RDWR) {
            Err(error) if is_refused(&error) => (open(OFlags::WRONLY)?, false),
            opened => (opened?, true),
        };
        let found = file.metadata()?;
        if (found.dev(), found.ino()) != old.identity {
            return Err(io::Error::other("it was replaced in the meantime"));
        }
        let content = match is_readable && found.len() <= MOST_KEPT {
            true => {
                let mut content = Vec::new();
                file.read_to_end(&mut content)?;
                Some(content)
            }
            false => None,
        };
        Ok(Self {
            file,
            mode: found.mode() & 0o7777,
            content,
        })
    }

    /// Writes the new content.
    pub(crate) fn write(self, new: &Replacement<'_>) -> io::Result<()> {
        let Self {
            file,
            mode,
            content,
        } = self;
        let (mut source, length): (Box<dyn Read>, u64) = match new.content {
            Content::Bytes(bytes) => (Box::new(bytes), bytes.len() as u64),
            Content::File(kept) => {
                let kept = open_source(kept)?;
                let length = kept.metadata()?.len();
                (Box::new(kept), length)
            }
        };
        reserve(&file, length)?;
        let written = put_all(&file, &mut source);
        if let (Err(_), Some(content)) = (&written, &content) {
            put_all(&file, &mut &**content)?;
        }
        // Writing takes away the bits that let a program run as its owner.
        let wanted = new.mode.unwrap_or(mode);
        if file.metadata()?.mode() & 0o7777 != wanted {
            let set = file.set_permissions(Permissions::from_mode(wanted));
            if new.mode.is_some() {
                set?;
            }
        }
        written
    }
}

/// Writes all that `content` has over the file, durably.
fn put_all(mut file: &File, content: &mut impl Read) -> io::Result<()> {
    file.rewind()?;
    let length = io::copy(content, &mut file)?;
    file.flush()?;
    file.set_len(length)?;
    file.sync_all()
}

/// Reserves the space of a content, so that a full disk is noticed before anything is overwritten. Some file systems cannot.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    if length > file.metadata()?.len()
        && let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
            fallocate(file, FallocateFlags::KEEP_SIZE, 0, length)
    {
        return Err(error.into());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}
