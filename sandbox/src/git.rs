//! Finds git directories that belong to a workspace, and the files in them that control what git executes.
//!
//! Git itself is not run, because the workspace is untrusted. Anyone who can write these files can execute code outside
//! the sandbox the next time the user runs git there.

use std::collections::VecDeque;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::confinement::Confinement;
use crate::protected::OBEYED;

/// Control files of a linked worktree, in its directory within the repository.
const OF_WORK_TREE: [&str; 3] = ["commondir", "gitdir", "config.worktree"];
/// Limits of the search for nested repositories: depth and number of directories.
const DEEPEST: usize = 4;
const FOLDERS: usize = 1000;
/// Largest git file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Directories that are not searched for nested repositories.
const PASSED_BY: [&str; 5] = [".git", "node_modules", "target", ".venv", "__pycache__"];

impl Confinement {
    /// Protects the control files of all repositories in the workspace, of their submodules and linked worktrees, and
    /// the files named by their configuration.
    pub fn protect_repositories(&mut self) {
        let workspace = self.workspace.clone();
        let mut found = Vec::new();
        let own = workspace.join(".git");
        match fs::symlink_metadata(&own) {
            Ok(metadata) if metadata.is_dir() => obeyed(&own, &workspace, &mut found),
            // A `.git` file: contains the path of the repository.
            Ok(_) => found.push(own),
            Err(_) => {}
        }
        if let Some(common) = linked_repository(&workspace) {
            obeyed(&common, &workspace, &mut found);
        }
        for tree in nested(&workspace) {
            let git = tree.join(".git");
            if git.is_dir() && !git.is_symlink() {
                obeyed(&git, &tree, &mut found);
            } else {
                found.push(git);
            }
        }
        // A `HEAD` file can make git take the workspace itself for a bare repository.
        let head = workspace.join("HEAD");
        found.extend(fs::symlink_metadata(&head).is_err().then_some(head));
        for path in found.into_iter().chain(self.linked_to()) {
            let name = path.strip_prefix(&workspace).unwrap_or(&path).to_owned();
            if !self.protected.contains(&name) {
                self.protected.push(name);
            }
        }
    }
}

