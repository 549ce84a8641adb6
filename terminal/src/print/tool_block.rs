//! The text of an ended tool call: name and time, its key argument, the beginning of its output.

use ah_conversation::{lines_between, neutralise};
use ah_render::{Style, tool};
use unicode_width::UnicodeWidthChar as _;

/// Number of output lines shown.
const OUTPUT_LINES: usize = 3;
/// Number of lines shown of a change.
const CHANGE_LINES: usize = 40;
/// Number of command lines shown.
const KEY_LINES: usize = 6;
/// Longest output line, in columns, on any terminal.
const OUTPUT_WIDTH: usize = 80;

/// An ended tool call.
pub struct Block<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// Its key argument.
    pub key: &'a str,
    /// Whether the key argument is a shell command.
    pub is_command: bool,
    /// Its output.
    pub output: &'a str,
    /// The change of a file that it has made, line by line, which is shown in place of the output.
    pub change: &'a [String],
    /// Number of lines of all of its output, if `output` is only a part of it.
    pub lines: Option<u64>,
    /// Whether it failed.
    pub is_error: bool,
    /// Its duration.
    pub duration_ms: u64,
}

/// Style of the block.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    /// Whether colours are used.
    pub colours: bool,
    /// Whether a successful call has a sign.
    pub sign: bool,
    /// Width in columns.
    pub width: usize,
}

impl Paint {
    /// Returns `text` dimmed.
    pub fn dim(self, text: &str) -> String {
        self.wrap("\x1b[2m", text)
    }

    /// Returns `text` as something that succeeded.
    pub fn done(self, text: &str) -> String {
        self.styled(Style::DONE, text)
    }

    /// Returns `text` as something that failed.
    pub fn fail(self, text: &str) -> String {
        self.styled(Style::FAILED, text)
    }

    /// Returns `text` as a warning.
    pub fn warn(self, text: &str) -> String {
        self.styled(Style::WARNING, text)
    }

    fn styled(self, style: Style, text: &str) -> String {
        match self.colours {
            true => style.around(text),
            false => text.to_owned(),
        }
    }

    fn wrap(self, start: &str, text: &str) -> String {
        if self.colours {
            format!("{start}{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Block<'_> {
    /// Returns the block as lines, with a blank one at the end.
    pub fn render(&self, paint: Paint) -> String {
        let name = neutralise(self.name);
        let time = paint.dim(&format!("({})", seconds(self.duration_ms)));
        let mut lines = vec![match (self.is_error, paint.sign) {
            (true, _) => format!("{} {time}", paint.fail(&format!("✗ {name}"))),
            (false, true) => format!("{} {name} {time}", paint.done("✓")),
            (false, false) => format!("{name} {time}"),
        }];
        for line in self.key_lines(paint.width) {
            lines.push(format!("  {line}"));
        }
        if !self.change.is_empty() {
            let shown = self.change.iter().take(CHANGE_LINES);
            lines.extend(shown.map(|line| format!("  {line}")));
            lines.extend(more(
                self.change.len().saturating_sub(CHANGE_LINES) as u64,
                paint,
            ));
            lines.push(String::new());
            return lines.join("\n") + "\n";
        }
        let output = neutralise(self.output);
        let room = OUTPUT_WIDTH.min(paint.width).saturating_sub(2);
        if self.is_error {
            let rows = tool::failed(&output, self.lines, room).into_iter();
            lines.extend(rows.map(|row| format!("  {}", paint.dim(&row.text()))));
            lines.push(String::new());
            return lines.join("\n") + "\n";
        }
        let numbered = output.lines().zip(1..);
        let mut shown = numbered.filter(|(line, _)| !line.trim().is_empty());
        let mut last = 0;
        for (line, number) in shown.by_ref().take(OUTPUT_LINES) {
            let line = cut(line, room);
            lines.push(format!("  {}", paint.dim(line)));
            last = number;
        }
        let hidden = match shown.next() {
            Some(_) => lines_between(&output, self.lines, last, 0),
            None => 0,
        };
        lines.extend(more(hidden, paint));
        lines.push(String::new());
        lines.join("\n") + "\n"
    }

    fn key_lines(&self, width: usize) -> Vec<String> {
        let key = neutralise(self.key);
        let width = width.saturating_sub(4).max(20);
        let line = |line: &str| match self.is_command {
            // It can be copied.
            true => line.to_owned(),
            false => cut(line, width).to_owned(),
        };
        let mut lines: Vec<String> = key.lines().map(line).collect();
        if lines.len() > KEY_LINES {
            let more = lines.len() - KEY_LINES;
            lines.truncate(KEY_LINES);
            lines.push(format!("... ({more} more)"));
        }
        if self.is_command
            && let Some(first) = lines.first_mut()
        {
            first.insert_str(0, "$ ");
        }
        lines
    }
}

/// Says how many lines are left out, if there are any.
fn more(lines: u64, paint: Paint) -> Option<String> {
    match lines {
        0 => None,
        1 => Some(paint.dim("  ... (1 more line)")),
        more => Some(paint.dim(&format!("  ... ({more} more lines)"))),
    }
}

/// Returns the beginning of `text` that fits into `width` columns.
pub fn cut(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return &text[..at];
        }
    }
    text
}

/// Formats a duration: `1.2s`, `1m01s`.
pub fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..60_000 => format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds / 1000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint {
        colours: false,
        sign: false,
        width: 80,
    };

