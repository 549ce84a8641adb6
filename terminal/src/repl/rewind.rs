//! Files that tools have changed: what has become of them, and how they are given back. Nothing is given back before the
//! user has seen what would change, and said so; and what was given back can be brought forth again.

use std::io;

use ah_agent::checkpoint::{Files, Rewind};
use ah_render::{Line, Style, diff};

use super::frontend::Link;
use super::question::Asker;
use crate::print::question;
use crate::undo::{self, Way, count, show, texts, told};
use ah_config::Config;
use ah_config::Error;

/// What has changed since the session began, in lines.
///
/// # Errors
///
/// Where the session cannot be read.
pub async fn changes(files: &Files, config: &Config, link: &Link) -> Result<String, Error> {
    let back = files.to(0).await?;
    let mut rows = Vec::new();
    for edit in &back.changes {
        let path = show(&edit.path, config);
        // The way leads back, so what it takes away was added.
        let counts = format!(" (+{} -{})", edit.deletions, edit.insertions);
        let mut head = Line::of(&path, Style::BOLD);
        head.push(&counts, Style::DIM);
        rows.push(head);
        match texts(edit) {
            Some((before, now)) => {
                rows.extend(diff::rows(&diff::between(before, now), link.size.width));
            }
            None => rows.push(Line::of("  not a text", Style::DIM)),
        }
    }
    if rows.is_empty() {
        rows.push(Line::of("nothing has changed", Style::DIM));
    }
    let rows = rows.iter().map(|row| row.paint(link.palette()) + "\n");
    Ok(rows.collect::<String>() + "\n")
}

/// Shows what would change, asks, and does it; gives what the model is to know of it, if anything has changed.
///
/// # Errors
///
/// Where there is no way, or the session cannot be read or kept.
pub async fn go(
    files: &Files,
    way: Way,
    config: &Config,
    link: &Link,
) -> Result<Option<String>, Error> {
    let rewind = undo::look(files, way).await?;
    if !is_agreed(&rewind, config, link).await {
        return Ok(None);
    }
    undo::go(files, &rewind, config).await?;
    let other = match way {
        Way::Back => "/redo",
        Way::Forth => "/undo",
    };
    let changed = count(&rewind);
    crate::note(&format!("{changed} changed; {other} takes that back"));
    let told = told(&rewind, config);
    Ok(Some(format!(
        "I have given files back as they were before:\n{told}\n"
    )))
}

async fn is_agreed(rewind: &Rewind, config: &Config, link: &Link) -> bool {
    let (told, count) = (told(rewind, config), count(rewind));
    if rewind.changes.is_empty() {
        crate::note(&format!("{told}nothing would change"));
        return false;
    }
    let (_asker, mut lines, mut words) = Asker::put(&link.inputs);
    let answer = tokio::task::spawn_blocking(move || -> io::Result<bool> {
        io::Write::write_all(&mut words, told.as_bytes())?;
        question::confirm(
            &format!("{count} would change. Go on? (y/n) "),
            &mut lines,
            &mut words,
        )
    });
    matches!(answer.await, Ok(Ok(true)))
}
