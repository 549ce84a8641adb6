//! What differs between two texts, and which of many names is meant.
//!
//! A crate of its own because the algorithms of `similar` are generic: each crate that calls them puts a copy of all of
//! them into the binary (1.3 MB in four crates). Here they are compiled once, for `str`.

use std::ops::Range;
use std::time::Duration;

pub use similar::ChangeTag;
use similar::{DiffOp, TextDiff};

/// Number of unchanged lines around a change in a hunk.
pub const CONTEXT: usize = 3;
/// Time after which the comparison of lines is approximated.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// A changed part of a text, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Its lines in the old text, counted from 0.
    pub old: Range<usize>,
    /// Its lines in the new text, counted from 0.
    pub new: Range<usize>,
    /// Lines without their ends, each after a space, a minus or a plus.
    pub lines: Vec<String>,
}

/// A line of one of two texts. Its marked pieces are not in the other text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedLine {
    /// Which of the texts has the line.
    pub tag: ChangeTag,
    /// Its text, in pieces that are marked or not.
    pub pieces: Vec<(bool, String)>,
}

/// Returns the hunks between two texts, with three lines of context. A comparison that takes too long is approximated.
pub fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let diff = lines(old, new);
    let hunk = |operations: Vec<DiffOp>| {
        let (first, last) = (operations.first()?, operations.last()?);
        let changes = operations.iter().flat_map(|it| diff.iter_changes(it));
        let lines = changes.map(|change| {
            let line = change.value().trim_end_matches(['\r', '\n']);
            format!("{}{line}", change.tag())
        });
        Some(Hunk {
            old: first.old_range().start..last.old_range().end,
            new: first.new_range().start..last.new_range().end,
            lines: lines.collect(),
        })
    };
    let groups = diff.grouped_ops(CONTEXT);
    groups.into_iter().filter_map(hunk).collect()
}

/// Returns the numbers of lines that only the new text has, and that only the old one has. A comparison that takes
/// too long is approximated.
pub fn counts(old: &str, new: &str) -> (usize, usize) {
    let diff = lines(old, new);
    let changed = diff
        .ops()
        .iter()
        .filter(|it| it.tag() != similar::DiffTag::Equal);
    changed.fold((0, 0), |(added, removed), operation| {
        (
            added + operation.new_range().len(),
            removed + operation.old_range().len(),
        )
    })
}

/// Returns a unified diff between two texts with these names. It says where a text does not end with a line end. A
/// comparison that takes too long is approximated.
pub fn unified(old: (&str, &str), new: (&str, &str)) -> String {
    let diff = lines(old.1, new.1);
    diff.unified_diff().header(old.0, new.0).to_string()
}

/// Compares lines by their words.
pub fn words(old: &[&str], new: &[&str]) -> Vec<ComparedLine> {
    let diff = TextDiff::from_slices(old, new);
    let changes = { diff.ops().iter() }.flat_map(|it| diff.iter_inline_changes_deadline(it, None));
    changes
        .map(|change| ComparedLine {
            tag: change.tag(),
            pieces: { change.values().iter() }
                .map(|(is_marked, text)| (*is_marked, (*text).to_owned()))
                .collect(),
        })
        .collect()
}

/// Returns how alike two texts are by their characters, from 0 to 1.
pub fn likeness(one: &str, other: &str) -> f32 {
    TextDiff::from_chars(one, other).ratio()
}

/// Returns the names that are most like the given one, the most similar first: at most `limit`, each at least as alike as
/// `least` (0 to 1).
pub fn nearest<'a>(name: &str, known: &[&'a str], limit: usize, least: f32) -> Vec<&'a str> {
    similar::get_close_matches(name, known, limit, least)
}

fn lines<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, str> {
    TextDiff::configure()
        .timeout(TIME_LIMIT)
        .diff_lines(old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_have_the_lines_around_a_change() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("10\n", "ten\r\n");
        let lines = [" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"];
        let hunk = Hunk {
            old: 6..13,
            new: 6..13,
            lines: lines.map(str::to_owned).into(),
        };
        assert_eq!(hunks(&old, &new), [hunk]);
        assert_eq!(hunks(&old, &old), []);
        assert_eq!(counts(&old, &new), (1, 1));
        assert_eq!(counts("", "1\n2"), (2, 0));
    }

    #[test]
    fn a_unified_diff_says_where_no_line_end_is() {
        let diff = unified(("a/x", "1\n2\n"), ("b/x", "1\n3"));
        let expected =
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n\\ No newline at end of file\n";
        assert_eq!(diff, expected);
    }

    #[test]
    fn words_that_differ_are_marked() {
        let lines = words(&["let count = old(1);"], &["let count = new(1);"]);
        let marked = |line: &ComparedLine| {
            let pieces = line.pieces.iter().filter(|(is_marked, _)| *is_marked);
            pieces.map(|(_, text)| text.as_str()).collect::<String>()
        };
        assert_eq!(lines.iter().map(marked).collect::<Vec<_>>(), ["old", "new"]);
        let tags: Vec<_> = lines.iter().map(|line| line.tag).collect();
        assert_eq!(tags, [ChangeTag::Delete, ChangeTag::Insert]);
    }

    #[test]
    fn the_most_similar_names_come_first() {
        let known = ["opus", "haiku", "sonnet", "sonnet-5"];
        assert_eq!(nearest("sonet", &known, 2, 0.6), ["sonnet", "sonnet-5"]);
        assert!(nearest("gpt", &known, 2, 0.6).is_empty());
        assert!(likeness("same", "same") > likeness("same", "sane"));
    }
}
