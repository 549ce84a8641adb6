//! Finds git directories that belong to a workspace, and the files in them that control what git executes.
//!
//! Git itself is not run, because the workspace is untrusted. Anyone who can write these files can execute code outside
//! the sandbox the next time the user runs git there.

mod config;
mod files;
mod index;
mod named;
mod plain;
mod state;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use self::config::Settings;
use self::files::read;
pub(crate) use self::files::worktrees;
use self::index::gitlinks;
use self::named::named;
pub(crate) use self::plain::{
    Known, is_plain, is_plain_bare, is_plain_module, is_plain_worktree, modules,
};
pub(crate) use self::state::{Pending, pending};
use crate::confinement::Confinement;
use crate::folders::{Folders, Found};
use crate::listing::open_closed;
use crate::protected::OBEYED;

/// Control files of a linked worktree, in its directory within the repository.
const OF_WORK_TREE: [&str; 3] = ["commondir", "gitdir", "config.worktree"];

impl Confinement {
    /// Protects the control files of all repositories in the workspace, of their submodules and linked worktrees, the
    /// files that their configuration and that of the user name, and the files that steer other programs, at any depth.
    /// Returns the folders that were read.
    pub(crate) fn protect_workspace(&mut self) -> Folders {
        let folders = Folders::read(&self.workspace, &self.steering);
        let mut search = Search::new(self);
        search.all(&folders);
        let Search { found, remarks, .. } = search;
        for path in found {
            self.protect_path(&path);
        }
        for path in self.linked_to() {
            self.protect_path(&path);
        }
        self.remarks.extend(remarks);
        folders
    }

    /// Protects a path in the workspace, or in the repository of which it is a worktree.
    pub(crate) fn protect_path(&mut self, path: &Path) {
        let name = path.strip_prefix(&self.workspace).unwrap_or(path);
        if !self.protected.iter().any(|other| other == name) {
            self.protected.push(name.to_owned());
        }
    }

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

/// Search for repositories in a workspace.
pub(crate) struct Search<'a> {
    workspace: &'a Path,
    home: Option<&'a Path>,
    /// The repository of which the workspace is a linked worktree.
    common: Option<PathBuf>,
    /// The user's own configuration.
    pub global: Settings,
    /// What must not be written.
    pub found: BTreeSet<PathBuf>,
    /// The git directories.
    pub repositories: Vec<PathBuf>,
    /// Work trees, also of submodules that are not there yet.
    pub trees: BTreeSet<PathBuf>,
    /// What the user should know.
    pub remarks: Vec<String>,
    /// What is left to search: repositories can be nested as deep as paths are long.
    left: Vec<Left>,
}

/// A part of the search.
enum Left {
    Tree(PathBuf),
    /// A git directory and its work tree.
    Repository(PathBuf, PathBuf),
}

