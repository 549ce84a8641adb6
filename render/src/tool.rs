//! Tool calls, while they run and after they have ended.
//!
//! A call is shown by the display key of its tool, its result by the shape of the details: `structuredPatch` is a change of
//! a file, `newTodos` a task list, whatever the name of the tool.

use ah_conversation::{DisplayKey, lines_between};
use anstyle::Effects;
use serde_json::Value;

use crate::{Ink, Line, Markdown, Style, diff, wrap_hard};

/// Lines shown at the start and at the end of an output.
const OUTPUT_ENDS: usize = 2;
/// Lines shown at the end of the output of a failed call.
const FAILED_END: usize = 3;
/// Largest number of lines shown of those that tell why a call has failed, besides the end of its output.
const TELLING: usize = 4;
/// Lines shown at the start and at the end of a change.
const CHANGE_ENDS: usize = 20;
/// Limit of rows of a command.
const KEY_ROWS: usize = 6;
/// Indentation of the rows below a call.
const INDENT: usize = 2;

/// A tool call to be shown.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// Name of the tool.
    pub name: &'a str,
    /// Display form of its input; a path is relative to the working directory.
    pub key: &'a str,
    /// Kind of the key.
    pub kind: Option<&'a DisplayKey>,
}

/// Width and indentation of rows.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Width in columns.
    pub width: usize,
    /// Nesting depth of the calling agent, 0 for the main one.
    pub depth: usize,
}

/// Result of a tool call to be shown.
#[derive(Debug, Clone, Copy)]
pub struct CallOutcome<'a> {
    /// Output of the tool.
    pub output: &'a str,
    /// Number of lines of all of the output, if `output` is only a part of it.
    pub lines: Option<u64>,
    /// Structured details of the result.
    pub details: Option<&'a Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Command that shows the whole of a long output, such as `ah show 4 --output`.
    pub more: Option<&'a str>,
}

impl ToolCall<'_> {
    /// One row such as `bash $ cargo test`.
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
    /// The layout of the main agent.
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

/// Returns a running call in one row after `sign`: `⠋ bash $ cargo test`.
pub fn running(call: &ToolCall<'_>, sign: &str, layout: Layout) -> Line {
    let mut line = Line::of(sign, Style::of(Ink::Accent, Effects::new()));
    line.push(" ", Style::PLAIN);
    line.append(&call.title(Style::BOLD));
    line.behind(&layout.indent()).cut(layout.width)
}

/// Returns an ended call: its title and duration, and below them its changes, or the start and the end of its output.
pub fn ended(call: &ToolCall<'_>, outcome: &CallOutcome<'_>, layout: Layout) -> Vec<Line> {
    let room = layout.room();
    let details = outcome.details.filter(|_| !outcome.is_error);
    let changes = details.map_or(Changes::None, Changes::of);
    let mut rows = head(call, outcome, &changes, room);
    let indent = Line::of(&" ".repeat(INDENT), Style::PLAIN);
    let below = room.saturating_sub(INDENT);
    let body = match changes {
        Changes::Patch(hunks, language) => {
            ends(diff::rows(&hunks, language, below), CHANGE_ENDS, None)
        }
        Changes::Created(content) => ends(created(content, below), CHANGE_ENDS, None),
        Changes::Tasks(tasks) => tasks
            .iter()
            .flat_map(|task| task_rows(task, below))
            .collect(),
        Changes::None if is_report(outcome) => {
            let output = &laid_out(outcome.output, below);
            // What is counted are these rows, not the lines that they were made of.
            let (lines, rows) = (None, "row");
            output_rows(
                &CallOutcome {
                    output,
                    lines,
                    ..*outcome
                },
                below,
                rows,
            )
        }
        Changes::None => output_rows(outcome, below, "line"),
    };
    rows.extend(body.iter().map(|row| row.behind(&indent)));
    layout.put(&rows)
}

/// Returns the title of an ended call alone, whose change has been seen.
pub fn title(call: &ToolCall<'_>, outcome: &CallOutcome<'_>, layout: Layout) -> Vec<Line> {
    let changes = outcome.details.map_or(Changes::None, Changes::of);
    layout.put(&head(call, outcome, &changes, layout.room()))
}

/// Returns the lines of a failed call's output that tell why, as [`ended`] has them; `lines` is the number of all, if `output` is
/// only a part.
pub fn failed(output: &str, lines: Option<u64>, width: usize) -> Vec<Line> {
    let outcome = CallOutcome {
        output,
        lines,
        details: None,
        is_error: true,
        duration_ms: 0,
        more: None,
    };
    output_rows(&outcome, width, "line")
}

