//! Files of the phases, `o/work/PHASE/FILE`. The originals are kept in the user's repository, out of the agents' reach;
//! each agent gets copies in the repository it works in.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::journal::Hashes;
use crate::phase::Phase;
use ah_git::own_files::{create_folder, create_ignored_folder, is_real_file, is_real_folder};

/// Directory of the files, relative to the top of a repository.
pub const FOLDER: &str = "o/work";
/// Largest file accepted from an agent, in bytes.
const LONGEST: u64 = 1024 * 1024;
const READABLE: [&str; 11] = [
    "plan/issue.json",
    "plan/plan.md",
    "plan/update.md",
    "do/do.md",
    "do/feedback.md",
    "do/branch.txt",
    "check/check.md",
    "check/actions.json",
    "fix/do.md",
    "fix/branch.txt",
    "merge/merge.md",
];

/// Files that the program writes for itself.
const RECORDED: [&str; 4] = [
    "state.json",
    "act/act.md",
    "act/results.json",
    "plan/talk.json",
];

/// Files of the current work.
#[derive(Debug, Clone)]
pub struct Artifacts {
    top: PathBuf,
    folder: PathBuf,
}

impl Artifacts {
    /// Returns the files in the repository whose top-level directory is `top`.
    pub fn of(top: &Path) -> Self {
        Self {
            top: top.to_owned(),
            folder: top.join(FOLDER),
        }
    }

    /// Creates the folder, ignored by git.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn prepare(&self) -> io::Result<()> {
        create_ignored_folder(&self.top, &self.folder)
    }

    /// Removes the files of earlier work.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        let phases = Phase::ALL.iter().map(|phase| phase.as_str());
        for folder in phases.chain(["setup"]) {
            match fs::remove_dir_all(self.path(folder)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.remove("summary.json")
    }

    /// Returns the directory of all files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of `name`, such as `plan/plan.md`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the content of `name`, if it exists.
    pub fn read(&self, name: &str) -> Option<String> {
        let path = self.path(name);
        let is_real = is_real_file(&self.top, &path);
        is_real.then(|| fs::read_to_string(path).ok()).flatten()
    }

    /// Writes `name` atomically.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.folder);
        self.prepare()?;
        create_folder(&self.top, folder)?;
        let draft = path.with_extension("new");
        remove(&draft)?;
        let mut file = fs::File::create_new(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)
    }

    /// Removes `name`, if it exists.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the hashes of all files that phases read.
    pub fn hashes(&self) -> Hashes {
        let hash = |name: &str| {
            let bytes = fs::read(self.path(name)).ok()?;
            Some((name.to_owned(), hash(&bytes)))
        };
        READABLE.iter().filter_map(|name| hash(name)).collect()
    }

    /// Returns the files that say how far the work is, without transcripts.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let names = READABLE.iter().copied().chain(RECORDED);
        names
            .filter_map(|name| Some((name.to_owned(), self.read(name)?)))
            .collect()
    }

    /// Replaces the files of earlier work by those that [`Self::texts`] returned elsewhere; others are ignored.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn restore(&self, texts: &BTreeMap<String, String>) -> io::Result<()> {
        self.clear()?;
        let names = READABLE.iter().copied().chain(RECORDED);
        for name in names {
            if let Some(text) = texts.get(name) {
                self.write(name, text)?;
            }
        }
        Ok(())
    }

    /// Copies the files that `phase` reads into `repo`, and creates an empty directory for the phase's own files. A
    /// resumed phase keeps its directory.
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub fn lay_out(&self, repo: &Path, phase: Phase, is_resumed: bool) -> io::Result<()> {
        let below = real_folder(&Folder::follow(repo)?, FOLDER.as_ref())?;
        let make = |name: &OsStr| {
            below.remove_all(name)?;
            below.create_folder(name, 0o777)?;
            below.folder(Path::new(name))
        };
        for earlier in phase.earlier() {
            let folder = make(earlier.as_str().as_ref())?;
            let own = format!("{earlier}/");
            for name in READABLE {
                if let (Some(file), Some(text)) = (name.strip_prefix(&own), self.read(name)) {
                    let mut file = folder.create_file(file.as_ref(), 0o666)?;
                    file.write_all(text.as_bytes())?;
                }
            }
        }
        let own = OsStr::new(phase.as_str());
        if !(is_resumed && is_folder(&below, own)?) {
            make(own)?;
        }
        Ok(())
    }

    /// Moves the files that the agent of `phase` has written in `repo` here, and removes those it did not write.
    /// Returns the names of the existing ones.
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub fn collect(&self, repo: &Path, phase: Phase) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in phase.leaves() {
            let name = format!("{phase}/{file}");
            match left(repo, &name) {
                Some(text) => {
                    self.write(&name, &text)?;
                    names.push(name);
                }
                None => self.remove(&name)?,
            }
        }
        Ok(names)
    }
}

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file written by an agent. Only regular files in real directories are accepted: through a link or a named
/// pipe, an agent could make us read files that it cannot.
fn left(repo: &Path, name: &str) -> Option<String> {
    let path = Path::new(FOLDER).join(name);
    let (folder, name) = Folder::follow(repo).ok()?.entry(&path).ok()?;
    let file = folder.open_file(name, OFlags::RDONLY).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (bytes.len() as u64 <= LONGEST && !text.trim().is_empty()).then_some(text)
}

