//! Paths from data as names.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

/// Returns the names on a relative path, from the highest folder down; none if the path is empty.
///
/// # Errors
///
/// If it is absolute, or has `.`, `..` or a NUL in it.
pub fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let refused = |why: &str| {
        let text = format!("`{}` {why}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(refused("contains a NUL"));
    }
    let names = path.components().map(|component| match component {
        Component::Normal(name) => Ok(name),
        Component::CurDir | Component::ParentDir => Err(refused("contains `.` or `..`")),
        Component::RootDir | Component::Prefix(_) => Err(refused("is an absolute path")),
    });
    names.collect()
}

/// Returns a relative path as text, once it is known to consist of names: a long one is not taken apart for each step on it.
///
/// # Errors
///
/// As for [`names`].
pub fn way(path: &Path) -> io::Result<&[u8]> {
    let text = path.as_os_str().as_bytes();
    let is_odd = |(at, name): (usize, &[u8])| name == b".." || (at == 0 && name == b".");
    let mut parts = text.split(|byte| *byte == b'/').enumerate();
    if text.starts_with(b"/") || text.contains(&0) || parts.any(is_odd) {
        names(path)?;
    }
    Ok(text)
}

/// Checks that a name is that of a file within a folder.
pub(crate) fn check(name: &OsStr) -> io::Result<&OsStr> {
    crate::between_calls();
    match names(Path::new(name))?[..] {
        [only] if only == name => Ok(only),
        _ => {
            let text = format!("`{}` is not the name of a file", name.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}