/// Returns all changes in the details of a result, to a file or a task list; `None` if there are none.
pub fn changes(details: &Value, width: usize) -> Option<Vec<Line>> {
    match Changes::of(details) {
        Changes::None => None,
        Changes::Patch(hunks, language) => Some(diff::rows(&hunks, language, width)),
        Changes::Created(content) => Some(created(content, width)),
        Changes::Tasks(tasks) => Some(
            tasks
                .iter()
                .flat_map(|task| task_rows(task, width))
                .collect(),
        ),
    }
}

/// Returns the items of a task list in the details of a result, each in one row; `None` if there is none.
pub fn tasks(details: &Value) -> Option<Vec<Line>> {
    match Changes::of(details) {
        Changes::Tasks(tasks) => {
            let rows = tasks.iter().map(|task| task_rows(task, usize::MAX));
            Some(rows.flatten().collect())
        }
        Changes::None | Changes::Patch(..) | Changes::Created(_) => None,
    }
}

/// Returns the thinking of a model: its first line and the number of further lines, or all lines if `is_open`.
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

/// Returns a duration for people: `1.2s`, `2m05s`.
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..60_000 => format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds / 1000 % 60),
    }
}

/// Changes in the details of a result.
enum Changes<'a> {
    None,
    /// Hunks, and the ending of the file.
    Patch(Vec<diff::Hunk>, &'a str),
    /// The content of a new file.
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
            (Some(hunks), _) if !hunks.is_empty() => Self::Patch(hunks, ending(details)),
            (_, Some(Value::String(content)))
                if details.get("type").is_some_and(|t| t == "create") =>
            {
                Self::Created(content)
            }
            _ => Self::None,
        }
    }

    /// The numbers of added and removed lines.
    fn counts(&self) -> Option<(usize, usize)> {
        match self {
            Self::Patch(hunks, _) => Some(diff::counts(hunks)),
            Self::Created(content) => Some((content.lines().count(), 0)),
            Self::None | Self::Tasks(_) => None,
        }
    }
}

/// Returns the ending of the file that was changed.
fn ending(details: &Value) -> &str {
    let path = details.get("filePath").and_then(Value::as_str);
    path.map_or("", diff::ending)
}

/// The first rows: sign, name, duration and key, in one row if they fit.
fn head(
    call: &ToolCall<'_>,
    outcome: &CallOutcome<'_>,
    changes: &Changes<'_>,
    room: usize,
) -> Vec<Line> {
    let mut line = if outcome.is_error {
        Line::of("✗ ", Style::FAILED)
    } else {
        Line::of("✓ ", Style::DONE)
    };
    let mut after = Line::default();
    if let Some((added, removed)) = changes.counts() {
        after.push(&format!(" +{added}"), Style::of(Ink::Added, Effects::new()));
        after.push(
            &format!(" -{removed}"),
            Style::of(Ink::Removed, Effects::new()),
        );
    }
    after.push(&effort(outcome), Style::DIM);
    after.push(&format!(" ({})", duration(outcome.duration_ms)), Style::DIM);
    let name = if outcome.is_error {
        Style::FAILED
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
        keys.push(Line::of(
            &format!("    ... {}", count(more as u64, "line")),
            Style::DIM,
        ));
    }
    rows.extend(keys);
    rows
}

/// Says how much a subagent has done: ` · 3 calls · 13.4k tokens`; empty for other calls.
fn effort(outcome: &CallOutcome<'_>) -> String {
    let number = |name| outcome.details?.get(name)?.as_u64();
    let (Some(calls), Some(tokens)) = (number("totalToolUseCount"), number("totalTokens")) else {
        return String::new();
    };
    let calls = match calls {
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    };
    let tokens = match tokens {
        0..1_000 => tokens.to_string(),
        _ => format!("{}.{}k", tokens / 1_000, tokens / 100 % 10),
    };
    format!(" · {calls} · {tokens} tokens")
}

/// Whether the output is what a subagent has written, in Markdown.
fn is_report(outcome: &CallOutcome<'_>) -> bool {
    !outcome.is_error && !effort(outcome).is_empty()
}

/// Returns Markdown as rows of plain text.
fn laid_out(markdown: &str, width: usize) -> String {
    let mut writer = Markdown::new(width.max(1));
    let mut rows = writer.feed(markdown);
    rows.extend(writer.finish());
    let rows: Vec<_> = rows.iter().map(Line::text).collect();
    rows.join("\n")
}

/// `1 more line`
fn count(more: u64, unit: &str) -> String {
    match more {
        1 => format!("1 more {unit}"),
        more => format!("{more} more {unit}s"),
    }
}

