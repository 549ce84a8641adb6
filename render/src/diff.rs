//! Diffs of files, by line and by word.
//!
//! Hunks have the form of `structuredPatch` in the details of tool results: start lines, and lines that begin with a
//! space, a minus or a plus.

use ah_diff::{ChangeTag, ComparedLine};
use anstyle::Effects;
use serde::Deserialize;
use serde_json::Value;

use crate::{Highlighter, Ink, Line, Style, wrap_hard};

/// Longest run of changed lines, removed and added, whose words are compared. In longer ones, marks would not help.
const MAX_COMPARED_LINES: usize = 100;

/// A changed part of a file, with the lines around it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// 1-based number of its first line in the old file.
    pub old_start: usize,
    /// 1-based number of its first line in the new file.
    pub new_start: usize,
    /// Lines, each after a space, a minus or a plus.
    pub lines: Vec<String>,
}

/// Parses the hunks in a result's details; `None` if they have another form.
pub fn hunks(patch: &Value) -> Option<Vec<Hunk>> {
    Vec::<Hunk>::deserialize(patch).ok()
}

/// Returns the hunks between two texts, with three lines of context. A comparison that takes too long is approximated.
pub fn between(old: &str, new: &str) -> Vec<Hunk> {
    let hunk = |hunk: ah_diff::Hunk| Hunk {
        old_start: hunk.old.start + 1,
        new_start: hunk.new.start + 1,
        lines: hunk.lines,
    };
    ah_diff::hunks(old, new).into_iter().map(hunk).collect()
}

/// Returns the numbers of added and removed lines.
pub fn counts(hunks: &[Hunk]) -> (usize, usize) {
    let count = |sign| {
        hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .filter(|line| line.starts_with(sign))
            .count()
    };
    (count('+'), count('-'))
}

/// Returns the ending of a path: what its language is known by.
pub fn ending(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Returns the hunks as rows: line number, sign, line. Changed words are underlined, and what is there afterwards is
/// highlighted as code in `language`, a name or a file extension.
pub fn rows(hunks: &[Hunk], language: &str, width: usize) -> Vec<Line> {
    let last = |hunk: &Hunk| hunk.lines.len() + hunk.old_start.max(hunk.new_start);
    let digits = hunks.iter().map(last).max().unwrap_or(0).to_string().len();
    let mut rows = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            rows.push(Line::of(&format!("{:>digits$} ", "⋮"), Style::DIM));
        }
        hunk_rows(hunk, language, digits, width, &mut rows);
    }
    rows
}

/// Returns the hunks as lines of any length, without numbers: of a text whose place in the file is not known.
pub fn unnumbered(hunks: &[Hunk], language: &str) -> Vec<Line> {
    let mut rows = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            rows.push(Line::of("⋮", Style::DIM));
        }
        let mut highlighter = Highlighter::of_language(language);
        for changed in compared(&hunk.lines) {
            let (sign, ink) = sign(changed.tag);
            let mut line = Line::of(sign, Style::of(ink, Effects::new()));
            line.append(&coloured(&changed, ink, &mut highlighter));
            rows.push(line);
        }
    }
    rows
}

/// Returns the sign of a line, and its ink.
fn sign(tag: ChangeTag) -> (&'static str, Ink) {
    match tag {
        ChangeTag::Equal => ("  ", Ink::Plain),
        ChangeTag::Delete => ("- ", Ink::Removed),
        ChangeTag::Insert => ("+ ", Ink::Added),
    }
}

/// Returns a line in its ink, with its changed words marked.
fn marked(changed: &ComparedLine, ink: Ink) -> Line {
    let style = Style::of(ink, Effects::new());
    let mut line = Line::default();
    for (is_marked, piece) in &changed.pieces {
        let effects = if *is_marked {
            Effects::BOLD | Effects::UNDERLINE
        } else {
            Effects::new()
        };
        line.push(piece, style.with(effects));
    }
    line
}

/// Returns a line with its changed words marked. One that is there afterwards has the colours of code, so that only its
/// sign and its changed words have the ink of the change.
fn coloured(changed: &ComparedLine, ink: Ink, highlighter: &mut Highlighter) -> Line {
    let marked = marked(changed, ink);
    if changed.tag == ChangeTag::Delete {
        return marked;
    }
    let code = highlighter.line(&marked.text());
    let is_code = code.spans().iter().any(|span| span.style() != Style::PLAIN);
    if !is_code || code.text() != marked.text() {
        return marked;
    }
    let mut line = Line::default();
    let mut code = code.spans().iter().flat_map(|span| {
        let style = span.style();
        span.text().chars().map(move |c| (c, style))
    });
    for span in marked.spans() {
        for (c, style) in code.by_ref().take(span.text().chars().count()) {
            let is_marked = span.style().effects.contains(Effects::UNDERLINE);
            let style = if is_marked { span.style() } else { style };
            line.push_clean(c.encode_utf8(&mut [0; 4]), style);
        }
    }
    line
}

