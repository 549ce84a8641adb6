//! The output of the search of a file, of limited length.

use std::io::{self, Write};

use bstr::ByteSlice;

/// Limit for the output in bytes.
pub(super) const MAX_OUTPUT: usize = 1 << 20;

/// Output of up to [`MAX_OUTPUT`] bytes; more is an error, so that a search with too many matches ends.
#[derive(Default)]
pub(super) struct Capped {
    pub(super) text: Vec<u8>,
    pub(super) is_full: bool,
    /// Whether the file is binary.
    pub(super) is_binary: bool,
}

impl Capped {
    /// Returns the output without a line that is cut off.
    pub(super) fn whole_lines(mut self) -> Self {
        let end = self.text.rfind_byte(b'\n').map_or(0, |end| end + 1);
        self.text.truncate(end);
        self
    }
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > MAX_OUTPUT {
            self.is_full = true;
            return Err(io::Error::other("too much output"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
