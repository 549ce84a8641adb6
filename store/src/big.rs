//! Contents of files that are too big for the database: they stay in files beside the outputs.
//!
//! A file that is about to be removed or replaced gets a further name there, a hard link, which costs neither time nor
//! space. One that is written in place, or on another file system, is copied. The name tells whose content it is: inode,
//! time of the last change and length. If time or length are others now, somebody has written to it by a name in the
//! project, and the content counts as not kept.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;

use crate::Paths;
use crate::paths::{create_folder, file_name, new_file};

/// Most bytes on disk of all contents of a session.
pub const MAX_BIG: u64 = 1024 * 1024 * 1024;
/// Most bytes on disk that are copied, which a command waits for.
const MAX_COPIED: u64 = 256 * 1024 * 1024;
/// Unit of [`MetadataExt::blocks`].
const BLOCK: u64 = 512;

/// The folder with the contents of a session's big files.
#[derive(Debug, Clone)]
pub struct BigFiles {
    folder: PathBuf,
}

impl BigFiles {
    /// Creates the handle for the folder of a session's outputs, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps the present content of a regular file, which a link in `/proc` may name. Returns the path of what is kept.
    /// `left` is the number of bytes on disk that may be kept yet, and becomes less.
    ///
    /// # Errors
    ///
    /// If it is too big, or can be neither linked nor copied.
    pub fn keep(
        &self,
        file: &Path,
        is_written_in_place: bool,
        left: &mut u64,
    ) -> io::Result<PathBuf> {
        let found = fs::metadata(file)?;
        let kept = self.folder.join(name_of(&found));
        if is_intact(&kept) {
            if is_written_in_place {
                self.part(file)?;
            }
            return Ok(kept);
        }
        *left = left.checked_sub(bytes(&found)).ok_or_else(too_big)?;
        create_folder(&self.folder)?;
        // A symbolic link may have come with the session.
        Folder::at(&self.folder)?;
        match fs::remove_file(&kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if is_written_in_place || link(file, &kept).is_err() {
            self.copy(file, &found, &kept)?;
        }
        Ok(kept)
    }

    /// Replaces the hard link to a file by a copy, since the file is about to be written in place.
    ///
    /// # Errors
    ///
    /// If it cannot be copied; nothing is kept of it then.
    pub fn part(&self, file: &Path) -> io::Result<()> {
        let found = fs::metadata(file)?;
        let kept = self.folder.join(name_of(&found));
        match fs::symlink_metadata(&kept) {
            Ok(other) if is_same_file(&found, &other) => {}
            _ => return Ok(()),
        }
        let copied = self.copy(file, &found, &kept);
        if copied.is_err() {
            let _ = fs::remove_file(&kept);
        }
        copied
    }

    /// Returns whether a path is one of the kept files.
    pub fn holds(&self, path: &Path) -> bool {
        path.parent() == Some(&*self.folder) && is_name(&file_name(path))
    }

    /// Copies what has changed and its time; what was at `kept` is replaced when the copy is whole.
    fn copy(&self, file: &Path, found: &Metadata, kept: &Path) -> io::Result<()> {
        if bytes(found) > MAX_COPIED {
            return Err(too_big());
        }
        let draft = kept.with_extension("draft");
        let _ = fs::remove_file(&draft);
        let copied = new_file(&draft).and_then(|mut to| {
            copy_data(&mut File::open(file)?, &mut to, found.len())?;
            to.set_times(FileTimes::new().set_modified(found.modified()?))
        });
        let renamed = copied.and_then(|()| fs::rename(&draft, kept));
        if renamed.is_err() {
            let _ = fs::remove_file(&draft);
        }
        renamed
    }
}

/// A regular file, and the path of it that stays the same whatever is put in its place.
pub(crate) struct Held {
    path: PathBuf,
    _open: Option<OwnedFd>,
}

impl Held {
    /// Opens the file at a path, which is no symbolic link.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;

