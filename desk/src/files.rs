//! The files that a session has changed: what has become of them, and what an undo would change, with whole diffs.

use ah_conversation::Hunk;
use serde::{Deserialize, Serialize};

/// A state of the files of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesAt {
    /// When the session began.
    Beginning,
    /// Before the last run that changed any.
    Undo,
    /// Before the last undo.
    Redo,
}

/// How the files of a session differ from another state of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesDiff {
    /// The files, sorted by path. Those of [`FilesAt::Beginning`] tell what the session has done, others what would be done.
    pub files: Vec<FileDiff>,
    /// Paths that are left as they are, each with the reason.
    pub left: Vec<FileLeft>,
    /// Calls, each in a few words, whose changes are not known: they stay.
    pub unseen: Vec<String>,
    /// Whether it obeys a record that this user has not made, as in a session that came from somebody else.
    pub is_of_others: bool,
    /// Names all of this: who agrees to it agrees to nothing else.
    pub plan: String,
}

/// How a file differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Its path, relative to the folder of the session if it is below.
    pub path: String,
    /// What becomes of it.
    pub change: FileFate,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// Its changed parts; `None` if it is no text, or too big.
    pub hunks: Option<Vec<Hunk>>,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFate {
    /// It is new.
    Created,
    /// It has another content.
    Changed,
    /// It is gone.
    Removed,
}

/// A path that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLeft {
    /// The path.
    pub path: String,
    /// The reason.
    pub why: String,
}