fn hunk_rows(hunk: &Hunk, language: &str, digits: usize, width: usize, rows: &mut Vec<Line>) {
    let mut highlighter = Highlighter::of_language(language);
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    for changed in compared(&hunk.lines) {
        let (sign, ink) = sign(changed.tag);
        let number = if changed.tag == ChangeTag::Delete {
            old
        } else {
            new
        };
        old += usize::from(changed.tag != ChangeTag::Insert);
        new += usize::from(changed.tag != ChangeTag::Delete);
        let style = Style::of(ink, Effects::new());
        let line = coloured(&changed, ink, &mut highlighter);
        let mut first = Line::of(&format!("{number:>digits$} "), Style::DIM);
        first.push(sign, style);
        let mut rest = Line::of(&format!("{:>digits$} ", ""), Style::DIM);
        rest.push(sign, style);
        rows.extend(wrap_hard(&line, width, &first, &rest));
    }
}

/// The lines of a hunk. In lines that replace others, changed words are marked.
fn compared(lines: &[String]) -> Vec<ComparedLine> {
    let mut all = Vec::new();
    let mut lines = lines.iter().map(String::as_str).peekable();
    while lines.peek().is_some() {
        let mut run = |sign: char| {
            let mut run = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(sign)) {
                run.push(&line[1..]);
            }
            run
        };
        let (old, new) = (run('-'), run('+'));
        if old.is_empty() && new.is_empty() {
            // A line of context, or the note about a missing newline at the end of the file.
            if let Some(line) = lines.next() {
                let line = line.strip_prefix(' ').unwrap_or(line);
                all.push(plain(ChangeTag::Equal, line));
            }
        } else if old.is_empty() || new.is_empty() || old.len() + new.len() > MAX_COMPARED_LINES {
            all.extend(old.iter().map(|line| plain(ChangeTag::Delete, line)));
            all.extend(new.iter().map(|line| plain(ChangeTag::Insert, line)));
        } else {
            words(&old, &new, &mut all);
        }
    }
    all
}

fn plain(tag: ChangeTag, line: &str) -> ComparedLine {
    ComparedLine {
        tag,
        pieces: vec![(false, line.to_owned())],
    }
}

fn words(old: &[&str], new: &[&str], all: &mut Vec<ComparedLine>) {
    for mut line in ah_diff::words(old, new) {
        // Marks do not help in a line that is marked as a whole.
        for (is_marked, piece) in &mut line.pieces {
            // A line before it may have brought the same indentation.
            *is_marked &= !piece.trim().is_empty();
        }
        let is_all = |(is_marked, piece): &(bool, String)| *is_marked || piece.trim().is_empty();
        if line.pieces.iter().all(is_all) {
            for (is_marked, _) in &mut line.pieces {
                *is_marked = false;
            }
        }
        all.push(line);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(patch: &Value, width: usize) -> String {
        let rows = rows(&hunks(patch).unwrap(), "", width);
        let rows = rows.iter().map(|row| format!("{row:?}"));
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn changes_have_numbers_signs_and_marked_words() {
        let patch = json!([
            { "oldStart": 9, "oldLines": 4, "newStart": 9, "newLines": 4, "lines": [
                " fn main() {",
                "-    let count = old(1);",
                "+    let count = new(1);",
                "+    println!(\"\u{1b}[2J\");",
                " }",
            ] },
            { "oldStart": 90, "oldLines": 1, "newStart": 91, "newLines": 0, "lines": ["-gone"] },
        ]);
        insta::assert_snapshot!(shown(&patch, 60), @r#"
‹dim: 9 ›  fn main() {
‹dim:10 ›‹removed:-     let count = ›‹removed bold underline:old›‹removed:(1);›
‹dim:10 ›‹added:+     let count = ›‹added bold underline:new›‹added:(1);›
‹dim:11 ›‹added:+     println!("␛[2J");›
‹dim:12 ›  }
‹dim: ⋮ ›
‹dim:90 ›‹removed:- gone›
"#);
        insta::assert_snapshot!(shown(&json!([{ "oldStart": 1, "newStart": 1, "lines": ["+a long line of text"] }]), 14), @r#"
‹dim:1 ›‹added:+ a long lin›
‹dim:  ›‹added:+ e of text›
"#);
        assert_eq!(counts(&hunks(&patch).unwrap()), (2, 2));
        assert!(hunks(&json!("no")).is_none());
    }

    #[test]
    fn texts_are_compared_with_three_lines_around() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old
            .replace("line 2\n", "")
            .replace("line 20\n", "line 20\nend");
        let rows = rows(&between(&old, &new), "", 60);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| row.text().trim_end().to_owned())
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @"
         1   line 1
         2 - line 2
         2   line 3
         3   line 4
         4   line 5
         ⋮
        17   line 18
        18   line 19
        19   line 20
        20 + end
        ");
        assert!(between("same\n", "same\n").is_empty());
    }

    #[test]
    fn code_keeps_its_colours_and_only_what_differs_is_marked() {
        let old = "fn a() {\n    let n = 1;\n}\n";
        let new = "fn a() {\n    // new\n    let n = 2;\n}\n";
        let rows = rows(&between(old, new), "rs", 60);
        let rows: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
        insta::assert_snapshot!(rows.join("\n"), @"
‹dim:1 ›  ‹keyword:fn› ‹name:a›() {
‹dim:2 ›‹removed:-     let n = ›‹removed bold underline:1›‹removed:;›
‹dim:2 ›‹added:+ ›    ‹dim:// new›
‹dim:3 ›‹added:+ ›    ‹keyword:let› n = ‹added bold underline:2›;
‹dim:4 ›  }
");
    }
}
