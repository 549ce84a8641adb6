//! Port: the check of a run.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{ChangedSeal, Evidence, Verification};

/// Port: what must pass before a run ends.
#[async_trait]
pub trait Check: fmt::Debug + Send + Sync {
    /// Returns its command line, for people and for the model.
    fn command(&self) -> &str;

    /// Returns the most checks in one run.
    fn most(&self) -> usize;

    /// Runs it on the files as they are now. A check that has passed is not rerun until a file changes. Dropping the future
    /// stops it.
    async fn run(&self) -> CheckRun;

    /// Runs it because the model has asked, who may go on with its work once `taken` is called or dropped: the check says something
    /// of the files as they were then. One that has failed is not rerun either until a file changes.
    async fn run_asked(&self, taken: Taken) -> CheckRun;
}

/// Called when a check has taken the files.
pub type Taken = Box<dyn FnOnce() + Send>;

/// Told which files are sealed for a check.
pub type TellSealed<'a> = &'a (dyn Fn(&str) + Sync);

/// The check in force, if there is one: clones share it, so whoever asks for it later has that of then.
#[derive(Debug, Clone, Default)]
pub struct CheckInForce(Arc<Mutex<Option<Arc<dyn Check>>>>);

impl From<Option<Arc<dyn Check>>> for CheckInForce {
    fn from(check: Option<Arc<dyn Check>>) -> Self {
        Self(Arc::new(Mutex::new(check)))
    }
}

impl CheckInForce {
    /// Returns it.
    pub fn get(&self) -> Option<Arc<dyn Check>> {
        self.0.lock().clone()
    }

    /// Puts another one in its place, or none.
    pub fn set(&self, check: Option<Arc<dyn Check>>) {
        *self.0.lock() = check;
    }
}

/// What came of one run of the check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckRun {
    /// Whether it passed, with the sealed files as they are and as they were.
    pub is_passed: bool,
    /// Whether it is an earlier one, on the very same files.
    pub is_known: bool,
    /// Whether it is of a recording, and says nothing of the files as they are now.
    #[serde(skip)]
    pub is_replayed: bool,
    /// How it ended, in a few words: `exit 1`.
    pub ending: String,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The lines of its output that say why it failed.
    pub why: String,
    /// What the model can do about it besides, if that is known.
    pub hint: Option<String>,
    /// File with the whole output.
    pub output: Option<PathBuf>,
    /// Stands for the content of all files that were checked.
    pub tree: String,
    /// Files that have changed since it ran last, or since the beginning.
    pub edited: Vec<PathBuf>,
    /// Sealed files that differ from what they were at the beginning.
    pub changed: Vec<ChangedSeal>,
}

impl CheckRun {
    /// Returns what the model reads of it: why it failed, what has changed since the last one, what can be done.
    pub fn account(&self) -> String {
        let mut text = String::new();
        if !self.why.is_empty() {
            text.push_str(&format!("\n\n{}", self.why.trim_end()));
        }
        if let Some(output) = &self.output {
            text.push_str(&format!("\n\nThe whole output: {}", output.display()));
        }
        text.push_str(&match self.edited.as_slice() {
            [] => "\nNo file has changed since the last check.".to_owned(),
            paths => format!("\nChanged since the last check: {}.", listed(paths.iter())),
        });
        if !self.changed.is_empty() {
            text.push_str(&format!(
                "\nYou have changed what the check is made of: {}. It has to pass with these files as they were, too; the user sees \
                 the difference.",
                listed(self.changed.iter().map(|changed| &changed.path)),
            ));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{hint}"));
        }
        text
    }
}

/// Returns the first paths, and how many more there are.
fn listed<'a>(paths: impl ExactSizeIterator<Item = &'a PathBuf>) -> String {
    first_of(paths.map(|path| path.display().to_string()))
}

/// Returns the first of some words, and how many more there are.
pub fn first_of(words: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 10;
    let more = words.len().saturating_sub(SHOWN);
    let shown = words.take(SHOWN).collect::<Vec<_>>().join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl Verification {
    /// Returns the state of a check after this run of it, the one with the 1-based number `number`.
    pub fn of(check: &dyn Check, run: &CheckRun, number: usize) -> Self {
        Self {
            command: check.command().to_owned(),
            evidence: if run.is_passed {
                Evidence::Verified
            } else {
                Evidence::Claimed
            },
            checks: number,
            left: check.most().saturating_sub(number),
            ending: Some(run.ending.clone()),
            exit_code: run.exit_code,
            duration_ms: run.duration_ms,
            output: run.output.clone(),
            changed: run.changed.clone(),
            is_replayed: run.is_replayed,
        }
    }
}
