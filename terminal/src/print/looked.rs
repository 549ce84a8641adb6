//! Neighbouring reads and searches, told in one line. They are most of the calls of a run, and what they have found is
//! for the model; people see it on request.

use ah_render::tool::duration;
use ah_render::{Line, Style};

/// What a call looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    File,
    Pattern,
}

/// Successful calls that only look at files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    calls: Vec<(String, String, u64)>,
}

/// Returns what a tool looks at, by its name here or in the Agent SDK.
fn look(tool: &str) -> Option<Look> {
    match tool {
        "read" | "Read" => Some(Look::File),
        "grep" | "Grep" | "glob" | "Glob" => Some(Look::Pattern),
        _ => None,
    }
}

impl Looked {
    /// Adds a call that has succeeded. Returns `false` if it does more than looking at files.
    pub fn add(&mut self, tool: &str, key: &str, milliseconds: u64) -> bool {
        let is_look = look(tool).is_some();
        if is_look {
            let key = key.replace('\n', " ");
            self.calls.push((tool.to_owned(), key, milliseconds));
        }
        is_look
    }

    /// Returns the calls in one row: `✓ read 2 files, searched 1 pattern (0.1s) src/a.rs, src/b.rs, fn main`.
    pub fn row(&self, width: usize) -> Option<Line> {
        let mut row = Line::of("✓ ", Style::DONE);
        let milliseconds = self.calls.iter().map(|(_, _, taken)| taken).sum();
        let time = format!(" ({})", duration(milliseconds));
        match &self.calls[..] {
            [] => return None,
            [(tool, key, _)] => {
                row.push(tool, Style::BOLD);
                row.push(&format!(" {key}"), Style::PLAIN);
                row.push(&time, Style::DIM);
            }
            _ => {
                row.push(&self.counts(), Style::BOLD);
                row.push(&time, Style::DIM);
                let keys = [Look::File, Look::Pattern].map(|look| self.keys(look));
                row.push(&format!(" {}", keys.concat().join(", ")), Style::DIM);
            }
        }
        Some(row.cut(width))
    }

    /// `read 4 files, searched 2 patterns`
    pub fn counts(&self) -> String {
        let count = |wanted, verb, noun: &str| match self.keys(wanted).len() {
            0 => None,
            1 => Some(format!("{verb} 1 {noun}")),
            number => Some(format!("{verb} {number} {noun}s")),
        };
        let parts = [
            count(Look::File, "read", "file"),
            count(Look::Pattern, "searched", "pattern"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns what was looked at, each once. Calls end in any order, so they are sorted.
    fn keys(&self, wanted: Look) -> Vec<&str> {
        let mut keys: Vec<_> = { self.calls.iter() }
            .filter(|(tool, ..)| look(tool) == Some(wanted))
            .map(|(_, key, _)| key.as_str())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(calls: &[(&str, &str)], width: usize) -> String {
        let mut looked = Looked::default();
        for (tool, key) in calls {
            assert!(looked.add(tool, key, 100));
        }
        looked.row(width).unwrap().text()
    }

    #[test]
    fn neighbouring_looks_are_one_row() {
        for (calls, expected) in [
            (&[("read", "a.rs")][..], "✓ read a.rs (0.1s)"),
            (&[("Grep", "fn main")], "✓ Grep fn main (0.1s)"),
            (
                &[
                    ("read", "a.rs"),
                    ("grep", "x"),
                    ("read", "b.rs"),
                    ("read", "a.rs"),
                ],
                "✓ read 2 files, searched 1 pattern (0.4s) a.rs, b.rs, x",
            ),
        ] {
            assert_eq!(shown(calls, 80), expected);
        }
        let long = shown(&[("read", "a.rs"), ("read", "src/b.rs")], 32);
        assert_eq!(long, "✓ read 2 files (0.2s) a.rs, src…");
        assert!(!Looked::default().add("bash", "ls", 1));
        assert_eq!(Looked::default().row(80), None);
    }
}
