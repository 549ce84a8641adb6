//! The line at the bottom as a command of the user's makes it: what it is told of the session, and what is shown of what
//! it says. The fields are those that status lines of other agents read, so that a script for one serves here.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ah_conversation::{ContentBlock, EventKind, Message, Usage};
use ah_render::diff;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use unicode_width::UnicodeWidthChar as _;

use super::app::{App, Effect, Input};
use super::bang;
use crate::print::neutralise;
use ah_config::Config;
use ah_config::settings::conversation::StatusLine;

/// So long more news may take that belongs to what has come.
const PAUSE: Duration = Duration::from_millis(300);
/// So long the command may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// So many of its lines are shown.
const LINES: usize = 3;
/// The window beyond which the other agents' field says that it is exceeded.
const LARGE: u64 = 200_000;

/// What is told of a session besides its model and mode.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Its id, as hooks are told it.
    pub session_id: String,
    /// Where its conversation is mirrored.
    pub transcript_path: Option<PathBuf>,
    /// Where it works.
    pub cwd: PathBuf,
    /// The top of the project.
    pub project: PathBuf,
    /// Working directories besides the first.
    pub added: Vec<PathBuf>,
    /// What it has taken, and changed.
    pub sums: Sums,
}

/// What a session has taken, and changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    usage: Usage,
    last: Usage,
    cost: f64,
    api_ms: u64,
    lines: (usize, usize),
}

impl Sums {
    /// Counts what these messages took and changed.
    pub fn count<'a>(&mut self, messages: impl Iterator<Item = &'a Message>) {
        for message in messages {
            if let Some(response) = &message.response {
                let cost = response.cost.map_or(0.0, |cost| cost.usd());
                self.add(response.usage, cost, response.latency_ms);
            }
            for block in &message.content {
                let ContentBlock::ToolResult(result) = block else {
                    continue;
                };
                let patch = { result.details.as_ref() }
                    .and_then(|details| diff::hunks(details.get("structuredPatch")?));
                let (added, removed) = diff::counts(&patch.unwrap_or_default());
                self.lines = (self.lines.0 + added, self.lines.1 + removed);
            }
        }
    }

    fn add(&mut self, usage: Usage, cost: f64, api_ms: u64) {
        self.usage += usage;
        self.last = usage;
        self.cost += cost;
        self.api_ms += api_ms;
    }

    /// Takes in what a run does.
    pub fn take(&mut self, kind: &EventKind) {
        if let EventKind::ApiCallEnd {
            input_tokens,
            output_tokens,
            cache_creation_input_tokens,
            cache_read_input_tokens,
            api_latency_ms,
            cost_usd,
            ..
        } = kind
        {
            let usage = Usage {
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                cache_creation_input_tokens: *cache_creation_input_tokens,
                cache_read_input_tokens: *cache_read_input_tokens,
                ..Usage::default()
            };
            self.add(usage, cost_usd.unwrap_or_default(), *api_latency_ms);
        }
    }
}

/// Whether a status line has to be made anew after this.
pub fn is_news(input: &Input) -> bool {
    match input {
        Input::Opened(_) | Input::Model(_) => true,
        Input::Event(kind) => matches!(**kind, EventKind::ApiCallEnd { .. }),
        _ => false,
    }
}

/// Has the line made anew, where there is a command that makes it.
pub fn news(app: &App) -> Option<Effect> {
    let session = app.session.as_ref()?;
    session.facts.is_some().then_some(Effect::Status)
}

