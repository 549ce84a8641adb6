//! Trust: whether a project's files that are code, or decide where secrets are sent, count.
//!
//! A cloned or unpacked folder may hold anything, and looking at it with an agent must not run it. So such files count
//! only in a folder that the user trusts: by `--trust`, by `trustedFolders` in their own settings, or by a remembered
//! answer. Files that make a run safer always count. Settings are restricted in `untrusted.rs`; loaders of other
//! code check [`Trust::is_given`] first, and `code.rs` finds and names them.

mod code;
mod memory;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ah_conversation::neutralise;

use crate::layout::real;
use crate::layout::repository_of;
pub use memory::Memory;

/// The ways to trust a folder.
pub const HINT: &str =
    "use --trust for one run, or add it to `trustedFolders` in your own settings";

/// Trust in a project, and the files that are ignored without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trust {
    /// The project's topmost folder: all of it is trusted, or nothing.
    folder: PathBuf,
    verdict: Verdict,
    /// Ignored files, with the ignored parts if the rest counts.
    skipped: BTreeMap<PathBuf, Vec<String>>,
}

/// State of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Given(Reason),
    /// The user does not trust it.
    Refused,
    /// Not decided.
    Open,
}

/// Reason to trust a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No project: in the home directory all files are the user's.
    NoProject,
    /// `--trust`.
    Option,
    /// The program that started this one vouches for it.
    Host,
    /// `trustedFolders` in the user's settings.
    Setting,
    /// The user's remembered answer.
    Answer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProject => "in the home directory all files are yours",
            Self::Option => "--trust",
            Self::Host => "the program that started ah trusts it",
            Self::Setting => "trustedFolders",
            Self::Answer => "by your earlier answer",
        })
    }
}

/// Evidence for the trust in a project.
pub struct Grounds<'a> {
    /// The project's folders, topmost last; empty in the home directory.
    pub project: &'a [PathBuf],
    /// The reason given by an option or by the program that started this one.
    pub given: Option<Reason>,
    /// Trusted folders of the user's settings.
    pub folders: &'a [PathBuf],
    /// Remembered answers.
    pub memory: &'a Memory,
}

impl Trust {
    /// Decides whether the project is trusted.
    pub fn decide(grounds: &Grounds<'_>) -> Self {
        // A worktree is trusted as its repository is.
        let top = grounds.project.last();
        let top = top.map(|top| repository_of(top).unwrap_or(top.as_path()));
        let folder = top.map(real).unwrap_or_default();
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

    /// Notes all code files of the project except its settings.
    pub fn skip_code(&mut self, project: &[PathBuf]) {
        code::find(project, |path| self.skip(path, None));
    }

    /// Returns whether the project's code counts.
    pub fn is_given(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns the reason for trust, if the project is trusted.
    pub fn reason(&self) -> Option<Reason> {
        match self.verdict {
            Verdict::Given(reason) => Some(reason),
            Verdict::Refused | Verdict::Open => None,
        }
    }

    /// Returns the folder that the decision is about.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes an ignored file, or an ignored part of it.
    pub fn skip(&mut self, path: PathBuf, part: Option<&str>) {
        let parts = self.skipped.entry(path).or_default();
        parts.extend(part.map(str::to_owned));
    }

    /// Returns whether to ask the user: there is something to trust, and no decision.
    pub fn is_open(&self) -> bool {
        self.verdict == Verdict::Open && !self.skipped.is_empty()
    }

    /// Returns the ignored files, one line each, relative to the folder.
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

    /// Returns the warning about ignored files, if there are any.
    pub fn notice(&self) -> Option<String> {
        let skipped = self.skipped();
        (!skipped.is_empty()).then(|| {
            format!(
                "`{}` is not trusted; ignored: {}\n\
                 hint: {HINT}",
                shown(&self.folder),
                skipped.join(", ")
            )
        })
    }
}

/// Returns a path for display, without control characters: its author may be hostile.
pub fn shown(path: &Path) -> String {
    neutralise(&path.to_string_lossy()).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests;
