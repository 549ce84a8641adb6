//! Changes of a file as the hunks of a unified diff, for displays and hosts.

use std::ops::Range;

use bstr::ByteSlice;
use serde_json::{Value, json};

use crate::details;

/// Limit for the lines of both sides of a diff; longer ones are of no use.
const MAX_LINES: usize = 2000;

/// Returns the hunks between two contents that differ only in these ranges: each with `oldStart`, `oldLines`, `newStart`,
/// `newLines` and `lines`, which start with a space, `-` or `+`. Empty for a change that spreads too far.
pub(crate) fn hunks(
    old: &[u8],
    new: &[u8],
    old_range: Range<usize>,
    new_range: Range<usize>,
) -> Vec<Value> {
    let start = lines_before(old, old_range.start);
    let end = lines_behind(old, old_range.end);
    let tail = end - old_range.end;
    let first = old[..start].find_iter("\n").count() + 1;
    let old = &old[start..end];
    let new = &new[start..new_range.end + tail];
    if old.lines().count() + new.lines().count() > MAX_LINES
        || old.len() + new.len() > 2 * details::LIMIT
    {
        return Vec::new();
    }
    let (old, new) = (old.to_str_lossy(), new.to_str_lossy());
    let hunk = |hunk: ah_diff::Hunk| {
        json!({
            "oldStart": first + hunk.old.start,
            "oldLines": hunk.old.len(),
            "newStart": first + hunk.new.start,
            "newLines": hunk.new.len(),
            "lines": hunk.lines,
        })
    };
    ah_diff::hunks(&old, &new).into_iter().map(hunk).collect()
}

/// Returns the start of the lines of context before the byte `at`.
fn lines_before(content: &[u8], at: usize) -> usize {
    let mut line_ends = content[..at].rfind_iter("\n");
    line_ends.nth(ah_diff::CONTEXT).map_or(0, |end| end + 1)
}

/// Returns the end of the lines of context behind the byte `at`.
fn lines_behind(content: &[u8], at: usize) -> usize {
    let mut line_ends = content[at..].find_iter("\n");
    line_ends
        .nth(ah_diff::CONTEXT)
        .map_or(content.len(), |end| at + end + 1)
}