/// What the command reads; `None` where there is no command or no session.
pub fn told(app: &App, now: Instant) -> Option<Value> {
    let session = app.session.as_ref()?;
    let facts = session.facts.as_ref()?;
    let sums = &facts.sums;
    let window = session.model.context_window;
    let used = sums.last.effective_input();
    let percent = (used * 100)
        .checked_div(window)
        .unwrap_or_default()
        .min(100);
    let begun = app.begun.unwrap_or(now);
    let mut told = json!({
        "hook_event_name": "Status",
        "session_id": facts.session_id,
        "transcript_path": facts.transcript_path,
        "cwd": facts.cwd,
        "permission_mode": session.mode.as_str(),
        "version": env!("CARGO_PKG_VERSION"),
        "model": {"id": session.model.name, "display_name": session.model.name},
        "workspace": {"current_dir": facts.cwd, "project_dir": facts.project, "added_dirs": facts.added},
        "output_style": {"name": "default"},
        "cost": {
            "total_cost_usd": sums.cost,
            "total_duration_ms": u64::try_from(now.saturating_duration_since(begun).as_millis()).unwrap_or(u64::MAX),
            "total_api_duration_ms": sums.api_ms,
            "total_lines_added": sums.lines.0,
            "total_lines_removed": sums.lines.1,
        },
        "context_window": {
            "total_input_tokens": sums.usage.effective_input(),
            "total_output_tokens": sums.usage.output_tokens,
            "context_window_size": window,
            "used_percentage": percent,
            "remaining_percentage": 100 - percent,
            "current_usage": {
                "input_tokens": sums.last.input_tokens,
                "output_tokens": sums.last.output_tokens,
                "cache_creation_input_tokens": sums.last.cache_creation_input_tokens,
                "cache_read_input_tokens": sums.last.cache_read_input_tokens,
            },
        },
        "exceeds_200k_tokens": sums.last.total() > LARGE,
    });
    if let Some(mode) = app.editor.vi_mode() {
        told["vim"] = json!({"mode": mode});
    }
    Some(told)
}

/// Has the line made whenever there is news, as long as somebody has any to tell. Nobody waits for it.
pub async fn keep(
    line: StatusLine,
    config: Config,
    mut news: Receiver<Value>,
    inputs: Sender<Input>,
) {
    loop {
        let has_changed = match line.refresh_interval.map(Duration::from_secs) {
            Some(every) if !every.is_zero() => {
                let changed = tokio::time::timeout(every, news.changed()).await;
                changed.unwrap_or(Ok(()))
            }
            _ => news.changed().await,
        };
        if has_changed.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        let told = news.borrow_and_update().to_string();
        let said = bang::tell(&line.command, told, &config, DEADLINE).await;
        let said = said.unwrap_or_else(|fault| format!("the status line's command: {fault}"));
        if inputs.send(Input::Status(said)).is_err() {
            return;
        }
    }
}

/// The first lines of what a command has said, each within so many columns. Of what steers a terminal only colours are
/// left, where there are to be any; the rest is shown and not obeyed.
pub fn rows(said: &str, padding: usize, columns: usize, colours: bool) -> Vec<String> {
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    { lines.take(LINES) }
        .map(|line| row(line, padding, columns, colours))
        .collect()
}

fn row(line: &str, padding: usize, columns: usize, colours: bool) -> String {
    let mut row = " ".repeat(padding.min(columns));
    let mut left = columns.saturating_sub(padding);
    let mut has_colour = false;
    let mut rest = line;
    while !rest.is_empty() {
        if let Some(length) = colour(rest) {
            if colours {
                row.push_str(&rest[..length]);
                has_colour = true;
            }
            rest = &rest[length..];
            continue;
        }
        let mut after = rest.char_indices().skip(1);
        let end = after
            .find(|(_, c)| *c == '\x1b')
            .map_or(rest.len(), |(at, _)| at);
        for c in neutralise(&rest[..end]).replace('\t', " ").chars() {
            let wide = c.width().unwrap_or(0);
            if wide > left {
                left = 0;
                break;
            }
            left -= wide;
            row.push(c);
        }
        rest = &rest[end..];
    }
    if has_colour {
        row.push_str("\x1b[0m");
    }
    row
}

/// The length of the sequence at the beginning of `text` that says a colour, or another look of letters.
fn colour(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[")?;
    let digits = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ';' | ':')))?;
    rest[digits..].starts_with('m').then_some(digits + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_steers_a_terminal_only_colours_are_left() {
        for (said, plain, coloured) in [
            ("a b\n\nc", &["a b", "c"] as &[_], &["a b", "c"] as &[_]),
            (
                "\x1b[1;32mgo\x1b[0m on",
                &["go on"],
                &["\x1b[1;32mgo\x1b[0m on\x1b[0m"],
            ),
            ("\x1b[2Jx\x1b]0;t\x07", &["␛[2Jx␛]0;t␇"], &["␛[2Jx␛]0;t␇"]),
            ("日本語日本語日", &["日本語日本語"], &["日本語日本語"]),
            ("\x1b", &["␛"], &["␛"]),
            ("1\n2\n3\n4", &["1", "2", "3"], &["1", "2", "3"]),
        ] {
            assert_eq!(rows(said, 0, 13, false), plain, "{said:?}");
            assert_eq!(rows(said, 0, 13, true), coloured, "{said:?}");
        }
        assert_eq!(rows("abcdef", 2, 6, true), ["  abcd"]);
    }
}
