//! Where git keeps what belongs to a folder, and what of it git obeys: found without running git, since the workspace is
//! not trusted.
//!
//! Whoever may write what git obeys has code run outside, the next time that somebody calls git there.

use std::collections::VecDeque;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::confinement::Confinement;
use crate::protected::OBEYED;

/// What a linked work tree has of its own in the repository.
const OF_WORK_TREE: [&str; 3] = ["commondir", "gitdir", "config.worktree"];
/// How many folders deep repositories are looked for, and in how many folders.
const DEEPEST: usize = 4;
const FOLDERS: usize = 1000;
/// How many bytes a file of git's may have that we read.
const LONGEST: u64 = 1 << 20;
/// Folders full of what others have made.
const PASSED_BY: [&str; 5] = [".git", "node_modules", "target", ".venv", "__pycache__"];

impl Confinement {
    /// Protects what git obeys, besides what it always is: of repositories within the workspace, of their submodules, of
    /// linked work trees, and what their configuration names.
    pub fn protect_repositories(&mut self) {
        let workspace = self.workspace.clone();
        let mut found = Vec::new();
        let own = workspace.join(".git");
        match fs::symlink_metadata(&own) {
            Ok(metadata) if metadata.is_dir() => obeyed(&own, &workspace, &mut found),
            // It says where the repository is.
            Ok(_) => found.push(own),
            Err(_) => {}
        }
        if let Some(common) = linked_repository(&workspace) {
            obeyed(&common, &workspace, &mut found);
        }
        for tree in nested(&workspace) {
            let git = tree.join(".git");
            match git.is_dir() && !git.is_symlink() {
                true => obeyed(&git, &tree, &mut found),
                false => found.push(git),
            }
        }
        // With it, and without one in `.git`, the workspace itself would be taken for a repository.
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
    /// What protected names, and the files in them, lead to in the workspace where they are links.
    fn linked_to(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for path in self.protected.iter().map(|name| self.workspace.join(name)) {
            let within = fs::read_dir(&path).into_iter().flatten().flatten();
            let within = within.map(|entry| entry.path());
            let links = within.chain([path]).filter(|path| path.is_symlink());
            found.extend(links.filter_map(|link| fs::canonicalize(link).ok()));
        }
        found.retain(|target| target.starts_with(&self.workspace) && *target != self.workspace);
        found
    }
}

/// Adds what is obeyed in the folder `git` of a repository, and in those that it holds.
fn obeyed(git: &Path, tree: &Path, found: &mut Vec<PathBuf>) {
    found.extend(OBEYED.map(|name| git.join(name)));
    found.extend(named_by_configuration(git, tree));
    for own in folders(&git.join("worktrees")) {
        found.extend(OF_WORK_TREE.map(|name| own.join(name)));
    }
    // The name of a submodule may have slashes.
    let mut waiting = folders(&git.join("modules"));
    while let Some(module) = waiting.pop() {
        match module.join("HEAD").exists() {
            true => obeyed(&module, tree, found),
            false => waiting.extend(folders(&module)),
        }
    }
}

/// Hooks and further configuration that a repository has in its work tree.
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

/// The text of a plain file of a usual size: a pipe would hold us for ever.
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

/// The folders below `workspace` that have a repository of their own, the nearest first.
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

/// Folders of a repository that are outside of the work tree, to be written by a commit.
///
/// The file `.git` of a linked work tree names a folder anywhere. It is believed only if that folder names the work
/// tree in turn: whoever wrote the one could write the other.
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

    #[test]
    fn what_git_obeys_is_protected_wherever_it_lies() {
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
        let mut confinement = Confinement::new(root, None);
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
    fn the_file_that_says_where_the_repository_is_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::write(root.join(".git"), "gitdir: /elsewhere\n").unwrap();
        let mut confinement = Confinement::new(root, None);
        confinement.protect_repositories();
        assert!(confinement.protected.contains(&PathBuf::from(".git")));
    }
}
