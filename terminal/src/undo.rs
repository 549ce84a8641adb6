//! Undo and redo of file changes by tools, and their texts.

pub mod ignored;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_config::{Config, Error};
use ah_conversation::{Environment, FileState};

use crate::print::shown;

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the files before the last run that changed any.
    Undo,
    /// To the files before the last undo.
    Redo,
}

impl Direction {
    /// Returns the message if there is no change to make.
    pub fn nothing(self) -> &'static str {
        match self {
            Self::Undo => "Nothing to undo.",
            Self::Redo => "Nothing to redo.",
        }
    }

    /// Returns the verb of messages.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// Returns the file changes to make, if there are any.
///
/// # Errors
///
/// If the session cannot be read.
pub async fn find(files: &Files, direction: Direction) -> Result<Option<Rewind>, Error> {
    Ok(match direction {
        Direction::Undo => files.undo().await?,
        Direction::Redo => files.redo().await?,
    })
}

/// Makes the changes and warns about each file that could not be restored. Returns the paths of these.
///
/// # Errors
///
/// If the current files cannot be stored; no file is changed then.
pub async fn apply(
    files: &Files,
    rewind: &Rewind,
    environment: &Environment,
) -> Result<Vec<PathBuf>, Error> {
    let failed = files.go(rewind).await?;
    for (path, error) in &failed {
        let path = show(path, environment);
        crate::warn(&format!("cannot restore `{path}`: {error}"));
    }
    Ok(failed.into_iter().map(|(path, _)| path).collect())
}

/// Returns what has been changed, if these files could not be restored.
pub fn without(rewind: &Rewind, failed: &[PathBuf]) -> Rewind {
    let mut done = rewind.clone();
    done.changes.retain(|edit| !failed.contains(&edit.path));
    done
}

/// Returns how many files of those that were to change have changed, and what reverses it.
pub fn outcome(done: &Rewind, wanted: &Rewind, back: &str) -> String {
    match (done.changes.len(), count(wanted)) {
        (0, _) if !wanted.changes.is_empty() => "no file changed".to_owned(),
        (some, all) if some < wanted.changes.len() => {
            format!("{some} of {all} changed; {back} reverses this")
        }
        (_, all) => format!("{all} changed; {back} reverses this"),
    }
}

/// Returns a path relative to the working directory, safe for the terminal.
pub fn show(path: &Path, environment: &Environment) -> String {
    let below = path.strip_prefix(environment.cwd());
    shown(&below.unwrap_or(path).to_string_lossy()).into_owned()
}

/// Returns a line for each file; those that git ignores come last, and are counted.
pub fn summary(rewind: &Rewind, config: &Config) -> String {
    let mut text = String::new();
    if rewind.is_of_others {
        text.push_str("These changes were not recorded by you on this machine: the session may come from somebody else.\n");
    }
    let (own, ignored) = ignored::divide(&rewind.changes, &config.project_root);
    let show = |path: &Path| show(path, &config.environment);
    list(&own, show, &mut text);
    if !ignored.is_empty() {
        text.push_str(&format!("{}:\n", count_ignored(ignored.len())));
        list(&ignored, show, &mut text);
    }
    for left in &rewind.skipped {
        let _ = write!(text, "skip {}: {}", show(&left.path), left.why);
        if let Some(beside) = &left.beside {
            let _ = write!(text, "; its earlier content goes to {}", show(beside));
        }
        text.push('\n');
    }
    for call in &rewind.unseen {
        let _ = writeln!(
            text,
            "not undone: {} (what it changed is not known)",
            shown(call)
        );
    }
    text
}

/// Adds a line for each file.
fn list(changes: &[&FileEdit], show: impl Fn(&Path) -> String, text: &mut String) {
    let mut changes = changes.iter().peekable();
    while let Some(edit) = changes.next() {
        if is_removed_folder(edit) {
            let mut files = 0;
            while let Some(below) = changes.next_if(|below| below.path.starts_with(&edit.path)) {
                files += usize::from(!is_removed_folder(below));
            }
            let files = match files {
                1 => "1 file".to_owned(),
                files => format!("{files} files"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "remove {}/ ({files})", show(&edit.path));
            continue;
        }
        let verb = match (&edit.now, &edit.then) {
            (_, FileState::Absent { .. }) => "remove",
            (FileState::Absent { .. }, _) => "recreate",
            _ => "restore",
        };
        let is_big = |state| matches!(state, &FileState::Big { .. });
        let extent = match is_big(&edit.now) || is_big(&edit.then) {
            true => "big file".to_owned(),
            false => format!("+{} -{}", edit.insertions, edit.deletions),
        };
        let _ = writeln!(text, "{verb} {} ({extent})", show(&edit.path));
    }
}

/// Returns how many files git ignores, in words.
pub fn count_ignored(files: usize) -> String {
    match files {
        1 => "1 file that git ignores".to_owned(),
        files => format!("{files} files that git ignores"),
    }
}

fn is_removed_folder(edit: &FileEdit) -> bool {
    let states = (&edit.now, &edit.then);
    matches!(states, (FileState::Folder { .. }, FileState::Absent { .. }))
}

/// Returns the number of files that change, as text.
pub fn count(rewind: &Rewind) -> String {
    match rewind.changes.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}
