//! Limits for the texts in the details of results. Details are for programs, in the shapes of the official Agent SDKs under
//! either interface. They are stored with every result and sent in one line, so no text in them is long.

use std::borrow::Cow;

use bstr::ByteSlice;

/// Limit for a text in bytes.
pub(crate) const LIMIT: usize = 64 * 1024;

/// Returns the start of a text, up to the limit.
pub(crate) fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(LIMIT)]
}

/// Returns the whole text, or `None` beyond the limit.
pub(crate) fn whole(content: &[u8]) -> Option<Cow<'_, str>> {
    (content.len() <= LIMIT).then(|| content.to_str_lossy())
}

/// Returns the first lines, up to the limit, and whether these are all.
pub(crate) fn lines<T: AsRef<str>>(lines: &[T]) -> (&[T], bool) {
    let mut bytes = 0;
    let mut fits = |line: &T| {
        bytes += line.as_ref().len();
        bytes <= LIMIT
    };
    let count = lines.iter().take_while(|line| fits(line)).count();
    (&lines[..count], count == lines.len())
}
