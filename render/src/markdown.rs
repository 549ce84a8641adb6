//! Markdown that is still being written.
//!
//! An answer arrives in thousands of pieces. Parsed anew at each of them it would cost the square of its length, and
//! drawn anew it would wipe what the reader has scrolled back to. So the text is cut where a block is surely over, by a
//! look at the beginning of each line, and each block is parsed once, whole, by the parser. Items of a list are blocks of
//! their own here, and the lines of a fence are final one by one. What is cut depends on the text alone, never on the
//! pieces it came in.

mod block;
mod table;
mod writer;

use std::mem;

use block::{Fence, Start};

use crate::highlight::Highlighter;
use crate::{Line, Style, wrap_hard};

/// Code stands so far in.
const CODE_INDENT: usize = 2;
/// So many bytes of code have colours in one text: some 250 lines. To tell them takes longer than all else together, and
/// whoever reads hundreds of lines of code does not read them here.
const COLOURED: usize = 8 * 1024;
/// At most so much of an unfinished block is looked at for the tail.
const TAIL: usize = 2 * 1024;

/// Turns an answer into rows, piece by piece.
#[derive(Clone)]
pub struct Markdown {
    width: usize,
    open: Open,
    /// The whole lines of the open block.
    block: String,
    /// The beginning of a line.
    partial: String,
    /// Whether a blank line came since the last one that was not.
    after_blank: bool,
    /// What the last block was; `None` before the first one.
    last: Option<Kind>,
    /// So many more bytes of code have colours.
    coloured: usize,
}

/// What the lines are in.
#[derive(Clone)]
enum Open {
    Nothing,
    /// A block whose lines are gathered.
    Block(Kind),
    /// A fence at the margin, whose lines are final at once.
    Fence(Fence, Highlighter),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Also a table, and what begins with a tag.
    Paragraph,
    Quote,
    /// Code for its indent.
    Indented,
    Item {
        /// Where its text stands.
        indent: usize,
        /// The fence in it that is open.
        fence: Option<Fence>,
    },
    Heading,
    Rule,
    Fenced,
}

impl Kind {
    /// Whether there is always a blank line around it.
    fn stands_apart(self) -> bool {
        matches!(
            self,
            Self::Heading | Self::Rule | Self::Fenced | Self::Indented
        )
    }
}

impl Markdown {
    /// For rows of at most `width` columns.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            open: Open::Nothing,
            block: String::new(),
            partial: String::new(),
            after_blank: false,
            last: None,
            coloured: COLOURED,
        }
    }

    /// What comes from now on is for rows of another width.
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

    /// The text is whole: returns the rows that were not final yet. What is fed next is another text, behind a blank line.
    pub fn finish(&mut self) -> Vec<Line> {
        let mut rows = Vec::new();
        let line = mem::take(&mut self.partial);
        if !line.is_empty() {
            self.take(&line, &mut rows);
        }
        self.close(&mut rows);
        self.open = Open::Nothing;
        self.after_blank = true;
        self.coloured = COLOURED;
        rows
    }

    /// The rows that the unfinished rest would be if the text ended here. Of a rest that is very long it is the end, as
    /// well as it can be told; so the cost of a look does not grow.
    pub fn tail(&self) -> Vec<Line> {
        let block = end(&self.block, TAIL);
        let mut rest = Self {
            width: self.width,
            open: self.open.clone(),
            block: block.to_owned(),
            partial: String::new(),
            after_blank: self.after_blank,
            last: self.last,
            coloured: self.coloured,
        };
        let mut partial = end(&self.partial, TAIL);
        // What may become a mark is shown once it is known which.
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

    /// Takes the next whole line.
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
                // The line below a paragraph that makes a heading of it is its last one.
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

    /// The blank line before a block, where there is one.
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

    /// Gives the rows of the block that is gathered.
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

/// A line of code as rows.
fn code(line: &Line, width: usize) -> Vec<Line> {
    if line.is_blank() {
        return vec![Line::default()];
    }
    let indent = Line::of(&" ".repeat(CODE_INDENT), Style::PLAIN);
    wrap_hard(line, width, &indent, &indent)
}

/// The end of `text`, from a line's or at least a word's beginning, at most so many bytes.
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
