//! Where git keeps what belongs to a folder, found without running git: the workspace is not trusted.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of a repository that are outside of the work tree, to be written by a commit.
///
/// The file `.git` of a linked work tree names a folder anywhere. It is believed only if that folder names the work
/// tree in turn: whoever wrote the one could write the other.
pub(crate) fn linked_repository(work_tree: &Path) -> Option<PathBuf> {
    let file = work_tree.join(".git");
    if !fs::symlink_metadata(&file).ok()?.is_file() {
        return None;
    }
    let named = fs::read_to_string(&file).ok()?;
    let folder = work_tree.join(named.strip_prefix("gitdir:")?.trim());
    let folder = fs::canonicalize(folder).ok()?;
    let back = fs::read_to_string(folder.join("gitdir")).ok()?;
    if fs::canonicalize(folder.join(back.trim())).ok()? != fs::canonicalize(&file).ok()? {
        return None;
    }
    let common = fs::read_to_string(folder.join("commondir")).ok()?;
    let common = fs::canonicalize(folder.join(common.trim())).ok()?;
    let is_repository = ["HEAD", "objects", "refs"]
        .iter()
        .all(|name| common.join(name).exists());
    (is_repository && folder.starts_with(&common)).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_work_tree_is_believed_if_the_repository_names_it_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (repository, tree) = (root.join("main/.git"), root.join("tree"));
        let own = repository.join("worktrees/tree");
        for path in [
            &own,
            &tree,
            &repository.join("objects"),
            &repository.join("refs"),
        ] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(
            linked_repository(&tree),
            None,
            "nothing names the work tree"
        );
        fs::write(
            own.join("gitdir"),
            format!("{}\n", tree.join(".git").display()),
        )
        .unwrap();
        assert_eq!(linked_repository(&tree), Some(repository));
        assert_eq!(linked_repository(&root), None);
    }
}