            use rustix::fs::{Mode, OFlags};

            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = rustix::fs::open(file, flags, Mode::empty())?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
            if fs::metadata(&path)?.is_file() {
                let _open = Some(open);
                return Ok(Self { path, _open });
            }
        }
        #[cfg(not(target_os = "linux"))]
        if fs::symlink_metadata(file)?.is_file() {
            let path = file.to_owned();
            return Ok(Self { path, _open: None });
        }
        Err(io::Error::other("it is not a regular file"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the number of bytes on disk.
pub(crate) fn bytes(found: &Metadata) -> u64 {
    found.blocks() * BLOCK
}

/// Returns the number of bytes on disk of what is at a path; 0 if that cannot be told.
pub(crate) fn bytes_of(file: &Path) -> u64 {
    fs::symlink_metadata(file).map_or(0, |found| bytes(&found))
}

/// Returns whether a name is of a kept content.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(Paths::BIG)
}

/// Returns the name of a kept content that a row names; `None` if it is anything else.
pub(crate) fn stored_name(bytes: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(bytes).ok()?;
    let version = name.strip_prefix(Paths::BIG)?;
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    (!version.is_empty() && version.bytes().all(is_part)).then_some(name)
}

/// Returns whether a kept content is as it was when it got its name.
pub(crate) fn is_intact(kept: &Path) -> bool {
    let found = fs::symlink_metadata(kept);
    found.is_ok_and(|found| found.is_file() && file_name(kept).ends_with(&version_of(&found)))
}

fn name_of(found: &Metadata) -> String {
    let (device, inode) = (found.dev(), found.ino());
    format!("{}{device}-{inode}{}", Paths::BIG, version_of(found))
}

/// Returns the part of a name that changes with the content.
fn version_of(found: &Metadata) -> String {
    let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
    format!("-{seconds}.{nanoseconds:09}-{}", found.len())
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Gives what a path, or a link in `/proc`, leads to a further name.
fn link(file: &Path, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, file, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Copies a content of this length; shares it where the file system can, and leaves holes.
fn copy_data(from: &mut File, to: &mut File, length: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&*to, &*from).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while let Some((start, end)) = next_data(from, at, length)? {
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        io::copy(&mut io::Read::take(&mut *from, end - start), to)?;
        at = end;
    }
    to.set_len(length)?;
    to.flush()
}

/// Returns where the next data from this place on begin and end; `None` if only a hole is left.
fn next_data(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    if at >= length {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows of no holes.
        Err(Errno::INVAL) => return Ok(Some((at, length))),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?.min(length);
    Ok((start < end).then_some((start, end)))
}

fn too_big() -> io::Error {
    io::ErrorKind::FileTooLarge.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn world() -> (tempfile::TempDir, PathBuf, BigFiles) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "before").unwrap();
        let files = BigFiles::new(folder.path().join("kept"));
        (folder, file, files)
    }

    fn keep(files: &BigFiles, file: &Path, is_in_place: bool) -> PathBuf {
        let mut left = MAX_BIG;
        files.keep(file, is_in_place, &mut left).unwrap()
    }

    #[test]
    fn what_is_removed_is_linked_and_what_is_written_in_place_is_copied() {
        for is_in_place in [false, true] {
            let (_folder, file, files) = world();
            let kept = keep(&files, &file, is_in_place);
            assert_eq!(fs::metadata(&file).unwrap().nlink() == 1, is_in_place);
            assert_eq!(keep(&files, &file, is_in_place), kept, "once");
            match is_in_place {
                true => fs::write(&file, "after").unwrap(),
                false => fs::remove_file(&file).unwrap(),
            }
            assert_eq!(fs::read_to_string(&kept).unwrap(), "before");
            assert!(is_intact(&kept) && files.holds(&kept) && !files.holds(&file));
        }
    }

    #[test]
    fn a_link_is_parted_before_its_file_is_written() {
        let (_folder, file, files) = world();
        let kept = keep(&files, &file, false);
        files.part(&file).unwrap();
        files.part(&file).unwrap();
        fs::write(&file, "after").unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "before");
        assert!(is_intact(&kept));
        let mode = fs::metadata(&kept).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_somebody_has_written_since_is_not_kept() {
        let (_folder, file, files) = world();
        let kept = keep(&files, &file, false);
        fs::write(&file, "others").unwrap();
        let later = SystemTime::now() + Duration::from_secs(5);
        File::open(&file).unwrap().set_modified(later).unwrap();
        assert!(!is_intact(&kept));
        assert!(is_intact(&keep(&files, &file, true)));
    }

    #[test]
    fn holes_stay_holes() {
        let (_folder, file, files) = world();
        let mut sparse = File::create(&file).unwrap();
        for start in [0, 1 << 30, 5 << 30] {
            sparse.seek(SeekFrom::Start(start)).unwrap();
            sparse.write_all(b"data").unwrap();
        }
        sparse.set_len(6 << 30).unwrap();
        let kept = keep(&files, &file, true);
        let found = fs::metadata(&kept).unwrap();
        assert_eq!(found.len(), 6 << 30);
        assert!(bytes(&found) < 1 << 20, "{}", bytes(&found));
        let mut copy = File::open(&kept).unwrap();
        for start in [0, 1 << 30, 5 << 30] {
            copy.seek(SeekFrom::Start(start)).unwrap();
            let mut data = [0; 5];
            io::Read::read_exact(&mut copy, &mut data).unwrap();
            assert_eq!(&data, b"data\0");
        }
    }
}
