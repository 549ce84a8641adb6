//! Calls of tools, while they run and once they have ended.
//!
//! What a call is, is told by its tool's key; what came of it, by the shape of the details of its result. A tool that
//! gives `structuredPatch` has changed a file, one that gives `newTodos` keeps a list, whatever either is called.

use ah_conversation::DisplayKey;
use anstyle::Effects;
use serde_json::Value;

use crate::{Ink, Line, Style, diff, wrap_hard};

/// So many lines are shown at the beginning and at the end of an output.
const ENDS: usize = 3;
/// So many lines of a change are shown at its beginning and at its end.
const CHANGE_ENDS: usize = 20;
/// So many rows of a command are shown.
const KEY_ROWS: usize = 6;
/// What belongs to a call stands so far in.
const INDENT: usize = 2;

/// A call as it is shown.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// What stands for its input; a path is relative to the working directory.
    pub key: &'a str,
    /// What kind of thing that is.
    pub kind: Option<&'a DisplayKey>,
}

/// Where rows go.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// How many columns there are.
    pub width: usize,
    /// How many agents are above the one that calls: their calls stand further in.
    pub depth: usize,
}

/// What came of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallOutcome<'a> {
    /// What the tool said.
    pub output: &'a str,
    /// What it said of its output besides.
    pub details: Option<&'a Value>,
    /// Whether it failed.
    pub is_error: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// How the rest of a long output is shown: `ah show 4 --output`. Without one it is just said that there is more.
    pub more: Option<&'a str>,
}

impl ToolCall<'_> {
    /// `bash $ cargo test`, in one row.
    fn title(&self, name: Style) -> Line {
        let mut line = Line::of(self.name, name);
        let key = self.key.trim_end();
        if !key.is_empty() {
            let sign = match self.kind {
                Some(DisplayKey::Command(_)) => " $ ",
                Some(DisplayKey::Path(_) | DisplayKey::Text(_)) | None => " ",
            };
            line.push(sign, Style::DIM);
            line.push(key, Style::PLAIN);
        }
        line
    }
}

impl Layout {
    /// For an agent that nobody called.
    pub const fn of(width: usize) -> Self {
        Self { width, depth: 0 }
    }

    fn indent(self) -> Line {
        Line::of(&"│ ".repeat(self.depth), Style::DIM)
    }

    fn room(self) -> usize {
        self.width.saturating_sub(self.depth * 2)
    }

    fn put(self, rows: &[Line]) -> Vec<Line> {
        let indent = self.indent();
        rows.iter()
            .map(|row| row.behind(&indent).cut(self.width))
            .collect()
    }
}

/// A call that runs, in one row behind `sign`: `⠋ bash $ cargo test`.
pub fn running(call: &ToolCall<'_>, sign: &str, layout: Layout) -> Line {
    let mut line = Line::of(sign, Style::of(Ink::Accent, Effects::new()));
    line.push(" ", Style::PLAIN);
    line.append(&call.title(Style::BOLD));
    line.behind(&layout.indent()).cut(layout.width)
}

/// A call that has ended: what it was and how long it took, and below it what it changed, or the two ends of what it
/// said.
pub fn ended(call: &ToolCall<'_>, outcome: &CallOutcome<'_>, layout: Layout) -> Vec<Line> {
    let room = layout.room();
    let details = outcome.details.filter(|_| !outcome.is_error);
    let changes = details.map_or(Changes::None, Changes::of);
    let mut rows = head(call, outcome, &changes, room);
    let indent = Line::of(&" ".repeat(INDENT), Style::PLAIN);
    let below = room.saturating_sub(INDENT);
    let body = match changes {
        Changes::Patch(hunks) => ends(diff::rows(&hunks, below), CHANGE_ENDS, None),
        Changes::Created(content) => ends(created(content, below), CHANGE_ENDS, None),
        Changes::Tasks(tasks) => tasks
            .iter()
            .flat_map(|task| task_rows(task, below))
            .collect(),
        Changes::None => output(outcome, below),
    };
    rows.extend(body.iter().map(|row| row.behind(&indent)));
    layout.put(&rows)
}

