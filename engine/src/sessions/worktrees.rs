//! Worktrees for sessions: a folder and a branch of its own for work that shall not disturb the present one. They are in
//! `.ah/worktrees/NAME` of the repository, on the branch `worktree-NAME`; their sessions are beside them, so that they stay
//! when a worktree is removed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_config::places::{self, SESSIONS, WORKTREES};
use ah_config::{Config, Error, ErrorKind};
use ah_git::own_files::{create_ignored_folder, open_lock};
use ah_git::{Git, GitError, NOT_BELOW, Owner};
use rustix::fs::OFlags;

/// Beginning of the names of branches.
const BRANCH: &str = "worktree-";
/// File in the folder of the worktrees that is locked while one is made.
const IGNORE: &str = ".gitignore";
/// What a lock of git's says of a worktree that is not complete.
const HALF_MADE: &str = "initializing";
/// Makes a worktree without its files, which stays half-made until it has them.
const ADD: [&str; 6] = [
    "worktree",
    "add",
    "--no-checkout",
    "--lock",
    "--reason",
    HALF_MADE,
];
/// Longest name, in characters.
const LONGEST: usize = 64;

/// The worktrees of a repository.
#[derive(Debug)]
pub struct Worktrees {
    git: Git,
    /// Top of the repository.
    top: PathBuf,
    /// Whether the user trusts the project.
    is_trusted: bool,
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Its branch; `None` if none is checked out.
    pub branch: Option<String>,
    /// Number of files that are changed or new.
    pub files: usize,
    /// Number of commits that no other branch has.
    pub commits: usize,
}

/// A worktree in use by this process. It is not removed as long as another one uses it too.
#[derive(Debug)]
pub struct Used {
    trees: Worktrees,
    name: String,
    lock: File,
}

/// What became of a worktree that is not used any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// It was not changed and is removed.
    Removed,
    /// It has changes.
    Kept(Worktree),
    /// Another process uses it.
    InUse,
}

impl Worktree {
    /// Returns whether it has nothing that would be lost with it.
    pub fn is_unchanged(&self) -> bool {
        self.files == 0 && self.commits == 0
    }

