//! The part of an answer that is not in the scrollback yet: its last line, and rows that may still change.

use crate::print::{REST, REST_END};

/// The unfinished part of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// Line without its end.
    pub open: String,
    /// Rows that may still change.
    pub rest: Vec<String>,
}

impl Answer {
    /// Takes output and returns the lines that are complete, if any.
    pub fn feed(&mut self, text: &str) -> Option<String> {
        let mut pieces = text.split(REST);
        self.open.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (rest, more) = piece.split_once(REST_END).unwrap_or((piece, ""));
            self.rest = rest.lines().map(str::to_owned).collect();
            self.open.push_str(more);
        }
        let end = self.open.rfind('\n')?;
        let open = self.open.split_off(end + 1);
        Some(std::mem::replace(&mut self.open, open))
    }

    /// Ends the answer and returns its last line, if that is not complete.
    pub fn finish(&mut self) -> Option<String> {
        self.rest.clear();
        let open = std::mem::take(&mut self.open);
        (!open.is_empty()).then(|| open + "\n")
    }
}
