//! Replaces text in the content of a file. Pure.

use std::borrow::Cow;
use std::ops::Range;

use bstr::ByteSlice;

/// Result of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edited {
    /// The new content of the file.
    pub(super) content: Vec<u8>,
    /// Number of replacements, at least 1.
    pub(super) replacements: usize,
    /// Bytes of the old content from the first replacement to the end of the last.
    pub(super) old_range: Range<usize>,
    /// The same range in the new content.
    pub(super) new_range: Range<usize>,
}

/// Reason why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// The text is not in the file.
    None,
    /// It is in the file more than once, at these lines.
    Several(Vec<usize>),
}

/// Replaces the only occurrence of `old`, or all of them, with `new`. If the lines of the file end in CRLF, those of the
/// new text do too, and `old` is found with either line ends.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Edited, Mismatch> {
    let mut old = Cow::Borrowed(old);
    let mut new = Cow::Borrowed(new);
    if ends_lines_in_crlf(content) {
        let old_with_crlf = with_crlf(&old);
        // A text with bare line feeds that is found as given is from a place that has them.
        if old_with_crlf == old || !content.contains_str(&*old) {
            old = old_with_crlf.into();
            new = with_crlf(&new).into();
        }
    }
    let places: Vec<usize> = content.find_iter(&*old).collect();
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
        return Err(Mismatch::None);
    };
    if places.len() > 1 && !all {
        return Err(Mismatch::Several(line_numbers(content, &places)));
    }
    let edited = content.replace(&*old, &*new);
    let old_range = first..last + old.len();
    let behind = content.len() - old_range.end;
    Ok(Edited {
        new_range: first..edited.len() - behind,
        old_range,
        replacements: places.len(),
        content: edited,
    })
}

fn ends_lines_in_crlf(content: &[u8]) -> bool {
    let crlf = content.find_iter("\r\n").count();
    crlf > 0 && crlf * 2 > content.find_iter("\n").count()
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Returns the lines, from 1, of the ascending positions `places`.
fn line_numbers(content: &[u8], places: &[usize]) -> Vec<usize> {
    let mut line = 1;
    let mut from = 0;
    let number = |&place: &usize| {
        line += content[from..place].find_iter("\n").count();
        from = place;
        line
    };
    places.iter().map(number).collect()
}