/// The start and the end of an output. A long line is truncated to one row.
fn output_rows(outcome: &CallOutcome<'_>, room: usize, unit: &str) -> Vec<Line> {
    let all: Vec<&str> = outcome.output.lines().collect();
    let is_blank = |at: &usize| all[*at].trim().is_empty();
    let shown: Vec<usize> = (0..all.len()).filter(|at| !is_blank(at)).collect();
    let row = |at: &usize| {
        let line = all[*at];
        // Only the start of the line, which may have megabytes, is processed.
        let end = line
            .char_indices()
            .nth(room * 4 + 4)
            .map_or(line.len(), |(at, _)| at);
        Line::of(&line[..end], Style::DIM).cut(room)
    };
    // A single hidden line takes no more room than the row about it.
    if shown.len() <= 2 * OUTPUT_ENDS + 1 {
        return shown.iter().map(row).collect();
    }
    if outcome.is_error {
        return telling_rows(&all, &shown, outcome, row);
    }
    let (head, rest) = shown.split_at(OUTPUT_ENDS);
    let tail = &rest[rest.len() - OUTPUT_ENDS..];
    let (head_lines, tail_lines) = (head[OUTPUT_ENDS - 1] + 1, all.len() - tail[0]);
    let hidden = lines_between(outcome.output, outcome.lines, head_lines, tail_lines);
    let mut rows: Vec<Line> = head.iter().map(row).collect();
    rows.push(left_out(hidden, unit, outcome.more));
    rows.extend(tail.iter().map(row));
    rows
}

/// The lines of a failed call's output that tell why, and its end. A test runner says it somewhere in the middle.
fn telling_rows(
    all: &[&str],
    shown: &[usize],
    outcome: &CallOutcome<'_>,
    row: impl Fn(&usize) -> Line,
) -> Vec<Line> {
    let (before, end) = shown.split_at(shown.len().saturating_sub(FAILED_END));
    let telling = before.iter().filter(|at| tells_why(all[**at]));
    let mut chosen: Vec<usize> = telling.take(TELLING).copied().collect();
    if chosen.is_empty() {
        chosen.extend(before.iter().take(OUTPUT_ENDS));
    }
    chosen.extend(end);
    // Lines that the model was not shown are missing somewhere; they count once, before the end.
    let cut_off = outcome.lines.unwrap_or(0).saturating_sub(all.len() as u64);
    let mut rows = Vec::new();
    let mut next = 0;
    for at in &chosen {
        let is_text = |at: &usize| !all[*at].trim().is_empty();
        let mut hidden = (next..*at).filter(is_text).count() as u64;
        if end.first() == Some(at) {
            hidden += cut_off;
        }
        if hidden > 0 {
            let more = outcome.more.filter(|_| end.first() == Some(at));
            rows.push(left_out(hidden, "line", more));
        }
        rows.push(row(at));
        next = *at + 1;
    }
    rows
}

/// Returns whether a line of an output probably says why a command has failed.
fn tells_why(line: &str) -> bool {
    const WORDS: [&str; 9] = [
        "error",
        "fail",
        "panicked",
        "exception",
        "assert",
        "fatal",
        "not found",
        "no such",
        "denied",
    ];
    // Only the start of the line, which may have megabytes.
    let start: String = line.chars().take(200).collect();
    let start = start.to_lowercase();
    let counts_none = ["0 failed", "0 errors", "no errors"];
    WORDS.iter().any(|word| start.contains(word))
        && !counts_none.iter().any(|none| start.contains(none))
}

fn ends(mut rows: Vec<Line>, ends: usize, more: Option<&str>) -> Vec<Line> {
    if rows.len() <= 2 * ends + 1 {
        return rows;
    }
    let hidden = rows.len() - 2 * ends;
    rows.splice(ends..ends + hidden, [left_out(hidden as u64, "line", more)]);
    rows
}

fn left_out(number: u64, unit: &str, more: Option<&str>) -> Line {
    let how = more.map(|more| format!(": {more}")).unwrap_or_default();
    Line::of(&format!("... {}{how}", count(number, unit)), Style::DIM)
}

/// The rows of a new file.
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

/// The rows of a task: `✓` completed, `▶` in progress, `☐` pending.
fn task_rows(task: &Value, room: usize) -> Vec<Line> {
    let text = |name: &str| task.get(name).and_then(Value::as_str);
    let content = text("content").unwrap_or("");
    let accent = Style::of(Ink::Accent, Effects::new());
    let (sign, words, style) = match text("status") {
        Some("completed") => {
            let struck = Style::DIM.with(Effects::STRIKETHROUGH);
            (Line::of("✓ ", Style::DONE), content, struck)
        }
        Some("in_progress") => {
            let form = text("activeForm").unwrap_or(content);
            (Line::of("▶ ", accent), form, Style::BOLD)
        }
        _ => (Line::of("☐ ", accent), content, Style::PLAIN),
    };
    let rest = Line::of("  ", Style::PLAIN);
    crate::wrap(&Line::of(words, style), room, &sign, &rest)
}

#[cfg(test)]
mod tests;
