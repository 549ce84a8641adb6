//! Converts requests to readable text that is the same in every run, for recordings.
//!
//! Dates, times, durations, ids and hashes are replaced by placeholders, and so are secrets and the paths that the caller
//! names. The text has the system prompt, the names of the tools, and the messages after the model's last answer; earlier
//! messages are in the text of earlier requests.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{ContentBlock, Environment, Image, Message, Request, ResultBlock};

use super::new_messages::{self, new_messages};
use super::recorded::RecordedRequest;

/// Prefixes of lines of the system prompt that differ between machines and runs.
const VARIABLE_LINES: [&str; 5] = [
    "Date: ",
    "Working directory: ",
    "Git branch: ",
    "Git commit: ",
    "Git remote: ",
];

/// Replaces values that do not belong in a recording or differ between machines.
#[derive(Clone)]
pub struct Normalizer {
    /// Replaces the values of secrets in a text.
    pub redact: Arc<dyn Fn(&str) -> String + Send + Sync>,
    /// Paths and their placeholders, the longest path first.
    pub paths: Vec<(String, &'static str)>,
}

impl Default for Normalizer {
    /// Returns a normalizer that replaces no secrets and no paths.
    fn default() -> Self {
        Self {
            redact: Arc::new(str::to_owned),
            paths: Vec::new(),
        }
    }
}

impl fmt::Debug for Normalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Normalizer")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Normalizer {
    /// A normalizer for the secrets, the working directory and the home directory of `environment`.
    pub fn of(environment: &Environment) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut paths = vec![(text(environment.cwd()), "<cwd>")];
        paths.extend(environment.home().map(|home| (text(&home), "<home>")));
        paths.sort_by_key(|(path, _)| Reverse(path.len()));
        let environment = environment.clone();
        Self {
            redact: Arc::new(move |text| environment.redact(text).into_owned()),
            paths,
        }
    }

    /// Returns `request` in readable form.
    pub fn request(&self, request: &Request) -> RecordedRequest {
        let names: Vec<_> = request.all_tools().map(|tool| tool.name.as_str()).collect();
        RecordedRequest {
            system: Some(self.system(&request.system)),
            tools: Some(names.join(" ")),
            messages: self.messages(request),
        }
    }

    fn system(&self, parts: &[String]) -> String {
        let whole = parts.join("\n\n");
        let lines: Vec<_> = whole
            .lines()
            .filter(|line| !VARIABLE_LINES.iter().any(|label| line.starts_with(label)))
            .collect();
        self.text(&lines.join("\n"))
    }

    fn messages(&self, request: &Request) -> String {
        let mut shown = format!("messages: {}\n", new_messages::count(request));
        let told = new_messages(request).iter();
        for message in told.filter(|message| !new_messages::is_update(message)) {
            self.message(&mut shown, message);
        }
        shown
    }

    fn message(&self, shown: &mut String, message: &Message) {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } => self.entry(shown, "user", text),
                ContentBlock::Image(image) => push_image(shown, image),
                ContentBlock::ToolResult(result) => {
                    let outcome = if result.is_error { "error" } else { "ok" };
                    let label = format!("tool_result {} {outcome}", result.tool_name);
                    self.entry(shown, &label, &result.text());
                    for piece in &result.content {
                        if let ResultBlock::Image(image) = piece {
                            push_image(shown, image);
                        }
                    }
                }
                ContentBlock::Thinking { .. }
                | ContentBlock::RedactedThinking { .. }
                | ContentBlock::ToolUse(_)
                | ContentBlock::Other { .. } => {
                    self.entry(
                        shown,
                        "block",
                        &serde_json::to_string(block).unwrap_or_default(),
                    );
                }
            }
        }
    }

    /// Writes `label: text`; text of several lines is indented below the label.
    fn entry(&self, shown: &mut String, label: &str, text: &str) {
        let text = self.text(text);
        let text = text.trim_end();
        if text.contains('\n') {
            let _ = writeln!(shown, "{label}:");
            for line in text.lines() {
                let _ = writeln!(shown, "{}", format!("  {line}").trim_end());
            }
        } else {
            let _ = writeln!(shown, "{}", format!("{label}: {text}").trim_end());
        }
    }

    /// `text` with placeholders for secrets, paths and variable values.
    fn text(&self, text: &str) -> String {
        let mut text = (self.redact)(text);
        for (path, name) in &self.paths {
            if !path.is_empty() && path != "/" {
                text = text.replace(path.as_str(), name);
            }
        }
        variable_values(&text)
    }
}

fn push_image(shown: &mut String, image: &Image) {
    let _ = writeln!(
        shown,
        "image: {}, {} bytes in base64",
        image.media_type,
        image.data.len()
    );
}