impl<'a> Search<'a> {
    pub fn new(confinement: &'a Confinement) -> Self {
        let home = confinement.git_home.as_deref();
        Self {
            workspace: &confinement.workspace,
            home,
            common: None,
            global: Settings::read(confinement.git_configuration.iter().cloned(), home),
            found: BTreeSet::new(),
            repositories: Vec::new(),
            trees: BTreeSet::new(),
            remarks: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Searches the workspace, with what was found in its folders.
    pub fn all(&mut self, folders: &Folders) {
        let workspace = self.workspace;
        if !self.global.not_understood.is_empty() {
            self.give_up(workspace, &self.global.not_understood.clone());
        }
        self.common = linked_repository(workspace);
        if let Some(common) = self.common.clone() {
            self.repository(&common, workspace);
        }
        self.tree(workspace);
        self.nested();
        for found in folders.found() {
            match found {
                Found::Git(path) => self.tree(path.parent().unwrap_or(path)),
                Found::Bare(path) => self.repository(path, path),
                Found::Steering(path) => {
                    self.found.insert(path.clone());
                }
                Found::Closed(_) => {}
            }
            self.nested();
        }
        // A `HEAD` file can make git take the workspace itself for a bare repository.
        let head = workspace.join("HEAD");
        self.found
            .extend(fs::symlink_metadata(&head).is_err().then_some(head));
        if !folders.is_complete() {
            self.remarks.push(format!(
                "`{}` has too many folders to check: in those that were not checked, except submodules, commands can write files \
                 that steer agents, editors or git",
                workspace.display()
            ));
        }
    }

    /// Searches what was found within the last tree.
    fn nested(&mut self) {
        while let Some(left) = self.left.pop() {
            match left {
                Left::Tree(tree) => self.tree(&tree),
                Left::Repository(git, tree) => self.repository(&git, &tree),
            }
        }
    }

    /// Searches a work tree, but for the repositories within.
    fn tree(&mut self, tree: &Path) {
        if !self.trees.insert(tree.to_owned()) {
            return;
        }
        let git = tree.join(".git");
        let Ok(metadata) = fs::symlink_metadata(&git) else {
            return;
        };
        if metadata.is_dir() {
            open_closed(&git);
            self.repository(&git, tree);
            return;
        }
        // A `.git` file contains the path of the repository.
        let target = read(&git).and_then(|text| {
            let named = text.strip_prefix("gitdir:")?.trim();
            fs::canonicalize(tree.join(named)).ok()
        });
        self.found.insert(git);
        if let Some(target) = target {
            self.repository(&target, tree);
        }
    }

    /// Collects the control files of the repository at `git`, including its worktrees, and notes its submodules.
    fn repository(&mut self, git: &Path, tree: &Path) {
        if self.repositories.iter().any(|other| other == git) {
            return;
        }
        self.repositories.push(git.to_owned());
        let worktrees = worktrees(git);
        // What is elsewhere cannot be written anyway.
        let common = self.common.as_deref();
        let is_writable =
            git.starts_with(self.workspace) || common.is_some_and(|common| git.starts_with(common));
        if is_writable {
            self.found.extend(OBEYED.map(|name| git.join(name)));
            for own in &worktrees {
                self.found.extend(OF_WORK_TREE.map(|name| own.join(name)));
            }
        }
        let own = worktrees.iter().map(|own| own.join("config.worktree"));
        let files = ["config", "config.worktree"].map(|name| git.join(name));
        let settings = Settings::read(files.into_iter().chain(own), self.home);
        if !settings.not_understood.is_empty() {
            self.give_up(tree, &settings.not_understood);
        }
        let elsewhere = settings.last("core", "worktree");
        let elsewhere = elsewhere.map(|path| git.join(String::from_utf8_lossy(path).as_ref()));
        let elsewhere = elsewhere.and_then(|path| fs::canonicalize(path).ok());
        for tree in elsewhere.as_deref().into_iter().chain([tree]) {
            for path in { [&settings, &self.global].into_iter() }
                .flat_map(|settings| named(settings, tree, self.home))
                .filter(|path| path.starts_with(self.workspace) && path != self.workspace)
            {
                self.found.insert(path);
            }
        }
        let modules = modules(git).into_iter();
        self.left
            .extend(modules.map(|module| Left::Repository(module, tree.to_owned())));
        self.submodules(git, elsewhere.as_deref().unwrap_or(tree));
    }

    /// Searches the submodules in the index of a git directory.
    fn submodules(&mut self, git: &Path, tree: &Path) {
        let settings = Settings::read([git.join("config")], self.home);
        let is_long = settings.last("extensions", "objectformat") == Some(b"sha256");
        match gitlinks(&git.join("index"), if is_long { 32 } else { 20 }) {
            Ok(paths) => {
                let trees = paths.into_iter().map(|path| tree.join(path));
                self.left.extend(trees.map(Left::Tree));
            }
            Err(_) => self.give_up(tree, &[git.join("index")]),
        }
    }

    /// Protects a whole work tree, because these files of its repository are not understood.
    fn give_up(&mut self, tree: &Path, files: &[PathBuf]) {
        let file = files.first().map(|file| file.display().to_string());
        self.remarks.push(format!(
            "`{}` cannot be read as git reads it: commands cannot write in `{}`",
            file.unwrap_or_default(),
            tree.display()
        ));
        self.found.insert(tree.to_owned());
    }
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
        confinement.protect_workspace();
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
            ("1/2/3/4/5/.git/config", true),
            ("", false),
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
        confinement.protect_workspace();
        assert!(confinement.protected.contains(&PathBuf::from(".git")));
    }
}