/// All that a call has changed, if the details of its result tell of a change: lines of files, or a list of tasks.
pub fn changes(details: &Value, width: usize) -> Option<Vec<Line>> {
    match Changes::of(details) {
        Changes::None => None,
        Changes::Patch(hunks) => Some(diff::rows(&hunks, width)),
        Changes::Created(content) => Some(created(content, width)),
        Changes::Tasks(tasks) => Some(
            tasks
                .iter()
                .flat_map(|task| task_rows(task, width))
                .collect(),
        ),
    }
}

/// What a model has thought: its first line, and how many follow. All of it if `is_open`.
pub fn thinking(text: &str, is_open: bool, layout: Layout) -> Vec<Line> {
    let style = Style::DIM.with(Effects::ITALIC);
    let (first, rest) = (Line::of("∴ ", Style::DIM), Line::of("  ", Style::DIM));
    let lines: Vec<&str> = text
        .trim()
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut rows = Vec::new();
    if is_open {
        for line in &lines {
            let prefix = if rows.is_empty() { &first } else { &rest };
            rows.extend(crate::wrap(
                &Line::of(line, style),
                layout.room(),
                prefix,
                &rest,
            ));
        }
    } else if let Some(line) = lines.first() {
        let more = match lines.len() - 1 {
            0 => String::new(),
            1 => " (1 more line)".to_owned(),
            more => format!(" ({more} more lines)"),
        };
        let room = layout.room().saturating_sub(2 + more.chars().count());
        let mut row = Line::of(line, style).cut(room).behind(&first);
        row.push(&more, Style::DIM);
        rows.push(row);
    }
    layout.put(&rows)
}

/// A duration for people: `1.2s`, `2m05s`.
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..60_000 => format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds / 1000 % 60),
    }
}

