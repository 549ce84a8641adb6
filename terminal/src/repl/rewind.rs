//! Undo and redo of file changes in the conversation. The user sees what would change and confirms it first.

use std::path::Path;

use ah_agent::checkpoint::{Files, Rewind};
use ah_conversation::{Environment, NOTE};
use ah_render::{Line, Style, diff};
use tokio_util::sync::CancellationToken;

use super::asker::Asker;
use super::frontend::Link;
use crate::print::question;
use crate::undo::{self, Direction, count, count_ignored, ignored, show, summary};
use ah_config::{Config, Error};

/// Number of files named of those that git ignores.
const NAMED: usize = 5;

/// Returns the diffs of all files that tools have changed in the session.
///
/// # Errors
///
/// If the session cannot be read.
pub async fn changes(
    files: &Files,
    (environment, project_root): (&Environment, &Path),
    link: &Link,
) -> Result<String, Error> {
    let back = files.to(0).await?;
    let mut rows = Vec::new();
    let (own, ignored) = ignored::divide(&back.changes, project_root);
    for edit in own {
        let path = show(&edit.path, environment);
        // The diff leads back, so what it removes was added.
        let counts = format!(" (+{} -{})", edit.deletions, edit.insertions);
        let mut head = Line::of(&path, Style::BOLD);
        head.push(&counts, Style::DIM);
        rows.push(head);
        match edit.texts() {
            Some((before, now)) => {
                let hunks = diff::between(before, now);
                let language = diff::ending(&path);
                rows.extend(diff::rows(&hunks, language, link.size.width));
            }
            None => rows.push(Line::of("  not a text file", Style::DIM)),
        }
    }
    if !ignored.is_empty() {
        let names = ignored.iter().take(NAMED);
        let names: Vec<_> = names.map(|edit| show(&edit.path, environment)).collect();
        let more = if ignored.len() > NAMED { ", …" } else { "" };
        let counted = count_ignored(ignored.len());
        let line = format!("{counted}: {}{more}", names.join(", "));
        rows.push(Line::of(&line, Style::DIM));
    }
    if rows.is_empty() {
        rows.push(Line::of("no file changes", Style::DIM));
    }
    let rows = rows.iter().map(|row| row.paint(link.palette()) + "\n");
    Ok(rows.collect::<String>() + "\n")
}

/// Shows what would change, asks until `stop`, and does it. Returns a note for the model if anything has changed.
///
/// # Errors
///
/// If the session cannot be read or written.
pub async fn go(
    files: &Files,
    direction: Direction,
    config: &Config,
    link: &Link,
    stop: &CancellationToken,
) -> Result<Option<String>, Error> {
    let Some(rewind) = undo::find(files, direction).await? else {
        crate::note(direction.nothing());
        return Ok(None);
    };
    if rewind.changes.is_empty() {
        let summary = summary(&rewind, config);
        crate::note(&format!(
            "{summary}Nothing to {}: files already match.",
            direction.verb()
        ));
        undo::apply(files, &rewind, &config.environment).await?;
        return Ok(None);
    }
    // Only the question can be interrupted: what has begun is done to the end.
    let agreed = is_agreed(&rewind, direction, config, link);
    if stop.run_until_cancelled(agreed).await != Some(true) {
        return Ok(None);
    }
    let failed = undo::apply(files, &rewind.agreed(), &config.environment).await?;
    let done = undo::without(&rewind, &failed);
    let (verb, other) = match direction {
        Direction::Undo => ("undid", "/redo"),
        Direction::Redo => ("redid", "/undo"),
    };
    crate::note(&undo::outcome(&done, &rewind, other));
    if done.changes.is_empty() {
        return Ok(None);
    }
    let summary = summary(&done, config);
    Ok(Some(format!(
        "{NOTE} The user {verb} file changes:\n{summary}\n"
    )))
}

async fn is_agreed(rewind: &Rewind, direction: Direction, config: &Config, link: &Link) -> bool {
    let (summary, count) = (summary(rewind, config), count(rewind));
    let mut asker = Asker::open(&link.inputs);
    let _closer = asker.closer();
    let head = format!("{}: {count} would change", direction.verb());
    let answer = tokio::task::spawn_blocking(move || {
        question::confirm(&head, &summary, "Continue? (y/n) ", &mut asker)
    });
    matches!(answer.await, Ok(Ok(true)))
}