/// Opens the folder at a path below `repo`; replaces links and files on the way by directories.
pub(crate) fn real_folder(repo: &Folder, below: &Path) -> io::Result<Folder> {
    let mut folder = repo.folder(Path::new(""))?;
    for name in ah_beneath::names(below)? {
        if !is_folder(&folder, name)? {
            folder.remove_all(name)?;
            folder.create_folder(name, 0o777)?;
        }
        folder = folder.folder(Path::new(name))?;
    }
    Ok(folder)
}

fn is_folder(folder: &Folder, name: &OsStr) -> io::Result<bool> {
    let found = folder.status(name)?;
    Ok(found.is_some_and(|found| found.is_folder()))
}

/// Removes a file, a link or a directory, if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = if is_real_folder(path) {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_accepted_from_an_agent() {
        let root = tempfile::tempdir().unwrap();
        let (top, repo) = (root.path().join("top"), root.path().join("tree"));
        let artifacts = Artifacts::of(&top);
        for folder in [&top, &repo] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(root.path().join("secret"), "canary").unwrap();
        artifacts.lay_out(&repo, Phase::Plan, false).unwrap();
        let plan = repo.join("o/work/plan");
        symlink(root.path().join("secret"), plan.join("plan.md")).unwrap();
        fs::write(plan.join("update.md"), "why not").unwrap();
        let taken = artifacts.collect(&repo, Phase::Plan).unwrap();
        assert_eq!(taken, ["plan/update.md"]);
        // A linked directory is rejected too, for reading and for writing.
        fs::remove_dir_all(&plan).unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("plan.md"), "canary").unwrap();
        symlink(&elsewhere, &plan).unwrap();
        assert!(artifacts.collect(&repo, Phase::Plan).unwrap().is_empty());
        artifacts.lay_out(&repo, Phase::Do, false).unwrap();
        assert!(elsewhere.join("plan.md").exists() && is_real_folder(&plan));
        fs::remove_dir_all(repo.join("o")).unwrap();
        symlink(root.path(), repo.join("o")).unwrap();
        artifacts.lay_out(&repo, Phase::Do, false).unwrap();
        assert!(!root.path().join("work").exists());
    }

    #[test]
    fn changes_to_files_of_earlier_phases_are_undone() {
        let root = tempfile::tempdir().unwrap();
        let (top, repo) = (root.path().join("top"), root.path().join("tree"));
        let artifacts = Artifacts::of(&top);
        for folder in [&top, &repo] {
            fs::create_dir_all(folder).unwrap();
        }
        artifacts.write("plan/plan.md", "the plan").unwrap();
        artifacts.lay_out(&repo, Phase::Do, false).unwrap();
        fs::write(repo.join("o/work/plan/plan.md"), "another").unwrap();
        fs::write(repo.join("o/work/plan/more.md"), "more").unwrap();
        fs::write(repo.join("o/work/do/do.md"), "half").unwrap();
        artifacts.lay_out(&repo, Phase::Do, true).unwrap();
        let text = |name: &str| fs::read_to_string(repo.join("o/work").join(name)).ok();
        assert_eq!(text("plan/plan.md").as_deref(), Some("the plan"));
        assert_eq!(text("plan/more.md"), None);
        assert_eq!(
            text("do/do.md").as_deref(),
            Some("half"),
            "a resumed phase keeps its files"
        );
    }
}