/// `text` with placeholders for dates, times, durations, ids and hashes.
fn variable_values(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (gap, from) = rest.split_at(start);
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        normal.push_str(gap);
        let bare = word.trim_end_matches(['.', ':', '-']);
        normal.push_str(&placeholder(bare, after));
        normal.push_str(&word[bare.len()..]);
        rest = after;
    }
    normal.push_str(rest);
    normal
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | ':' | '.' | '_' | '+')
}

/// The placeholder for `word`, which is followed by `after`, or `word` itself.
fn placeholder<'a>(word: &'a str, after: &str) -> Cow<'a, str> {
    // A file that is called by an id.
    if let Some((name, extension)) = word.split_once('.')
        && is_id(name)
    {
        return Cow::Owned(format!("<id>.{extension}"));
    }
    let placeholder = if matches_pattern(word, "####-##-##") || is_date_time(word) {
        "<date>"
    } else if matches_pattern(word.get(..8).unwrap_or(word), "##:##:##") {
        "<time>"
    } else if is_duration(word, after) {
        "<n>"
    } else if is_id(word) {
        "<id>"
    } else if is_hash(word) {
        "<hash>"
    } else {
        return Cow::Borrowed(word);
    };
    match split_unit(word) {
        Some((_, unit)) if placeholder == "<n>" => Cow::Owned(format!("{placeholder}{unit}")),
        _ => Cow::Borrowed(placeholder),
    }
}

/// Whether `word` matches `pattern`, in which `#` is a digit.
fn matches_pattern(word: &str, pattern: &str) -> bool {
    word.len() == pattern.len()
        && word
            .bytes()
            .zip(pattern.bytes())
            .all(|(byte, form)| match form {
                b'#' => byte.is_ascii_digit(),
                _ => byte == form,
            })
}

fn is_date_time(word: &str) -> bool {
    word.get(..11)
        .is_some_and(|start| matches_pattern(start, "####-##-##T"))
}

/// Whether `word` is a number with a unit of time, either attached or in `after`.
fn is_duration(word: &str, after: &str) -> bool {
    let is_number = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    if is_number(word) {
        let next = after.strip_prefix(' ').unwrap_or_default();
        let end = next
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(next.len());
        return matches!(
            &next[..end],
            "ms" | "s" | "µs" | "ns" | "second" | "seconds" | "milliseconds"
        );
    }
    split_unit(word).is_some_and(|(number, unit)| {
        is_number(number) && matches!(unit, "ms" | "s" | "µs" | "us" | "ns")
    })
}

fn split_unit(word: &str) -> Option<(&str, &str)> {
    let at = word.find(char::is_alphabetic)?;
    Some(word.split_at(at))
}

/// Whether `word` is a ULID, a UUID, or an id of a vendor.
fn is_id(word: &str) -> bool {
    let is_ulid = word.len() == 26
        && word.starts_with(|c: char| c.is_digit(8))
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let groups: Vec<_> = word.split('-').collect();
    let is_uuid = groups.len() == 5
        && groups.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| {
            group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
    is_ulid || is_uuid || word.starts_with("toolu_") || word.starts_with("msg_")
}

/// Whether `word` looks like a commit or checksum: lower-case hexadecimal with digits and letters.
fn is_hash(word: &str) -> bool {
    (7..=64).contains(&word.len())
        && word
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_change_from_run_to_run_are_replaced() {
        for (text, normal) in [
            ("on 2026-11-20.", "on <date>."),
            ("at 2026-11-20T12:00:00.123Z, 12:34:56", "at <date>, <time>"),
            (
                "took 1.25s (12 ms); 3 seconds",
                "took <n>s (<n> ms); <n> seconds",
            ),
            ("session 01JD3QZ8N4Y5T6V7W8X9YABCDE", "session <id>"),
            ("0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "<id>"),
            (
                ".ah/01JD3QZ8N4Y5T6V7W8X9YABCDE.out/check-1.",
                ".ah/<id>.out/check-1.",
            ),
            ("call toolu_01AbC_2 of msg_9", "call <id> of <id>"),
            (
                "commit 1e05b1c, a facade, 1234567",
                "commit <hash>, a facade, 1234567",
            ),
            (
                "line 12: 5 files, v1.2.3, 3 of 4",
                "line 12: 5 files, v1.2.3, 3 of 4",
            ),
            ("ünïcode 日本 2s", "ünïcode 日本 <n>s"),
        ] {
            assert_eq!(variable_values(text), normal);
        }
    }

    #[test]
    fn secrets_and_paths_are_replaced() {
        let variables = [("HOME", "/home/me"), ("A_TOKEN", "hunter2hunter2")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let normal = Normalizer::of(&Environment::new(variables, "/home/me/work".into()));
        assert_eq!(
            normal.text("hunter2hunter2 in /home/me/work/a.rs and /home/me/.ah"),
            "[A_TOKEN] in <cwd>/a.rs and <home>/.ah"
        );
    }
}
