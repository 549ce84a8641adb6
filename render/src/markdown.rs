//! Incremental rendering of Markdown.
//!
//! An answer arrives in thousands of pieces. Parsing all of it at each piece would take quadratic time, and redrawing all
//! of it would disturb a reader who has scrolled back. So the text is split into blocks by the start of each line, and each
//! block is parsed once, when it is complete. List items are blocks of their own, and each line of fenced code is final at
//! once. The result depends only on the text, not on how it was cut into pieces.

mod block;
mod table;
mod writer;

use std::mem;

use block::{Fence, Kind, Start};

use crate::highlight::Highlighter;
use crate::{Line, Style, wrap_hard};

/// Indentation of code.
const CODE_INDENT: usize = 2;
/// Limit of highlighted code per text, in bytes: about 250 lines. Highlighting takes more time than everything else, and
/// longer code is hardly read in the terminal.
const MAX_HIGHLIGHTED: usize = 8 * 1024;
/// Limit of an unfinished block that is rendered for the tail, in bytes.
const MAX_TAIL: usize = 2 * 1024;

/// Renders an answer to rows, piece by piece.
#[derive(Clone)]
pub struct Markdown {
    width: usize,
    open: Open,
    /// Complete lines of the open block.
    block: String,
    /// Start of the current line.
    partial: String,
    /// Whether the previous line was blank.
    after_blank: bool,
    /// Kind of the last block; `None` before the first one.
    last: Option<Kind>,
    /// Bytes of code that can still be highlighted.
    coloured: usize,
}

/// The open block.
#[derive(Clone)]
enum Open {
    Nothing,
    /// A block whose lines are collected.
    Block(Kind),
    /// A top-level fence, whose lines are final at once.
    Fence(Fence, Highlighter),
}

impl Markdown {
    /// A renderer for rows of at most `width` columns.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            open: Open::Nothing,
            block: String::new(),
            partial: String::new(),
            after_blank: false,
            last: None,
            coloured: MAX_HIGHLIGHTED,
        }
    }

    /// Changes the width for later rows.
    pub fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Adds a piece of the text and returns the rows that are final with it.
    pub fn feed(&mut self, piece: &str) -> Vec<Line> {
        let mut rows = Vec::new();
        for piece in piece.split_inclusive('\n') {
            self.partial.push_str(piece);
            if let Some(line) = self.partial.strip_suffix('\n') {
                let line = line.strip_suffix('\r').unwrap_or(line).to_owned();
                self.partial.clear();
                self.take(&line, &mut rows);
            }
        }
        rows
    }

    /// Ends the text and returns the remaining rows. Text that is fed later is a new text, after a blank line.
    pub fn finish(&mut self) -> Vec<Line> {
        let mut rows = Vec::new();
        let line = mem::take(&mut self.partial);
        if !line.is_empty() {
            self.take(&line, &mut rows);
        }
        self.close(&mut rows);
        self.open = Open::Nothing;
        self.after_blank = true;
        self.coloured = MAX_HIGHLIGHTED;
        rows
    }

    /// Returns the rows of the unfinished rest as if the text ended here. Only the end of a long rest is rendered, so the
    /// cost is bounded; the rows are approximate then.
    pub fn tail(&self) -> Vec<Line> {
        let block = end(&self.block, MAX_TAIL);
        let mut rest = Self {
            width: self.width,
            open: self.open.clone(),
            block: block.to_owned(),
            partial: String::new(),
            after_blank: self.after_blank,
            last: self.last,
            coloured: self.coloured,
        };
        let mut partial = end(&self.partial, MAX_TAIL);
        // Characters that may become markup are held back until the line is known.
        if partial
            .bytes()
            .all(|byte| b"`~#>*+-=_|: 0123456789.".contains(&byte))
        {
            partial = "";
        }
        if let (Open::Block(Kind::Item { .. }), true) = (&rest.open, block.len() < self.block.len())
        {
            rest.open = Open::Block(Kind::Paragraph);
        }
        rest.partial.push_str(partial);
        rest.finish()
    }

    /// Accepts the next complete line.
    fn take(&mut self, line: &str, rows: &mut Vec<Line>) {
        if let Open::Fence(fence, highlighter) = &mut self.open {
            if fence.is_closed_by(line) {
                self.coloured = highlighter.left();
                self.open = Open::Nothing;
                return;
            }
            let code = highlighter.line(fence.content(line));
            return rows.extend(self.code(&code));
        }
        if let Open::Block(kind) = &mut self.open {
            if kind.takes(line, self.after_blank) {
                self.after_blank = line.trim().is_empty();
                self.block.push_str(line);
                self.block.push('\n');
                // The underline of a heading ends the block.
                if *kind == Kind::Paragraph && block::is_underline(line) {
                    self.close(rows);
                }
                return;
            }
            self.close(rows);
        }
        match Start::of(line) {
            Start::Blank => self.after_blank = true,
            Start::Fence(fence) => {
                self.gap(Kind::Fenced, rows);
                let highlighter = Highlighter::within(fence.language(line), self.coloured);
                self.open = Open::Fence(fence, highlighter);
            }
            Start::Heading => self.whole(Kind::Heading, line, rows),
            Start::Rule => self.whole(Kind::Rule, line, rows),
            Start::Item { indent } => self.begin(
                Kind::Item {
                    indent,
                    fence: Fence::within_item(line, indent),
                },
                line,
                rows,
            ),
            Start::Quote => self.begin(Kind::Quote, line, rows),
            Start::Indented => self.begin(Kind::Indented, line, rows),
            Start::Text => self.begin(Kind::Paragraph, line, rows),
        }
    }

    fn begin(&mut self, kind: Kind, line: &str, rows: &mut Vec<Line>) {
        self.gap(kind, rows);
        self.open = Open::Block(kind);
        self.block.push_str(line);
        self.block.push('\n');
    }

    fn whole(&mut self, kind: Kind, line: &str, rows: &mut Vec<Line>) {
        self.begin(kind, line, rows);
        self.close(rows);
    }

    /// Adds the blank line before a block, if there is one.
    fn gap(&mut self, kind: Kind, rows: &mut Vec<Line>) {
        let is_apart = |last: Kind| last.stands_apart() || kind.stands_apart();
        if self
            .last
            .is_some_and(|last| self.after_blank || is_apart(last))
        {
            rows.push(Line::default());
        }
        self.after_blank = false;
        self.last = Some(kind);
    }

    /// Ends the collected block and adds its rows.
    fn close(&mut self, rows: &mut Vec<Line>) {
        if let Open::Block(_) = self.open {
            let block = mem::take(&mut self.block);
            rows.extend(writer::rows(&block, self.width, &mut self.coloured));
            self.open = Open::Nothing;
        }
    }

    fn code(&self, line: &Line) -> Vec<Line> {
        code(line, self.width)
    }
}

/// The rows of a line of code.
fn code(line: &Line, width: usize) -> Vec<Line> {
    if line.is_blank() {
        return vec![Line::default()];
    }
    let indent = Line::of(&" ".repeat(CODE_INDENT), Style::PLAIN);
    wrap_hard(line, width, &indent, &indent)
}

/// The end of `text`, at most `most` bytes, from the start of a line or else of a word.
fn end(text: &str, most: usize) -> &str {
    let Some(start) = text.len().checked_sub(most) else {
        return text;
    };
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at));
    let text = start.map_or("", |start| &text[start..]);
    match text.find('\n').or_else(|| text.find(' ')) {
        Some(at) => &text[at + 1..],
        None => text,
    }
}

#[cfg(test)]
mod tests;
