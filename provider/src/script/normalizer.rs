//! A request in words that stay the same from run to run, to be written into a recording and compared with one.
//!
//! Dates, times, durations, ids and hashes give way to placeholders; so do the places that the caller names, and
//! secrets. Shown are the system prompt, the names of the tools, and the messages after the model's last answer: what
//! came before was shown with the request before.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{ContentBlock, Environment, Image, Message, Request, ResultBlock};

use super::new_messages::new_messages;
use super::recorded::RecordedRequest;

/// Lines of the system prompt that tell of this machine and this moment only.
const PASSING: [&str; 5] = [
    "Date: ",
    "Working directory: ",
    "Git branch: ",
    "Git commit: ",
    "Git remote: ",
];

/// What must not stand in a recording, or differs between machines.
#[derive(Clone)]
pub struct Normalizer {
    /// Replaces the values of secrets in a text.
    pub redact: Arc<dyn Fn(&str) -> String + Send + Sync>,
    /// Paths and what stands for each: the working directory, the home directory … In order, longest first.
    pub places: Vec<(String, &'static str)>,
}

impl Default for Normalizer {
    /// No secrets, no places.
    fn default() -> Self {
        Self {
            redact: Arc::new(str::to_owned),
            places: Vec::new(),
        }
    }
}

impl fmt::Debug for Normalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Normalizer")
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl Normalizer {
    /// The secrets, the working directory and the home directory of `environment`.
    pub fn of(environment: &Environment) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut places = vec![(text(environment.cwd()), "<cwd>")];
        places.extend(environment.home().map(|home| (text(&home), "<home>")));
        places.sort_by_key(|(place, _)| Reverse(place.len()));
        let environment = environment.clone();
        Self {
            redact: Arc::new(move |text| environment.redact(text).into_owned()),
            places,
        }
    }

    /// `request` in readable form.
    pub fn request(&self, request: &Request) -> RecordedRequest {
        let names: Vec<_> = request
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        RecordedRequest {
            system: Some(self.system(&request.system)),
            tools: Some(names.join(" ")),
            messages: self.messages(request),
        }
    }

    fn system(&self, parts: &[String]) -> String {
        let whole = parts.join("\n\n");
        let lines = whole
            .lines()
            .filter(|line| !PASSING.iter().any(|label| line.starts_with(label)));
        self.text(&lines.collect::<Vec<_>>().join("\n"))
    }

    fn messages(&self, request: &Request) -> String {
        let mut shown = format!("messages: {}\n", request.messages.len());
        for message in new_messages(request) {
            self.message(&mut shown, message);
        }
        shown
    }

    fn message(&self, shown: &mut String, message: &Message) {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } => self.entry(shown, "user", text),
                ContentBlock::Image(picture) => image(shown, picture),
                ContentBlock::ToolResult(result) => {
                    let outcome = if result.is_error { "error" } else { "ok" };
                    let label = format!("tool_result {} {outcome}", result.tool_name);
                    self.entry(shown, &label, &result.text());
                    for piece in &result.content {
                        if let ResultBlock::Image(picture) = piece {
                            image(shown, picture);
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

    /// `label: text`, with the text below and indented where it has several lines.
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

    /// `text` without secrets, places and what passes.
    fn text(&self, text: &str) -> String {
        let mut text = (self.redact)(text);
        for (place, name) in &self.places {
            if !place.is_empty() && place != "/" {
                text = text.replace(place.as_str(), name);
            }
        }
        passing_words(&text)
    }
}

fn image(shown: &mut String, image: &Image) {
    let _ = writeln!(
        shown,
        "image: {}, {} bytes in base64",
        image.media_type,
        image.data.len()
    );
}

/// `text` with dates, times, durations, ids and hashes replaced by placeholders.
fn passing_words(text: &str) -> String {
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

/// What stands for `word`, which is followed by `after`.
fn placeholder<'a>(word: &'a str, after: &str) -> Cow<'a, str> {
    let place = if has_form(word, "####-##-##") || is_date_time(word) {
        "<date>"
    } else if has_form(word.get(..8).unwrap_or(word), "##:##:##") {
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
        Some((_, unit)) if place == "<n>" => Cow::Owned(format!("{place}{unit}")),
        _ => Cow::Borrowed(place),
    }
}

/// Whether `word` has the form of `pattern`, in which `#` is a digit.
fn has_form(word: &str, pattern: &str) -> bool {
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
        .is_some_and(|start| has_form(start, "####-##-##T"))
}

/// Whether it is a number with a unit of time, joined to it or in the next word.
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

/// Whether it is a ULID, a UUID, or an id that a vendor made.
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

/// Whether it looks like a commit or a checksum: lower-case hexadecimal with digits and letters.
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
    fn what_changes_from_run_to_run_is_replaced_and_nothing_else() {
        for (text, normal) in [
            ("on 2026-11-20.", "on <date>."),
            ("at 2026-11-20T12:00:00.123Z, 12:34:56", "at <date>, <time>"),
            (
                "took 1.25s (12 ms); 3 seconds",
                "took <n>s (<n> ms); <n> seconds",
            ),
            ("session 01JD3QZ8N4Y5T6V7W8X9YABCDE", "session <id>"),
            ("0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "<id>"),
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
            assert_eq!(passing_words(text), normal);
        }
    }

    #[test]
    fn secrets_and_places_are_replaced() {
        let variables = [("HOME", "/home/me"), ("A_TOKEN", "hunter2hunter2")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let normal = Normalizer::of(&Environment::new(variables, "/home/me/work".into()));
        assert_eq!(
            normal.text("hunter2hunter2 in /home/me/work/a.rs and /home/me/.ah"),
            "[A_TOKEN] in <cwd>/a.rs and <home>/.ah"
        );
    }
}
