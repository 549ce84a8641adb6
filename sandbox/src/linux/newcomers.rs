//! Looks for what a command has left that programs obey outside the sandbox, under names that nobody could list before:
//! repositories, submodules, unfinished rebases, and files that steer agents and editors in any folder. What is not
//! plain is moved aside.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::kept::{OWN, names};
use super::quarantine::move_aside;
use super::record::{ProjectRecord, Seen};
use crate::confinement::Confinement;
use crate::folders::{Folders, Found};
use crate::git::{
    Known, Search, is_plain, is_plain_bare, is_plain_module, is_plain_worktree, modules, pending,
    worktrees,
};
use crate::listing::is_absent;

/// A project, looked at before and after each command.
pub(super) struct Project {
    confinement: Confinement,
    folders: Mutex<Arc<Folders>>,
}

/// State of a project before a command.
pub(super) struct ProjectSnapshot {
    project: Arc<Project>,
    seen: Seen,
}

impl Project {
    pub fn new(confinement: Confinement, folders: Folders) -> Self {
        Self {
            confinement,
            folders: Mutex::new(Arc::new(folders)),
        }
    }

    fn folders(&self) -> Arc<Folders> {
        let mut folders = self.folders.lock();
        let now = folders.read_again(&self.confinement.workspace, &self.confinement.steering);
        *folders = Arc::new(now);
        folders.clone()
    }

    fn look(&self) -> Seen {
        let folders = self.folders();
        let mut search = Search::new(&self.confinement);
        search.all(&folders);
        let gits = search.trees.iter().map(|tree| tree.join(".git"));
        let repositories = search.repositories;
        let all = |of: fn(&Path) -> Vec<PathBuf>| repositories.iter().flat_map(move |git| of(git));
        let worktrees: HashSet<_> = all(worktrees).collect();
        Seen {
            gits: gits
                .filter(|git| fs::symlink_metadata(git).is_ok())
                .collect(),
            modules: all(modules).collect(),
            pending: { repositories.iter().chain(&worktrees) }
                .flat_map(|git| pending(git))
                .collect(),
            worktrees,
            repositories,
            protected: search.found,
            folders,
        }
    }
}

impl ProjectSnapshot {
    /// Returns what the journal kept of a project; `None` if that is nothing.
    pub fn recorded(record: &ProjectRecord<'_>) -> Option<Self> {
        let (confinement, seen) = record.project()?;
        let project = Project {
            confinement,
            folders: Mutex::new(seen.folders.clone()),
        };
        Some(Self {
            project: Arc::new(project),
            seen,
        })
    }

    /// Looks at a project.
    pub fn take(project: &Arc<Project>) -> Self {
        Self {
            project: project.clone(),
            seen: project.look(),
        }
    }

    /// Returns `confinement` with what is protected now: repositories may have been made since it was drawn up.
    pub fn protecting(&self, confinement: &Confinement) -> Confinement {
        let mut confinement = confinement.clone();
        for path in &self.seen.protected {
            confinement.protect_path(path);
        }
        confinement
    }

    /// Returns what the journal keeps of it.
    pub fn record(&self) -> ProjectRecord<'_> {
        ProjectRecord::of(&self.project.confinement, &self.seen)
    }

    /// Moves aside what was not there before and is not plain. Returns the new names, or the old one if moving failed.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        let found = self.newcomers().into_iter();
        found.filter_map(|path| aside(&path)).collect()
    }

    /// Does the same for another process. Its own folders in the project stay, without what a command may have put there.
    /// While a command `lives`, only what steers other programs is moved: it may be in the midst of a rebase, or making a
    /// repository that it removes again.
    pub fn finish(&self, lives: bool) -> Vec<PathBuf> {
        let found = match lives {
            true => self.new_steering(),
            false => self.newcomers(),
        };
        let found = found.into_iter();
        found.flat_map(|path| aside_but_own(&path)).collect()
    }

    /// Returns what steers other programs and was not there before.
    fn new_steering(&self) -> BTreeSet<PathBuf> {
        let now = self.project.folders();
        let before: HashSet<_> = self.seen.folders.found().collect();
        let new = now.found().filter(|found| !before.contains(found));
        new.filter(|found| matches!(found, Found::Steering(_)))
            .map(|found| found.path().to_owned())
            .collect()
    }

    /// Returns what was not there before and is not plain.
    fn newcomers(&self) -> BTreeSet<PathBuf> {
        let (before, now) = (&self.seen, self.project.look());
        let search = Search::new(&self.project.confinement);
        let known = Known {
            repositories: &before.repositories,
            global: &search.global,
            home: self.project.confinement.git_home.as_deref(),
        };
        let found_before: HashSet<_> = before.folders.found().collect();
        let mut found: BTreeSet<_> = now.gits.difference(&before.gits).cloned().collect();
        found.retain(|git| !is_plain(git, &known));
        for newcomer in now.folders.found() {
            let is_refused = match newcomer {
                _ if found_before.contains(newcomer) => false,
                // Among the others, but for those behind a link.
                Found::Git(path) => !before.gits.contains(path) && !is_plain(path, &known),
                Found::Bare(path) => !is_plain_bare(path),
                Found::Steering(_) | Found::Closed(_) => true,
            };
            if is_refused {
                found.insert(match newcomer {
                    Found::Bare(path) => path.join("HEAD"),
                    other => other.path().to_owned(),
                });
            }
        }
        let new_modules = now.modules.difference(&before.modules);
        found.extend(new_modules.filter(|git| !is_plain_module(git)).cloned());
        let new_worktrees = now.worktrees.difference(&before.worktrees);
        found.extend(new_worktrees.filter(|own| !is_plain_worktree(own)).cloned());
        let new_pending = now.pending.difference(&before.pending);
        found.extend(new_pending.map(|pending| pending.folder.clone()));
        found
    }
}

/// Moves a file aside. `None` if it is no longer there: the folder around it may have been moved already.
fn aside(path: &Path) -> Option<PathBuf> {
    (!is_absent(path)).then(|| move_aside(path))
}

/// Moves a file aside. This program itself may have made a folder for sessions, so of such a folder only what does not
/// belong to them.
fn aside_but_own(path: &Path) -> Vec<PathBuf> {
    let is_own =
        path.ends_with(OWN) && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    match is_own {
        true => {
            let others = names(path).into_iter();
            others.filter_map(|name| aside(&path.join(name))).collect()
        }
        false => aside(path).into_iter().collect(),
    }
}
