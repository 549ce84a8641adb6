//! What is replaced, by what, and which failures leave another way.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ah_beneath::Folder;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Replacement of a file, or a new file.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// Folder of the file.
    pub folder: &'a Folder,
    /// Name of the file. If it is a symbolic link, the link is replaced.
    pub name: &'a OsStr,
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
    /// Those of a file that is no symbolic link; it may become a further name of the replaced one.
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

/// Whether the system does not let this process do it here, while another way may be open.
pub(crate) fn is_refused(error: &io::Error) -> bool {
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

/// Opens a file that is to become the content of another one.
pub(crate) fn open_source(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}