    /// Returns what it has: `2 changed files, 1 commit`.
    pub fn state(&self) -> String {
        let counted = |count: usize, thing: &str| match count {
            0 => None,
            1 => Some(format!("1 {thing}")),
            count => Some(format!("{count} {thing}s")),
        };
        let parts = [
            counted(self.files, "changed file"),
            counted(self.commits, "commit"),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => "unchanged".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// Returns whether a word is a name of a worktree.
pub fn is_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    word.len() <= LONGEST
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(is_plain)
}

impl Worktrees {
    /// Returns the worktrees of the repository that contains the working directory, also if that is one of them. Of one that
    /// is not trusted, no program runs.
    ///
    /// # Errors
    ///
    /// If there is no repository, or no git.
    pub async fn find(config: &Config) -> Result<Self, Error> {
        let environment = &config.environment;
        let root = places::project_root(environment);
        if !root.join(".git").exists() {
            let error = Error::failure("there is no git repository here");
            return Err(error.hint("`git init` creates one"));
        }
        let top = places::repository_of(&root).unwrap_or(&root).to_owned();
        let variables: Vec<_> = environment
            .for_children()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let program = ah_git::program(environment)?;
        let git = Git::new(program, &top, Owner::User, &variables);
        let is_trusted = config.trust.is_given();
        let git = git.trusted(is_trusted).await;
        let git = git.map_err(|error| failed(&error))?;
        Ok(Self {
            git,
            top,
            is_trusted,
        })
    }

    /// Returns the folder of a worktree.
    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns the folder of its sessions, which may be there without it.
    fn sessions(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.sessions"))
    }

    fn folder(&self) -> PathBuf {
        self.top.join(SESSIONS).join(WORKTREES)
    }

    /// Runs git in the folder of a worktree. What came with a project may be a repository of its own there, whose configuration
    /// names programs that the one around it does not.
    async fn run_in(&self, name: &str, words: &[&str]) -> Result<String, Error> {
        let git = self.git.in_folder(&self.path(name));
        let git = git.trusted(self.is_trusted).await;
        let git = git.map_err(|error| failed(&error))?;
        git.run(words).await.map_err(|error| failed(&error))
    }

    /// Returns a worktree of this name for use: an existing one, or a new one at the present commit. Without a name, it is a
    /// new one.
    ///
    /// # Errors
    ///
    /// If the name cannot be used, or git fails.
    pub async fn enter(self, name: Option<&str>) -> Result<Used, Error> {
        if let Some(name) = name.filter(|name| !is_name(name)) {
            let error = Error::usage(format!("`{name}` cannot be the name of a worktree"));
            return Err(error.hint("use letters, digits, `-` and `_`"));
        }
        let folder = self.folder();
        let io_failed = |error: io::Error| self.io_failed(&error);
        // Neither the repository nor a search in it sees them.
        create_ignored_folder(&self.top, &folder).map_err(io_failed)?;
        let making = self.lock_making().await?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.free_name().await,
        };
        let lock = open_lock(&self.lock_path(&name)).map_err(io_failed)?;
        let lock = waiting(lock, File::lock_shared).await.map_err(io_failed)?;
        self.discard_half_made(&name, &making).await?;
        let path = self.path(&name);
        if path.is_symlink() {
            let link = format!("`{}` is a link, not a worktree", path.display());
            return Err(Error::failure(link));
        }
        if !path.join(".git").exists() {
            let (branch, shown) = (format!("{BRANCH}{name}"), path.display().to_string());
            // One that was deleted by hand is still known otherwise.
            let _ = self.git.run(&["worktree", "prune"]).await;
            let is_known = self
                .git
                .commit(&format!("refs/heads/{branch}"))
                .await
                .is_ok();
            let which: &[&str] = match is_known {
                true => &[&shown, &branch],
                false => &["-b", &branch, &shown],
            };
            let added = self.git.run(&[&ADD, which].concat()).await;
            added.map_err(|error| failed(&error))?;
            self.fill(&name, &making).await?;
        }
        Ok(Used {
            trees: self,
            name,
            lock,
        })
    }

    /// Gives a new worktree its files, and lets it count as complete. More of the configuration may apply in it than around it.
    async fn fill(&self, name: &str, making: &File) -> Result<(), Error> {
        let laid = ["reset", "--quiet", "--hard", "--no-recurse-submodules"];
        if let Err(error) = self.run_in(name, &laid).await {
            self.discard_half_made(name, making).await?;
            return Err(error);
        }
        let shown = self.path(name).display().to_string();
        let unlocked = self.git.run(&["worktree", "unlock", &shown]).await;
        unlocked.map(drop).map_err(|error| failed(&error))
    }

    /// Waits until nobody else makes a worktree: one is made at a time, so that nobody works in one that is being made.
    async fn lock_making(&self) -> Result<File, Error> {
        let locked = match open_lock(&self.folder().join(IGNORE)) {
            Ok(file) => waiting(file, File::lock).await,
            Err(error) => Err(error),
        };
        locked.map_err(|error| self.io_failed(&error))
    }

    /// Returns the path of the lock of a worktree, shared by all that use it. The file stays when the worktree is removed:
    /// somebody may wait for it.
    fn lock_path(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.lock"))
    }

    /// Removes a worktree that is not complete, in which nobody can have worked; returns whether it was one. `_making` is the
    /// lock of [`Self::lock_making`].
    async fn discard_half_made(&self, name: &str, _making: &File) -> Result<bool, Error> {
        let git_folder = self.git_folder().await?;
        let Some(half) = self.half_made(name, &git_folder) else {
            return Ok(false);
        };
        let git_trees = Folder::follow(&git_folder.join("worktrees"));
        let git_trees = git_trees.map_err(|error| self.io_failed(&error))?;
        let removed = Folder::follow(&self.top)
            .and_then(|top| top.folder(&Path::new(SESSIONS).join(WORKTREES)))
            .and_then(|trees| trees.remove_all(name.as_ref()))
            .and_then(|()| git_trees.remove_all(&half));
        removed.map_err(|error| self.io_failed(&error))?;
        Ok(true)
    }

    fn io_failed(&self, error: &io::Error) -> Error {
        let folder = self.folder();
        Error::failure(format!("cannot write to `{}`: {error}", folder.display()))
    }

    /// Returns git's own folder of the repository.
    async fn git_folder(&self) -> Result<PathBuf, Error> {
        let words = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let folder = self.git.run(&words).await;
        folder.map(PathBuf::from).map_err(|error| failed(&error))
    }

    /// Returns git's own folder of a worktree that is not complete, in that of the repository. Git locks one while it makes it,
    /// so one whose git was killed stays locked.
    fn half_made(&self, name: &str, git_folder: &Path) -> Option<OsString> {
        let link = std::fs::canonicalize(self.folder())
            .unwrap_or_default()
            .join(name)
            .join(".git");
        let all = Folder::follow(&git_folder.join("worktrees")).ok()?;
        let text = |own: &OsString, name: &str| {
            let own = all.folder(Path::new(own)).ok()?;
            let file = own.open_file(name.as_ref(), OFlags::RDONLY).ok()?;
            io::read_to_string(file).ok()
        };
        let is_half = |own: &OsString| {
            let (gitdir, locked) = (text(own, "gitdir"), text(own, "locked"));
            gitdir.is_some_and(|gitdir| Path::new(gitdir.trim_end()) == link)
                && locked.is_some_and(|locked| locked.trim_end() == HALF_MADE)
        };
        all.list().ok()?.into_iter().find(is_half)
    }

    /// Returns the first number that names neither a worktree nor a branch of one.
    async fn free_name(&self) -> String {
        let mut number = 1;
        loop {
            let name = number.to_string();
            let branch = format!("refs/heads/{BRANCH}{name}");
            let is_free = !self.path(&name).exists() && !self.sessions(&name).exists();
            if is_free && self.git.commit(&branch).await.is_err() {
                return name;
            }
            number += 1;
        }
    }

    /// Returns the names of all worktrees, in order, and what each has; an error where git cannot read one.
    ///
    /// # Errors
    ///
    /// If git cannot read the repository.
    pub async fn list(&self) -> Result<Vec<(String, Result<Worktree, Error>)>, Error> {
        let entries = std::fs::read_dir(self.folder())
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names
            .filter(|name| is_name(name) && self.path(name).join(".git").exists())
            .collect();
        names.sort();
        let git_folder = self.git_folder().await?;
        let mut trees = Vec::new();
        for name in names {
            let tree = match self.half_made(&name, &git_folder) {
                Some(_) => Err(Error::failure(
                    "incomplete: its creation was interrupted or is still in progress",
                )
                .hint(format!("`ah -w {name}` makes it again"))),
                None => self.look(&name).await,
            };
            trees.push((name, tree));
        }
        Ok(trees)
    }

    async fn look(&self, name: &str) -> Result<Worktree, Error> {
        let branch = self.run_in(name, &["branch", "--show-current"]).await?;
        let status = ["status", "--porcelain", NOT_BELOW];
        let files = self.run_in(name, &status).await?;
        let exclude = format!("--exclude={branch}");
        let words = [
            "rev-list",
            "--count",
            "HEAD",
            "--not",
            &exclude,
            "--branches",
            "--tags",
            "--remotes",
        ];
        let commits = self.run_in(name, &words).await?;
        Ok(Worktree {
            name: name.to_owned(),
            path: self.path(name),
            branch: Some(branch).filter(|branch| !branch.is_empty()),
            files: files.lines().count(),
            // A number that cannot be read must not look like none.
            commits: commits.trim().parse().unwrap_or(usize::MAX),
        })
    }

    /// Removes a worktree and, unless it has commits that no other has, its branch. One with changes is removed only if
    /// `is_forced`; its commits stay on its branch.
    ///
    /// # Errors
    ///
    /// If there is no such worktree, it is in use or has changes, or git fails.
    pub async fn remove(&self, name: &str, is_forced: bool) -> Result<Worktree, Error> {
        if !is_name(name) || !self.path(name).join(".git").exists() {
            let error = Error::failure(format!("there is no worktree `{name}`"));
            return Err(error.hint("`ah worktree` lists them"));
        }
        let making = self.lock_making().await?;
        if self.discard_half_made(name, &making).await? {
            // It stays if it has commits that the present branch has not.
            let branch = format!("{BRANCH}{name}");
            let _ = self.git.run(&["branch", "-d", &branch]).await;
            return Ok(Worktree {
                name: name.to_owned(),
                path: self.path(name),
                branch: None,
                files: 0,
                commits: 0,
            });
        }
        // Held until it is removed, so that nobody begins to work in it.
        let lock = open_lock(&self.lock_path(name)).map_err(|error| self.io_failed(&error))?;
        if lock.try_lock().is_err() {
            let busy = format!("the worktree `{name}` is in use by another ah");
            return Err(Error::new(ErrorKind::Failure, busy));
        }
        let tree = self.look(name).await?;
        if tree.files > 0 && !is_forced {
            let error = Error::failure(format!("`{name}` has {}", tree.state()));
            return Err(error.hint("commit them, or remove it with --force"));
        }
        self.discard(&tree).await?;
        Ok(tree)
    }

    async fn discard(&self, tree: &Worktree) -> Result<(), Error> {
        let path = tree.path.display().to_string();
        let words = ["worktree", "remove", "--force", &path];
        self.git.run(&words).await.map_err(|error| failed(&error))?;
        if let Some(branch) = tree.branch.as_ref().filter(|_| tree.commits == 0)
            && branch.starts_with(BRANCH)
        {
            self.git
                .run(&["branch", "-D", branch])
                .await
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

impl Used {
    /// Returns its folder.
    pub fn path(&self) -> PathBuf {
        self.trees.path(&self.name)
    }

    /// Ends the use: without changes the worktree is removed.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub async fn leave(self) -> Result<Left, Error> {
        let tree = self.trees.look(&self.name).await?;
        if !tree.is_unchanged() {
            return Ok(Left::Kept(tree));
        }
        // Ours is given up first, or it could not be had alone.
        if self.lock.unlock().is_err() || self.lock.try_lock().is_err() {
            return Ok(Left::InUse);
        }
        // Another one may have used it between, and left it.
        let tree = self.trees.look(&self.name).await?;
        if !tree.is_unchanged() {
            return Ok(Left::Kept(tree));
        }
        self.trees.discard(&tree).await?;
        Ok(Left::Removed)
    }
}

/// Waits for a lock on a thread of its own: who holds it may be another subagent of this process, and needs this one.
async fn waiting(file: File, lock: fn(&File) -> io::Result<()>) -> io::Result<File> {
    let locking = move || lock(&file).map(|()| file);
    match tokio::task::spawn_blocking(locking).await {
        Ok(locked) => locked,
        Err(error) => Err(io::Error::other(error)),
    }
}

fn failed(error: &GitError) -> Error {
    Error::failure(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for (word, expected) in [
            ("login", true),
            ("fix-7_b", true),
            ("7", true),
            ("", false),
            ("-x", false),
            ("a.lock", false),
            ("a/b", false),
            ("..", false),
            ("fix the bug", false),
        ] {
            assert_eq!(is_name(word), expected, "{word}");
        }
    }
}
