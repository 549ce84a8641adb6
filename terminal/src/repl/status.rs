//! The user's status line: the input of its command, and the part of its output that is shown. The fields are those
//! that status lines of other agents read, so that a script for one serves here.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use unicode_width::UnicodeWidthChar as _;

use super::bang;
use super::input::{Input, Opened};
use ah_config::Config;
use ah_config::settings::conversation as settings;
use ah_conversation::neutralise;

/// Time to collect further changes before the command runs.
const PAUSE: Duration = Duration::from_millis(300);
/// Timeout of the command.
const DEADLINE: Duration = Duration::from_secs(5);
/// Number of its lines that are shown.
const LINES: usize = 3;
/// Tokens above which `exceeds_200k_tokens` is true.
const LARGE: u64 = 200_000;

/// Text of the status line and its place.
#[derive(Debug, Default)]
pub struct StatusLine {
    /// Last output of the command.
    pub said: Option<String>,
    /// Blanks before each line.
    pub padding: usize,
}

/// Returns whether the status line has to be refreshed after this input.
pub fn is_stale_after(input: &Input) -> bool {
    matches!(input, Input::Opened(_) | Input::Model(_) | Input::Spent(_))
}

/// Returns the input of the command; `None` if no command is configured. `vi_mode` is the editor's, in vi's words.
pub fn input(
    session: &Opened,
    begun: Instant,
    vi_mode: Option<&str>,
    now: Instant,
) -> Option<Value> {
    let facts = session.facts.as_ref()?;
    let totals = &facts.totals;
    let window = session.model.context_window;
    let used = totals.last.effective_input();
    let percent = (used * 100).checked_div(window).unwrap_or(0).min(100);
    let mut input = json!({
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
            "total_cost_usd": totals.cost.usd(),
            "total_duration_ms": u64::try_from(now.saturating_duration_since(begun).as_millis()).unwrap_or(u64::MAX),
            "total_api_duration_ms": totals.api_ms,
            "total_lines_added": totals.lines.0,
            "total_lines_removed": totals.lines.1,
        },
        "context_window": {
            "total_input_tokens": totals.usage.effective_input(),
            "total_output_tokens": totals.usage.output_tokens,
            "context_window_size": window,
            "used_percentage": percent,
            "remaining_percentage": 100 - percent,
            "current_usage": {
                "input_tokens": totals.last.input_tokens,
                "output_tokens": totals.last.output_tokens,
                "cache_creation_input_tokens": totals.last.cache_creation_input_tokens,
                "cache_read_input_tokens": totals.last.cache_read_input_tokens,
            },
        },
        "exceeds_200k_tokens": totals.last.total() > LARGE,
    });
    if let Some(mode) = vi_mode {
        input["vim"] = json!({"mode": mode});
    }
    Some(input)
}

/// Runs the command after each change of its input, until the sender is dropped.
pub async fn refresh(
    line: settings::StatusLine,
    config: Config,
    mut changes: Receiver<Value>,
    inputs: Sender<Input>,
) {
    loop {
        let changed = match line.refresh_interval.map(Duration::from_secs) {
            Some(interval) if !interval.is_zero() => {
                let changed = tokio::time::timeout(interval, changes.changed()).await;
                changed.unwrap_or(Ok(()))
            }
            _ => changes.changed().await,
        };
        if changed.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        let input = changes.borrow_and_update().to_string();
        let said = bang::tell(&line.command, input, &config.environment, DEADLINE)
            .await
            .unwrap_or_else(|error| format!("status line command failed: {error}"));
        if inputs.send(Input::Status(said)).is_err() {
            return;
        }
    }
}

/// Returns the first lines of a command's output, each at most `columns` wide. Of all terminal sequences only colours
/// are kept, and only if `colours`; others are made visible.
pub fn rows(said: &str, padding: usize, columns: usize, colours: bool) -> Vec<String> {
    said.lines()
        .filter(|line| !line.trim().is_empty())
        .take(LINES)
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

/// Returns the length of the colour or style sequence at the beginning of `text`.
fn colour(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[")?;
    let digits = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ';' | ':')))?;
    rest[digits..].starts_with('m').then_some(digits + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_of_terminal_sequences_are_kept() {
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
