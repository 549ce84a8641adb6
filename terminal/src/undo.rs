//! Undo and redo of the files that tools have changed, as they are shown.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_config::{Config, Error};
use ah_conversation::FileState;

use crate::print::shown;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Before the last run that changed files.
    Back,
    /// What was taken back last.
    Forth,
}

/// The way back or forth.
///
/// # Errors
///
/// Where there is none, or the session cannot be read.
pub async fn look(files: &Files, way: Way) -> Result<Rewind, Error> {
    let rewind = match way {
        Way::Back => files.undo().await?,
        Way::Forth => files.redo().await?,
    };
    rewind.ok_or_else(|| {
        Error::failure(match way {
            Way::Back => "there is no change of a tool to take back",
            Way::Forth => "nothing was taken back since the last change",
        })
    })
}

/// Goes it, and warns of each file that could not be given back; gives whether there was none.
///
/// # Errors
///
/// Where what is there now cannot be stored; no file has changed then.
pub async fn go(files: &Files, rewind: &Rewind, config: &Config) -> Result<bool, Error> {
    let failed = files.go(rewind).await?;
    for (path, error) in &failed {
        let path = show(path, config);
        crate::warn(&format!("`{path}` is not given back: {error}"));
    }
    Ok(failed.is_empty())
}

/// A path as it is seen from where the program works.
pub fn show(path: &Path, config: &Config) -> String {
    let below = path.strip_prefix(config.environment.cwd());
    shown(&below.unwrap_or(path).to_string_lossy()).into_owned()
}

/// A line for each file.
pub fn told(rewind: &Rewind, config: &Config) -> String {
    let mut text = String::new();
    for edit in &rewind.changes {
        let deed = match (&edit.now, &edit.then) {
            (_, FileState::Absent { .. }) => "remove",
            (FileState::Absent { .. }, _) => "bring back",
            _ => "restore",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{deed} {} (+{} -{})",
            show(&edit.path, config),
            edit.insertions,
            edit.deletions
        );
    }
    for left in &rewind.skipped {
        let _ = writeln!(text, "leave {}: {}", show(&left.path, config), left.why);
    }
    text
}

/// How many files a way changes.
pub fn count(rewind: &Rewind) -> String {
    match rewind.changes.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// What was in a file at the end of the way, and what is now, where both are texts.
pub fn texts(edit: &FileEdit) -> Option<(&str, &str)> {
    fn text(state: &FileState<Arc<[u8]>>) -> Option<&str> {
        match state {
            FileState::File { content, .. } => str::from_utf8(content).ok(),
            FileState::Absent { .. } | FileState::Unkept => Some(""),
        }
    }
    Some((text(&edit.then)?, text(&edit.now)?))
}
