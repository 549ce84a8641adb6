//! Paths as they are written, without a look at any file.

use std::path::{Component, Path, PathBuf};

/// Returns the path without `.` and `..`, with the symbolic links in it.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