    #[test]
    fn blocks_show_the_call_and_the_beginning_of_its_output() {
        let block = Block {
            name: "bash",
            key: "cargo test --workspace --all-features --no-fail-fast -- --test-threads 1 --nocapture",
            is_command: true,
            change: &[],
            output: "one\n\ntwo\x1b[2J\nthree\nfour\nfive\n",
            lines: None,
            is_error: false,
            duration_ms: 1234,
        };
        insta::assert_snapshot!(block.render(PLAIN), @r#"
bash (1.2s)
  $ cargo test --workspace --all-features --no-fail-fast -- --test-threads 1 --nocapture
  one
  two␛[2J
  three
  ... (2 more lines)
"#);
        let failed = Block {
            is_error: true,
            name: "read",
            key: "src/mian.rs",
            is_command: false,
            change: &[],
            output: "no file `src/mian.rs`",
            lines: None,
            duration_ms: 61_000,
        };
        insta::assert_snapshot!(failed.render(Paint { sign: true, ..PLAIN }), @r#"
✗ read (1m01s)
  src/mian.rs
  no file `src/mian.rs`
"#);
        let coloured = failed.render(Paint {
            colours: true,
            ..PLAIN
        });
        insta::assert_snapshot!(coloured.replace('\x1b', "␛"), @r#"
␛[1m␛[31m✗ read␛[0m ␛[2m(1m01s)␛[0m
  src/mian.rs
  ␛[2mno file `src/mian.rs`␛[0m
"#);
    }

    #[test]
    fn a_change_is_shown_in_the_place_of_the_output() {
        let change: Vec<_> = (1..=42).map(|number| format!("{number:>2} + x")).collect();
        let block = Block {
            name: "edit",
            key: "a.rs",
            is_command: false,
            output: "+ x",
            change: &change,
            lines: None,
            is_error: false,
            duration_ms: 0,
        };
        let shown = block.render(PLAIN);
        assert!(
            shown.starts_with("edit (0.0s)\n  a.rs\n   1 + x\n   2 + x\n"),
            "{shown}"
        );
        assert!(
            shown.ends_with("\n  40 + x\n  ... (2 more lines)\n\n"),
            "{shown}"
        );
    }

    #[test]
    fn wide_characters_count_as_wide() {
        assert_eq!(cut("日本語", 4), "日本");
        assert_eq!(cut("abc", 4), "abc");
    }
}