/// What the details say of a change.
enum Changes<'a> {
    None,
    Patch(Vec<diff::Hunk>),
    /// A file that was not there.
    Created(&'a str),
    Tasks(&'a [Value]),
}

impl<'a> Changes<'a> {
    fn of(details: &'a Value) -> Self {
        if let Some(tasks) = details.get("newTodos").and_then(Value::as_array) {
            return Self::Tasks(tasks);
        }
        let Some(patch) = details.get("structuredPatch") else {
            return Self::None;
        };
        match (diff::hunks(patch), details.get("content")) {
            (Some(hunks), _) if !hunks.is_empty() => Self::Patch(hunks),
            (_, Some(Value::String(content)))
                if details.get("type").is_some_and(|t| t == "create") =>
            {
                Self::Created(content)
            }
            _ => Self::None,
        }
    }

    /// `+3 -1`
    fn counts(&self) -> Option<(usize, usize)> {
        match self {
            Self::Patch(hunks) => Some(diff::counts(hunks)),
            Self::Created(content) => Some((content.lines().count(), 0)),
            Self::None | Self::Tasks(_) => None,
        }
    }
}

/// The first rows: sign, name, time, and the key, in one row if that is enough.
fn head(
    call: &ToolCall<'_>,
    outcome: &CallOutcome<'_>,
    changes: &Changes<'_>,
    room: usize,
) -> Vec<Line> {
    let mut line = match outcome.is_error {
        true => Line::of("✗ ", Style::WARNING),
        false => Line::of("✓ ", Style::of(Ink::Accent, Effects::new())),
    };
    let mut after = Line::default();
    if let Some((added, removed)) = changes.counts() {
        after.push(&format!(" +{added}"), Style::of(Ink::Added, Effects::new()));
        after.push(
            &format!(" -{removed}"),
            Style::of(Ink::Removed, Effects::new()),
        );
    }
    after.push(&format!(" ({})", duration(outcome.duration_ms)), Style::DIM);
    let name = if outcome.is_error {
        Style::WARNING
    } else {
        Style::BOLD
    };
    let is_short = !call.key.trim_end().contains('\n');
    let title = call.title(name);
    if is_short && 2 + title.width() + after.width() <= room {
        line.append(&title);
        line.append(&after);
        return vec![line];
    }
    line.push(call.name, name);
    line.append(&after);
    let mut rows = vec![line];
    let indent = Line::of("    ", Style::PLAIN);
    let sign = match call.kind {
        Some(DisplayKey::Command(_)) => "  $ ",
        Some(DisplayKey::Path(_) | DisplayKey::Text(_)) | None => "    ",
    };
    let mut first = Line::of(sign, Style::DIM);
    let mut keys = Vec::new();
    for line in call.key.trim_end().lines() {
        keys.extend(crate::wrap(
            &Line::of(line, Style::PLAIN),
            room,
            &first,
            &indent,
        ));
        first = indent.clone();
    }
    if keys.len() > KEY_ROWS {
        let more = keys.len() - KEY_ROWS;
        keys.truncate(KEY_ROWS);
        keys.push(Line::of(&format!("    … {}", count(more)), Style::DIM));
    }
    rows.extend(keys);
    rows
}

/// `1 more line`
fn count(more: usize) -> String {
    match more {
        1 => "1 more line".to_owned(),
        more => format!("{more} more lines"),
    }
}

/// The two ends of an output. A line is one row, however long it is.
fn output(outcome: &CallOutcome<'_>, room: usize) -> Vec<Line> {
    let lines: Vec<&str> = outcome
        .output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let row = |line: &&str| {
        // A row's worth is looked at, and not a line of megabytes.
        let end = line
            .char_indices()
            .nth(room * 4 + 4)
            .map_or(line.len(), |(at, _)| at);
        Line::of(&line[..end], Style::DIM).cut(room)
    };
    // One line more is no longer than the row that says so.
    if lines.len() <= 2 * ENDS + 1 {
        return lines.iter().map(row).collect();
    }
    let mut rows: Vec<Line> = lines[..ENDS].iter().map(row).collect();
    rows.push(left_out(lines.len() - 2 * ENDS, outcome.more));
    rows.extend(lines[lines.len() - ENDS..].iter().map(row));
    rows
}

fn ends(mut rows: Vec<Line>, ends: usize, more: Option<&str>) -> Vec<Line> {
    if rows.len() <= 2 * ends + 1 {
        return rows;
    }
    let hidden = rows.len() - 2 * ends;
    rows.splice(ends..ends + hidden, [left_out(hidden, more)]);
    rows
}

fn left_out(lines: usize, more: Option<&str>) -> Line {
    let how = more.map(|more| format!(": {more}")).unwrap_or_default();
    Line::of(&format!("… {}{how}", count(lines)), Style::DIM)
}

/// A new file, all of whose lines were added.
fn created(content: &str, room: usize) -> Vec<Line> {
    let digits = content.lines().count().to_string().len();
    let style = Style::of(Ink::Added, Effects::new());
    let lines = content.lines().enumerate();
    let rows = lines.flat_map(|(index, text)| {
        let mut first = Line::of(&format!("{:>digits$} ", index + 1), Style::DIM);
        first.push("+ ", style);
        let mut rest = Line::of(&format!("{:>digits$} ", ""), Style::DIM);
        rest.push("+ ", style);
        wrap_hard(&Line::of(text, style), room, &first, &rest)
    });
    rows.collect()
}

/// `☒ done`, `▶ being done`, `☐ to be done`
fn task_rows(task: &Value, room: usize) -> Vec<Line> {
    let text = |name: &str| task.get(name).and_then(Value::as_str);
    let content = text("content").unwrap_or("");
    let (sign, words, style) = match text("status") {
        Some("completed") => ("☒ ", content, Style::DIM.with(Effects::STRIKETHROUGH)),
        Some("in_progress") => ("▶ ", text("activeForm").unwrap_or(content), Style::BOLD),
        _ => ("☐ ", content, Style::PLAIN),
    };
    let rest = Line::of("  ", Style::PLAIN);
    let sign = Line::of(sign, Style::of(Ink::Accent, Effects::new()));
    crate::wrap(&Line::of(words, style), room, &sign, &rest)
}

#[cfg(test)]
mod tests;
