//! Files that git ignores: what builds and tests leave is told below what a person works on.

use std::path::{Path, PathBuf};

use ah_agent::checkpoint::FileEdit;
use ah_conversation::FileState;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Divides changes into those of files that git ignores, which come second, and all others. The patterns are those below `root`.
pub fn divide<'a>(changes: &'a [FileEdit], root: &Path) -> (Vec<&'a FileEdit>, Vec<&'a FileEdit>) {
    changes.iter().partition(|edit| {
        let is_folder = |state: &_| matches!(state, FileState::Folder { .. });
        !is_ignored(
            &edit.path,
            is_folder(&edit.now) || is_folder(&edit.then),
            root,
        )
    })
}

/// Returns whether git ignores a file below `root`: of the files with patterns, that of the nearest folder counts first.
fn is_ignored(path: &Path, is_folder: bool, root: &Path) -> bool {
    let folders = path.ancestors().skip(1);
    let mut folders = folders.take_while(|folder| folder.starts_with(root));
    let verdict = folders.find_map(|folder| {
        let patterns = patterns(folder, folder == root);
        let matched = patterns.matched_path_or_any_parents(path, is_folder);
        (!matched.is_none()).then(|| matched.is_ignore())
    });
    verdict.unwrap_or_default()
}

/// Returns the patterns of a folder. A line that is none is as if it were not there, as git has it.
fn patterns(folder: &Path, is_root: bool) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    let exclude: Option<PathBuf> = is_root.then(|| folder.join(".git/info/exclude"));
    for file in exclude.into_iter().chain([folder.join(".gitignore")]) {
        // One that is missing has no patterns.
        let _ = builder.add(file);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_patterns_of_the_nearest_folder_count_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("src/kept")).unwrap();
        fs::write(root.join(".gitignore"), "*.pyc\n__pycache__/\n/build\n").unwrap();
        fs::write(root.join("src/kept/.gitignore"), "!*.pyc\n").unwrap();
        for (path, is_folder, expected) in [
            ("a.py", false, false),
            ("src/a.pyc", false, true),
            ("src/__pycache__", true, true),
            ("src/__pycache__/deep/a.txt", false, true),
            ("build/x/y", false, true),
            ("src/build", false, false),
            ("src/kept/a.pyc", false, false),
            ("/elsewhere/a.pyc", false, false),
        ] {
            let is = is_ignored(&root.join(path), is_folder, root);
            assert_eq!(is, expected, "{path}");
        }
    }
}
