//! Repositories of a workspace in a build that enforces nothing.

use std::path::{Path, PathBuf};

/// Returns `None`: what no layer grants need not be looked for.
pub(crate) fn linked_repository(_: &Path) -> Option<PathBuf> {
    None
}
