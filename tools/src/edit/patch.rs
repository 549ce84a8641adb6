//! What an edit changed, as the hunks of a unified diff, for displays and hosts.

use bstr::ByteSlice;
use serde_json::{Value, json};
use similar::TextDiff;

use super::replace::Edited;

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;
/// Between how many lines a diff is made; nobody looks at one of more.
const MAX_LINES: usize = 2000;

/// The hunks: each with `old_start`, `old_lines`, `new_start`, `new_lines` and `lines`, which begin with a space, `-`
/// or `+`. Nothing where the change spreads too far.
pub(super) fn hunks(content: &[u8], edited: &Edited) -> Option<Vec<Value>> {
    let start = lines_before(content, edited.old_range.start);
    let end = lines_behind(content, edited.old_range.end);
    let tail = end - edited.old_range.end;
    let old = &content[start..end];
    let new = &edited.content[start..edited.new_range.end + tail];
    if old.lines().count() + new.lines().count() > MAX_LINES {
        return None;
    }
    let first = content[..start].find_iter("\n").count() + 1;
    let (old, new) = (old.to_str_lossy(), new.to_str_lossy());
    let diff = TextDiff::from_lines(&*old, &*new);
    let hunk = |ops: &Vec<similar::DiffOp>| {
        let (before, after) = (ops.first()?, ops.last()?);
        let changes = ops.iter().flat_map(|op| diff.iter_changes(op));
        let lines: Vec<_> = changes
            .map(|change| {
                let line = change.value().trim_end_matches(['\r', '\n']);
                format!("{}{line}", change.tag())
            })
            .collect();
        Some(json!({
            "old_start": first + before.old_range().start,
            "old_lines": after.old_range().end - before.old_range().start,
            "new_start": first + before.new_range().start,
            "new_lines": after.new_range().end - before.new_range().start,
            "lines": lines,
        }))
    };
    Some(diff.grouped_ops(CONTEXT).iter().filter_map(hunk).collect())
}

/// Where the lines of context before the byte `at` begin.
fn lines_before(content: &[u8], at: usize) -> usize {
    let mut line_ends = content[..at].rfind_iter("\n");
    line_ends.nth(CONTEXT).map_or(0, |end| end + 1)
}

/// Where the lines of context behind the byte `at` end.
fn lines_behind(content: &[u8], at: usize) -> usize {
    let mut line_ends = content[at..].find_iter("\n");
    line_ends
        .nth(CONTEXT)
        .map_or(content.len(), |end| at + end + 1)
}
