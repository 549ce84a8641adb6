//! From what the terminal knows to the lines at its bottom: the answer's open line, what goes on, what waits, and what
//! is typed.

use std::time::Instant;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::app::{App, Queued, Work};
use super::painter::{Live, width};
use super::status;
use crate::print::{count, neutralise};
use ah_conversation::{MailKind, PermissionMode};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long one picture of the spinner stands, in milliseconds.
pub const FRAME_MS: u64 = 100;
/// What stands before the line that is typed, and before its further lines.
const PROMPT: &str = "> ";
const FURTHER: &str = "  ";
/// What stands in the line where nothing was said yet, as long as nothing is typed.
const INVITATION: &str = "say what to do, or /help";

/// The lines at the bottom.
pub fn live(app: &App, now: Instant) -> Live {
    let columns = app.size.0.max(10);
    let mut above = Vec::new();
    above.extend(open_line(&app.open, columns, app.size.1 / 2));
    above.extend(app.rest.iter().cloned());
    if let Some(work) = &app.work {
        if !above.is_empty() || !app.is_apart {
            above.push(String::new());
        }
        above.push(dim(
            app,
            &fit(&working(work, !app.questions.is_empty(), now), columns),
        ));
        for (name, key) in &work.tools {
            let line = format!("  {name} {}", key.replace('\n', " "));
            above.push(dim(app, &fit(&line, columns)));
        }
    }
    if let Some(panel) = app.questions.front() {
        let (lines, ask) = panel.parts();
        above.extend(lines.lines().flat_map(|line| hang(line, columns)));
        if !app.is_answering {
            above.push(fit(&format!("{ask}(Tab, then your answer)"), columns));
        }
    }
    above.extend(
        app.queued
            .iter()
            .map(|queued| dim(app, &fit(&waiting(queued), columns))),
    );
    let mut below = Vec::new();
    if let Some(picker) = &app.picker {
        below.extend(
            picker
                .window()
                .map(|(entry, is_marked)| mark(app, &entry.label, is_marked, columns)),
        );
    } else if let Some(menu) = &app.menu {
        let wide = menu
            .items
            .iter()
            .map(|(text, _)| width(text))
            .max()
            .unwrap_or(0);
        below.extend(menu.items.iter().enumerate().map(|(at, (text, about))| {
            let pad = " ".repeat(wide - width(text) + 2);
            mark(
                app,
                format!("{text}{pad}{about}").trim_end(),
                at == menu.at,
                columns,
            )
        }));
    }
    below.extend(bottom(app, columns));
    let (mut typed, (row, column)) = typed(app, columns);
    // What does not fit goes from above: what is typed is what is looked at.
    let most = app.size.1.saturating_sub(1).max(1);
    let room = most.saturating_sub(below.len()).max(1);
    let first = (row + 1).saturating_sub(room);
    typed.drain(..first);
    typed.truncate(room);
    let row = row - first;
    let spare = room.saturating_sub(typed.len());
    let hidden = above.len().saturating_sub(spare);
    above.drain(..hidden);
    let row = above.len() + row;
    above.append(&mut typed);
    above.append(&mut below);
    Live {
        rows: above,
        cursor: (row, column),
        columns: app.size.0,
    }
}

/// `⠙ thinking 3s · 1.2k tokens · Esc interrupts`
fn working(work: &Work, is_asked: bool, now: Instant) -> String {
    let elapsed = now.saturating_duration_since(work.since);
    let turns = elapsed.as_millis() / u128::from(FRAME_MS);
    let frame = FRAMES[usize::try_from(turns).unwrap_or(0) % FRAMES.len()];
    let label = if is_asked {
        "waiting for you"
    } else {
        &work.label
    };
    let mut line = format!("{frame} {label} {}", seconds(elapsed.as_secs()));
    if work.tokens > 0 {
        line.push_str(&format!(" · {} tokens", count(work.tokens)));
    }
    line.push_str(match work.is_stopping {
        true => " · stopping",
        false => " · Esc interrupts",
    });
    line
}

/// A time that goes on.
pub fn seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

fn waiting(queued: &Queued) -> String {
    let when = match queued.kind {
        MailKind::Steer => "next",
        MailKind::FollowUp => "afterwards",
    };
    let mut lines = queued.text.lines();
    let first = neutralise(lines.next().unwrap_or_default());
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("  {when}: {first}{more}")
}

/// What stands below what is typed: what the program has to say, and the line that the user's command makes in the place
/// of ours.
fn bottom(app: &App, columns: usize) -> Vec<String> {
    let mut rows = match &app.status {
        Some(said) => status::rows(said, app.status_padding, columns, app.colours),
        None => Vec::new(),
    };
    let has_word = app.is_leaving || app.hint.is_some();
    let own = match &app.session {
        Some(session) if !rows.is_empty() && !has_word => match session.mode {
            PermissionMode::Default => None,
            other => Some(mode(other).to_owned()),
        },
        _ => Some(own_status(app)),
    };
    rows.extend(own.map(|own| dim(app, &fit(&own, columns))));
    rows
}

