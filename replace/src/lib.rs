//! Replaces the content of a file, so that all else about it stays as it is: its names, owner, mode, access list and
//! attributes.
//!
//! Where that is possible and loses nothing, a new file is renamed over the old one: there is never half a file. A file is
//! written in place if it has further names (hard links), if it is a mount point of its own, as a single file of a container
//! is, if its folder may not be changed, or if the new file cannot be made like it. If writing in place fails, the old content
//! is written back; against a kill in the midst of it, the caller keeps the old content. Which file may be changed is decided
//! by the caller as well.

mod attributes;
mod draft;
mod in_place;

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::io::Errno;

use self::draft::Draft;
use self::in_place::OpenFile;

/// Replacement of a file, or a new file.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// Path of the file, in a folder that exists. If it is a symbolic link, the link is replaced.
    pub path: &'a Path,
    /// The content.
    pub content: Content<'a>,
    /// Mode; without one, an existing file keeps its own, and a new one gets 644 less the umask.
    pub mode: Option<u32>,
    /// Name of the new file until it is complete, in the same folder. What has this name is removed.
    pub draft: &'a OsStr,
    /// What happens to further names of the file.
    pub names: FurtherNames,
}

/// Content for a file.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Those of a file, which may become a further name of the replaced one.
    File(&'a Path),
}

/// What happens to further names of a file (hard links).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FurtherNames {
    /// They stay names of the same file, and lead to the new content.
    Stay,
    /// They keep the old content.
    Part,
}

impl Replacement<'_> {
    /// Performs the replacement, unless `proceed` fails: it is called when only the last step is left.
    ///
    /// # Errors
    ///
    /// If the content cannot be written. The old content is there then, unless it cannot be written either. No error names a
    /// path.
    pub fn perform(&self, proceed: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let found = fs::symlink_metadata(self.path).ok();
        let Some(old) = found.filter(Metadata::is_file) else {
            let draft = Draft::make(self, None)?;
            proceed()?;
            return draft.rename();
        };
        if old.nlink() > 1 && self.names == FurtherNames::Stay {
            proceed()?;
            return OpenFile::open(self, &old)?.write(self);
        }
        let draft = match Draft::make(self, Some(&old)) {
            Err(error) if is_refused(&error) => None,
            made => Some(made?),
        };
        proceed()?;
        let in_place = || OpenFile::open(self, &old);
        match draft {
            None => in_place()?.write(self),
            Some(draft) if draft.is_alike() => match draft.rename() {
                Err(error) if is_refused(&error) => in_place()?.write(self),
                renamed => renamed,
            },
            // Only its owner may write it, for instance, and its owner is to be another.
            Some(draft) => match in_place() {
                Err(error) if is_refused(&error) => draft.rename(),
                opened => opened?.write(self),
            },
        }
    }
}

/// Whether the system does not let this process do it here, while another way may be open.
fn is_refused(error: &io::Error) -> bool {
    let refusals = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::BUSY,
        Errno::XDEV,
        Errno::TXTBSY,
        Errno::OPNOTSUPP,
    ];
    { refusals.iter() }.any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests;
