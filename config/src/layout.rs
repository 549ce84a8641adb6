//! Names of the folders in a project, and what a path says by them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder of a project's sessions, settings, tools and skills, below the working directory.
pub const SESSIONS: &str = ".ah";
/// Folder of worktrees, below that of sessions.
pub const WORKTREES: &str = "worktrees";

/// Returns the path without symbolic links, so that a place has one name, as tools resolve the paths of their calls; the path itself
/// if there is nothing.
pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the repository of which `root` is a worktree, by its place: `X` of `X/.ah/worktrees/NAME`.
pub fn repository_of(root: &Path) -> Option<&Path> {
    let folder = root.parent()?;
    let is_ours = folder.ends_with(Path::new(SESSIONS).join(WORKTREES));
    is_ours.then(|| folder.parent()?.parent())?
}

/// Returns the folder of the sessions of a worktree at `root`, which is beside it; `None` if it is none.
pub(crate) fn sessions_beside(root: &Path) -> Option<PathBuf> {
    repository_of(root)?;
    let name = root.file_name()?.to_str()?;
    Some(root.with_file_name(format!("{name}.sessions")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_is_known_by_its_place() {
        for (root, repository) in [
            ("/x/.ah/worktrees/fix", Some("/x")),
            ("/x/.ah/worktrees", None),
            ("/x/worktrees/fix", None),
            ("/x/.ah/worktrees/fix/deep", None),
        ] {
            assert_eq!(repository_of(Path::new(root)), repository.map(Path::new));
        }
        let beside = sessions_beside(Path::new("/x/.ah/worktrees/fix"));
        assert_eq!(beside, Some("/x/.ah/worktrees/fix.sessions".into()));
        assert_eq!(sessions_beside(Path::new("/x")), None);
    }
}