fn own_status(app: &App) -> String {
    if app.is_leaving {
        return "Ctrl-C once more leaves".to_owned();
    }
    if let Some(hint) = &app.hint {
        return hint.clone();
    }
    let Some(session) = &app.session else {
        return String::new();
    };
    let mut parts = vec![neutralise(&session.model.name).into_owned()];
    if let Some(percent) = (session.context * 100).checked_div(session.model.context_window)
        && session.context > 0
    {
        parts.push(format!(
            "{percent}% of {}",
            count(session.model.context_window)
        ));
    }
    parts.push(mode(session.mode).to_owned());
    parts.join(" · ")
}

fn mode(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "/help",
        PermissionMode::AcceptEdits => "edits unasked",
        PermissionMode::Plan => "plan: nothing is changed",
        PermissionMode::DontAsk => "what is not allowed is denied",
        PermissionMode::BypassPermissions => "all unasked",
        PermissionMode::Delegate => "only handing work on",
    }
}

/// The end of a line of the answer that has no end yet, as far as there is room.
fn open_line(open: &str, columns: usize, most: usize) -> Vec<String> {
    let mut rows = wrap(&neutralise(open), columns, "", "").0;
    if open.is_empty() {
        return Vec::new();
    }
    let hidden = rows.len().saturating_sub(most.max(1));
    rows.drain(..hidden);
    rows
}

/// What is typed, and where the cursor stands in it.
fn typed(app: &App, columns: usize) -> (Vec<String>, (usize, usize)) {
    let text = app.editor.text();
    let before = &text[..app.editor.cursor()];
    let asked = app.questions.front().filter(|_| app.is_answering);
    let prompt = match (&app.picker, asked) {
        (Some(picker), _) => picker.prompt(),
        (None, Some(panel)) => panel.parts().1,
        (None, None) => PROMPT,
    };
    let (mut rows, _) = wrap(&neutralise(text), columns, prompt, FURTHER);
    let (upto, column) = wrap(&neutralise(before), columns, prompt, FURTHER);
    if let [row] = &mut rows[..]
        && is_inviting(app)
    {
        row.push_str(&dim(app, &fit(INVITATION, columns.saturating_sub(column))));
    }
    (rows, (upto.len() - 1, column))
}

/// Whether nothing was said and nothing is typed. Without colours nobody could tell an invitation from typed words.
fn is_inviting(app: &App) -> bool {
    let is_fresh = app
        .session
        .as_ref()
        .is_some_and(|session| session.messages == 0);
    let is_idle = app.work.is_none() && app.questions.is_empty() && app.picker.is_none();
    app.colours && is_fresh && is_idle && app.editor.is_empty()
}

/// A text in lines of so many columns, and the column behind its last character. A line that is just full has the cursor
/// in the next one.
fn wrap(text: &str, columns: usize, first: &str, further: &str) -> (Vec<String>, usize) {
    let mut rows = vec![first.to_owned()];
    let mut at = width(first);
    for piece in text.graphemes(true) {
        let (shown, wide) = match piece {
            "\n" => {
                rows.push(further.to_owned());
                at = width(further);
                continue;
            }
            "\t" => ("    ", 4),
            piece => (piece, piece.width()),
        };
        if at + wide > columns {
            rows.push(further.to_owned());
            at = width(further);
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(shown);
        }
        at += wide;
    }
    if at >= columns {
        rows.push(further.to_owned());
        at = width(further);
    }
    (rows, at)
}

/// A line of a question in rows, those after the first further in.
pub fn hang(line: &str, columns: usize) -> Vec<String> {
    const HANG: &str = "    ";
    let (mut rows, _) = wrap(line, columns.max(10), "", HANG);
    if rows.len() > 1 {
        // There is no cursor that needs a place of its own.
        rows.pop_if(|row| row == HANG);
    }
    rows
}

/// As much of a line as there is room for.
fn fit(line: &str, columns: usize) -> String {
    match width(line) > columns {
        true => format!("{}…", crate::print::cut(line, columns.saturating_sub(1))),
        false => line.to_owned(),
    }
}

/// An entry of a list.
fn mark(app: &App, text: &str, is_marked: bool, columns: usize) -> String {
    let text = neutralise(text).replace('\n', " ");
    match is_marked {
        true if app.colours => format!("\x1b[1m{}\x1b[0m", fit(&format!("❯ {text}"), columns)),
        true => fit(&format!("❯ {text}"), columns),
        false => dim(app, &fit(&format!("  {text}"), columns)),
    }
}

fn dim(app: &App, text: &str) -> String {
    match app.colours && !text.is_empty() {
        true => format!("\x1b[2m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_wrap_by_columns_and_know_where_they_end() {
        for (text, rows, end) in [
            ("", &["> "] as &[_], 2),
            ("abc", &["> abc"], 5),
            ("abcdefgh", &["> abcdefgh", "  "], 2),
            ("abcdefghi", &["> abcdefgh", "  i"], 3),
            ("a\nb", &["> a", "  b"], 3),
            ("日本語日本", &["> 日本語日", "  本"], 4),
            ("👍🏽 e\u{301}", &["> 👍🏽 e\u{301}"], 6),
        ] {
            let (wrapped, column) = wrap(text, 10, PROMPT, FURTHER);
            assert_eq!(wrapped, rows, "{text:?}");
            assert_eq!(column, end, "{text:?}");
        }
    }
}
