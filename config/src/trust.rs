//! Whether the files of a project that are code, or that steer where secrets go, count.
//!
//! A folder that was cloned or unpacked may hold anything, and looking at it with an agent must not run it. So such
//! files count only where the user trusts the folder: by `--trust`, by the setting `trustedFolders` of their own, or by
//! an answer that is remembered. What makes a run safer always counts. Settings are weighed in [`crate::config`];
//! whoever loads other files that are code asks [`Trust::is_given`] first, and `code.rs` finds and names them.

mod code;
mod memory;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::neutralise;
pub use memory::Memory;

/// How a folder comes to be trusted.
pub const HINT: &str =
    "--trust makes it count for once, `trustedFolders` in your own settings for good";

/// Whether a project's code counts, and what was left out because it does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Trust {
    /// The topmost folder whose files are the project's: all of it is trusted, or nothing.
    folder: PathBuf,
    verdict: Verdict,
    /// Files that do not count, with the parts of them where the rest does.
    skipped: BTreeMap<PathBuf, Vec<String>>,
}

/// Whether the project is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Given(Reason),
    /// The user has said that it is not.
    Refused,
    /// Nobody has said anything.
    Open,
}

/// Why a project is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is none: in the home directory all files are the user's.
    NoProject,
    /// `--trust`.
    Option,
    /// The program that started this one has looked after that.
    Host,
    /// `trustedFolders` in the user's settings.
    Setting,
    /// The user was asked once.
    Answer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProject => "in the home directory all files are yours",
            Self::Option => "--trust",
            Self::Host => "the program that started this one vouches for it",
            Self::Setting => "trustedFolders",
            Self::Answer => "as you have answered",
        })
    }
}

/// What is known of a project's trust besides what is remembered.
pub struct Grounds<'a> {
    /// The folders whose files are the project's, the topmost last; none in the home directory.
    pub project: &'a [PathBuf],
    /// The option, or the program that started this one, says so.
    pub given: Option<Reason>,
    /// The folders that the user's settings name.
    pub folders: &'a [PathBuf],
    /// What the user has answered before.
    pub memory: &'a Memory,
}

impl Trust {
    /// Decides whether the project is trusted.
    pub fn decide(grounds: &Grounds<'_>) -> Self {
        let top = grounds.project.last();
        let folder = top.map(|top| real(top)).unwrap_or_default();
        let is_named = |named: &PathBuf| folder.starts_with(real(named));
        let reason = if top.is_none() {
            Some(Reason::NoProject)
        } else if grounds.given.is_some() {
            grounds.given
        } else {
            let is_named = grounds.folders.iter().any(is_named);
            is_named.then_some(Reason::Setting)
        };
        let verdict = match (reason, grounds.memory.answer(&folder)) {
            (Some(reason), _) => Verdict::Given(reason),
            (None, Some(true)) => Verdict::Given(Reason::Answer),
            (None, Some(false)) => Verdict::Refused,
            (None, None) => Verdict::Open,
        };
        Self {
            folder,
            verdict,
            skipped: BTreeMap::new(),
        }
    }

    /// Notes all files of the project that are code, its settings apart.
    pub fn skip_code(&mut self, project: &[PathBuf]) {
        code::find(project, |path| self.skip(path, None));
    }

    /// Whether the project's code counts.
    pub fn is_given(&self) -> bool {
        self.reason().is_some()
    }

    /// Why the project's code counts, if it does.
    pub fn reason(&self) -> Option<Reason> {
        match self.verdict {
            Verdict::Given(reason) => Some(reason),
            Verdict::Refused | Verdict::Open => None,
        }
    }

    /// The folder that is trusted, or is not.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes that a file does not count, or this part of it.
    pub fn skip(&mut self, path: PathBuf, part: Option<&str>) {
        let parts = self.skipped.entry(path).or_default();
        parts.extend(part.map(str::to_owned));
    }

    /// Whether the user is to be asked: there is something to trust, and nobody has said whether to.
    pub fn is_open(&self) -> bool {
        self.verdict == Verdict::Open && !self.skipped.is_empty()
    }

    /// What does not count, one line each: paths from the folder on.
    pub fn skipped(&self) -> Vec<String> {
        let line = |(path, parts): (&PathBuf, &Vec<String>)| {
            let path = path.strip_prefix(&self.folder).unwrap_or(path);
            match parts.as_slice() {
                [] => shown(path),
                parts => format!("{} ({})", shown(path), parts.join(", ")),
            }
        };
        self.skipped.iter().map(line).collect()
    }

    /// What the user is told of what does not count, if there is anything.
    pub fn notice(&self) -> Option<String> {
        let skipped = self.skipped();
        (!skipped.is_empty()).then(|| {
            format!(
                "`{}` is not trusted, so this of it does not count: {}\n\
                 hint: {HINT}",
                shown(&self.folder),
                skipped.join(", ")
            )
        })
    }
}

/// A path as it is shown: whoever has named the file has no say in what the terminal does.
pub fn shown(path: &Path) -> String {
    neutralise(&path.to_string_lossy()).replace(['\n', '\t'], " ")
}

/// The path without symbolic links, so that a folder has one name.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
