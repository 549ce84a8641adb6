//! Files in a build that enforces nothing: no folder is opened up for a look.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Returns what is at this path.
pub(crate) fn look(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path)
}