impl Confinement {
    /// Returns the targets, within the workspace, of symbolic links at or directly below protected paths.
    fn linked_to(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for path in self.protected.iter().map(|name| self.workspace.join(name)) {
            let links = fs::read_dir(&path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .chain([path])
                .filter(|path| path.is_symlink());
            found.extend(links.filter_map(|link| fs::canonicalize(link).ok()));
        }
        found.retain(|target| target.starts_with(&self.workspace) && *target != self.workspace);
        found
    }
}

/// Collects the control files of the repository at `git`, including its worktrees and submodules.
fn obeyed(git: &Path, tree: &Path, found: &mut Vec<PathBuf>) {
    found.extend(OBEYED.map(|name| git.join(name)));
    found.extend(named_by_configuration(git, tree));
    for own in folders(&git.join("worktrees")) {
        found.extend(OF_WORK_TREE.map(|name| own.join(name)));
    }
    // Submodule names may contain slashes.
    let mut waiting = folders(&git.join("modules"));
    while let Some(module) = waiting.pop() {
        if module.join("HEAD").exists() {
            obeyed(&module, tree, found);
        } else {
            waiting.extend(folders(&module));
        }
    }
}

/// Returns hooks directories and included configuration files that lie in the work tree.
fn named_by_configuration(git: &Path, tree: &Path) -> Vec<PathBuf> {
    let text = read(&git.join("config")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let paths = pairs.filter_map(|(key, value)| {
        let from = match key.trim().to_ascii_lowercase().as_str() {
            "hookspath" => tree,
            "path" => git,
            _ => return None,
        };
        let path = without_dots(&from.join(value.trim().trim_matches('"')));
        (path.starts_with(tree) && path != tree).then_some(path)
    });
    paths.collect()
}

/// Reads a small regular file; reading a named pipe would block forever.
fn read(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let is_usual = metadata.is_file() && metadata.len() < LONGEST;
    is_usual.then(|| fs::read_to_string(path).ok())?
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the directories below `workspace` that contain a `.git`, nearest first.
fn nested(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(workspace.to_owned(), 0)]);
    for _ in 0..FOLDERS {
        let Some((folder, depth)) = waiting.pop_front() else {
            break;
        };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name == ".git" && depth > 0 {
                found.push(folder.clone());
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < DEEPEST && !PASSED_BY.iter().any(|other| name == *other) {
                waiting.push_back((entry.path(), depth + 1));
            }
        }
    }
    found
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Returns the common git directory of a linked worktree, which a commit must be able to write.
///
/// The `.git` file of a worktree can name any directory. It is trusted only if that directory names the worktree in
/// turn: an attacker could write one file, but not both.
pub(crate) fn linked_repository(work_tree: &Path) -> Option<PathBuf> {
    let file = work_tree.join(".git");
    if !fs::symlink_metadata(&file).ok()?.is_file() {
        return None;
    }
    let named = read(&file)?;
    let folder = work_tree.join(named.strip_prefix("gitdir:")?.trim());
    let folder = fs::canonicalize(folder).ok()?;
    let back = read(&folder.join("gitdir"))?;
    if fs::canonicalize(folder.join(back.trim())).ok()? != fs::canonicalize(&file).ok()? {
        return None;
    }
    let common = read(&folder.join("commondir"))?;
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
    fn a_linked_worktree_is_trusted_if_the_repository_names_it_too() {
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
            "the repository does not name the worktree"
        );
        fs::write(
            own.join("gitdir"),
            format!("{}\n", tree.join(".git").display()),
        )
        .unwrap();
        assert_eq!(linked_repository(&tree), Some(repository));
        assert_eq!(linked_repository(&root), None);
    }

    #[test]
    fn control_files_are_protected_in_all_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for path in [
            ".git/worktrees/tree",
            ".git/modules/a/b",
            ".git/modules/a/b/modules/c",
            "vendor/x/.git",
            "module",
            "node_modules/y/.git",
            "1/2/3/4/5/.git",
            ".git/hooks",
            "scripts/pre-commit",
            "ai/skills",
            ".claude",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for (path, text) in [
            (".git/modules/a/b/HEAD", ""),
            (".git/modules/a/b/modules/c/HEAD", ""),
            ("module/.git", "gitdir: ../.git/modules/a/b\n"),
            (
                ".git/config",
                "[core]\n\thooksPath = .husky/_\n[include]\n\tpath = ../git.inc\n\tpath = ~/own\n\tpath = /elsewhere\n",
            ),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        for (target, link) in [
            ("../../scripts/pre-commit", ".git/hooks/pre-commit"),
            ("../ai/skills", ".claude/skills"),
            ("/etc/passwd", ".claude/elsewhere"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut confinement = Confinement::new(root.clone(), None);
        confinement.protect_names([".claude"], &root);
        confinement.protect_repositories();
        for (name, expected) in [
            (".git/hooks", true),
            (".git/config.worktree", true),
            (".git/worktrees/tree/commondir", true),
            (".git/modules/a/b/config", true),
            (".git/modules/a/b/modules/c/hooks", true),
            (".git/modules/a/config", false),
            (".git/HEAD", false),
            (".git", false),
            ("vendor/x/.git/config", true),
            ("vendor/x/.git/hooks", true),
            ("vendor/x/.git", false),
            ("module/.git", true),
            (".husky/_", true),
            ("scripts/pre-commit", true),
            ("ai/skills", true),
            ("git.inc", true),
            ("HEAD", true),
            ("node_modules/y/.git/config", false),
            ("1/2/3/4/5/.git/config", false),
        ] {
            let is_protected = confinement.protected.contains(&PathBuf::from(name));
            assert_eq!(
                is_protected, expected,
                "{name}: {:?}",
                confinement.protected
            );
        }
    }

    #[test]
    fn a_git_file_is_protected() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::write(root.join(".git"), "gitdir: /elsewhere\n").unwrap();
        let mut confinement = Confinement::new(root, None);
        confinement.protect_repositories();
        assert!(confinement.protected.contains(&PathBuf::from(".git")));
    }
}
