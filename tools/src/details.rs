//! What results say of themselves for programs: in the shapes that the hosts of the official Agent SDKs know, whatever
//! the tools are called. Such details are kept with every result and sent in one line, so no text in them is long.

use std::borrow::Cow;

use bstr::ByteSlice;

/// How many bytes of a text are told.
pub(crate) const LIMIT: usize = 64 * 1024;

/// The beginning of a text, as much of it as is told.
pub(crate) fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(LIMIT)]
}

/// A text that is told whole or not at all.
pub(crate) fn whole(content: &[u8]) -> Option<Cow<'_, str>> {
    (content.len() <= LIMIT).then(|| content.to_str_lossy())
}

/// The first of these lines, as many as are told, and whether they are all.
pub(crate) fn lines<T: AsRef<str>>(lines: &[T]) -> (&[T], bool) {
    let mut bytes = 0;
    let mut fits = |line: &T| {
        bytes += line.as_ref().len();
        bytes <= LIMIT
    };
    let told = lines.iter().take_while(|line| fits(line)).count();
    (&lines[..told], told == lines.len())
}
