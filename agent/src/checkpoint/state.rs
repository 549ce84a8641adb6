//! The present state of a path.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ah_conversation::{FileState, Time};

/// Contents of bigger files are kept in files of their own.
pub const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Returns the time that the file system gives to changes now. It is not that of [`Clock`], which may be one of tests.
pub(super) fn file_time() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Time(since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }))
}

/// Reads the state of a path. An unreadable file counts as not kept.
pub(super) fn state(path: &Path) -> FileState<Arc<[u8]>> {
    match fs::symlink_metadata(path) {
        // Below a file there is nothing either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            FileState::Absent {
                folders: path
                    .ancestors()
                    .skip(1)
                    .take_while(|folder| fs::symlink_metadata(folder).is_err())
                    .count(),
            }
        }
        Ok(found) if found.is_dir() => FileState::Folder {
            mode: found.permissions().mode() & 0o7777,
        },
        Ok(found) if found.is_symlink() => match fs::read_link(path) {
            Ok(target) => FileState::Link { target },
            Err(_) => FileState::Unkept,
        },
        Ok(found) if found.is_file() && found.len() > MAX_BYTES => FileState::Big {
            file: path.to_owned(),
            mode: found.permissions().mode() & 0o7777,
        },
        Ok(found) if found.is_file() => match read(path) {
            Ok((content, mode)) if content.len() as u64 <= MAX_BYTES => FileState::File {
                content: content.into(),
                mode,
            },
            Ok(_) | Err(_) => FileState::Unkept,
        },
        Ok(_) | Err(_) => FileState::Unkept,
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok((content, mode))
}
