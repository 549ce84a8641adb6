//! `ah undo`, `ah redo` and `ah diff` without messages: the files that the session's tools have changed.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_conversation::FileState;
use ah_store::SystemClock;
use serde_json::{Value, json};
use similar::TextDiff;

use super::place::{block_on, existing, take};
use super::{print, print_json};
use crate::args::session::SessionPlan;
use crate::args::subcommands::{Json, Rewinding};
use crate::config::Config;
use crate::error::CliError;
use crate::print::shown;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Before the last run that changed files.
    Back,
    /// What was taken back last.
    Forth,
}

/// Gives files back as they were, or says what that would change.
pub fn run(
    config: &Config,
    plan: &SessionPlan,
    way: Way,
    wanted: &Rewinding,
) -> Result<u8, CliError> {
    let files = files(config, plan)?;
    block_on(async {
        let rewind = look(&files, way).await?;
        let is_whole = match wanted.dry_run {
            true => true,
            false => go(&files, &rewind, config).await?,
        };
        match wanted.json {
            true => print_json(&to_json(&rewind, wanted.dry_run))?,
            false => {
                let then = match (wanted.dry_run, way) {
                    (true, _) => "would change",
                    (false, Way::Back) => "changed; `ah redo` takes that back",
                    (false, Way::Forth) => "changed; `ah undo` takes that back",
                };
                let count = count(&rewind);
                print(&format!("{}{count} {then}\n", told(&rewind, config)))?
            }
        };
        Ok(u8::from(!is_whole))
    })
}

/// The way back or forth.
///
/// # Errors
///
/// Where there is none, or the session cannot be read.
pub async fn look(files: &Files, way: Way) -> Result<Rewind, CliError> {
    let rewind = match way {
        Way::Back => files.undo().await?,
        Way::Forth => files.redo().await?,
    };
    rewind.ok_or_else(|| {
        CliError::failure(match way {
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
pub async fn go(files: &Files, rewind: &Rewind, config: &Config) -> Result<bool, CliError> {
    let failed = files.go(rewind).await?;
    for (path, error) in &failed {
        let path = show(path, config);
        crate::warn(&format!("`{path}` is not given back: {error}"));
    }
    Ok(failed.is_empty())
}

/// Prints what has changed since the session began.
pub fn diff(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, CliError> {
    let files = files(config, plan)?;
    let back = block_on(async { Ok(files.to(0).await?) })?;
    if form.json {
        return print_json(&to_json(&back, true));
    }
    let patches = back.changes.iter().map(|edit| unified(edit, config));
    print(&patches.collect::<String>())
}

fn files(config: &Config, plan: &SessionPlan) -> Result<Files, CliError> {
    Ok(Files::new(
        Arc::new(take(&existing(plan, config)?)?),
        Arc::new(SystemClock::default()),
        config.permissions().roots(),
    ))
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

fn to_json(rewind: &Rewind, is_dry: bool) -> Value {
    let changes = rewind.changes.iter().map(|edit| {
        json!({
            "path": edit.path.to_string_lossy(),
            "insertions": edit.insertions,
            "deletions": edit.deletions,
            "is_there": !matches!(edit.then, FileState::Absent { .. }),
        })
    });
    let left = rewind
        .skipped
        .iter()
        .map(|left| json!({"path": left.path.to_string_lossy(), "why": left.why}));
    json!({
        "dry_run": is_dry,
        "changes": changes.collect::<Vec<_>>(),
        "left": left.collect::<Vec<_>>(),
    })
}

/// A file's change as patches show it.
fn unified(edit: &FileEdit, config: &Config) -> String {
    let path = show(&edit.path, config);
    let (before, after) = (&edit.then, &edit.now);
    let name = |side: &str, state| match state {
        &FileState::Absent { .. } => "/dev/null".to_owned(),
        _ => format!("{side}/{path}"),
    };
    let (old, new) = (name("a", before), name("b", after));
    match texts(edit) {
        Some((before, after)) => {
            let diff = TextDiff::from_lines(before, after);
            let patch = diff.unified_diff().header(&old, &new).to_string();
            shown(&patch).into_owned()
        }
        _ => format!("binary files {old} and {new} differ\n"),
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
