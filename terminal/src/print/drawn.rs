//! An answer on a terminal. Final rows are written once and never touched again; the rest is drawn below them and
//! redrawn until it is final too. Nothing else on the terminal is erased.

use std::mem;

use ah_render::{Line, Markdown, Palette};

/// Largest number of rows of the rest.
const MOST_ROWS: usize = 12;
/// Start of a synchronised update: terminals that support it show the update at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Turns line wrapping off, for rows that the terminal takes to be wider than computed here.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// Start of the rest of an answer when another part of the program draws it; it replaces the rest before. Neutralised
/// text never contains these characters.
pub const REST: char = '\x0e';
/// The end of the rest of an answer.
pub const REST_END: char = '\x0f';

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// An answer being drawn.
pub struct Drawn {
    markdown: Markdown,
    palette: Palette,
    /// Final rows that are not written yet.
    waiting: Vec<Line>,
    /// Widths of the rows drawn below the final ones.
    standing: Vec<usize>,
    /// Width of the terminal for which they were laid out.
    width: usize,
    has_changed: bool,
    /// Whether the rest is marked, for another part of the program to draw it.
    is_apart: bool,
}

impl Drawn {
    pub fn new(size: Size, palette: Palette) -> Self {
        Self {
            markdown: Markdown::new(size.width),
            palette,
            waiting: Vec::new(),
            standing: Vec::new(),
            width: size.width,
            has_changed: false,
            is_apart: false,
        }
    }

    /// Sets whether the rest is marked instead of drawn.
    pub fn apart(self, is_apart: bool) -> Self {
        Self { is_apart, ..self }
    }

    /// Adds a piece of the answer. Returns whether it is the first since the last frame.
    pub fn feed(&mut self, piece: &str) -> bool {
        self.waiting.extend(self.markdown.feed(piece));
        !mem::replace(&mut self.has_changed, true)
    }

    /// Returns whether the next frame shows something new.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns whether rows stand that were laid out for a terminal of another width than this.
    pub fn is_out_of_shape(&self, size: Size) -> bool {
        !self.standing.is_empty() && self.width != size.width
    }

    /// Returns whether rows stand that may still change.
    pub fn stands(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Returns the output that brings the terminal up to date; empty if it is.
    pub fn frame(&mut self, size: Size) -> String {
        if !self.has_changed && !self.is_out_of_shape(size) {
            return String::new();
        }
        self.has_changed = false;
        let mut frame = self.settle(size);
        let tail = self.markdown.tail();
        let most = MOST_ROWS.min(size.height.saturating_sub(1));
        // A longer row would be drawn in one line and be counted as several.
        let rows: Vec<_> = tail[tail.len().saturating_sub(most)..]
            .iter()
            .map(|row| row.cut(size.width))
            .collect();
        let painted = rows
            .iter()
            .map(|row| row.paint(self.palette))
            .collect::<Vec<_>>()
            .join("\n");
        self.standing = rows.iter().map(Line::width).collect();
        self.width = size.width;
        if self.is_apart {
            frame.push_str(&format!("{REST}{painted}{REST_END}"));
            return frame;
        }
        format!("{BEGIN}{frame}{CUT}{painted}{WRAP}{END}")
    }

    /// Returns the output that erases the rest, so that something else can be written below the final rows.
    pub fn lift(&mut self, size: Size) -> String {
        // The next frame draws the rest again.
        self.has_changed |= !self.standing.is_empty();
        self.settle(size)
    }

    /// Ends the answer and returns the output that completes it.
    pub fn finish(&mut self, size: Size) -> String {
        self.waiting.extend(self.markdown.finish());
        let rest = self.settle(size);
        self.has_changed = false;
        rest
    }

    fn settle(&mut self, size: Size) -> String {
        let mut text = if self.is_apart {
            format!("{REST}{REST_END}")
        } else {
            erase(&self.standing, size)
        };
        self.standing.clear();
        for row in self.waiting.drain(..) {
            text.push_str(&row.paint(self.palette));
            text.push('\n');
        }
        self.markdown.resize(size.width);
        text
    }
}

/// Returns the sequence that erases rows of these widths, with the cursor at their end. On a terminal that has become
/// narrower, each row takes several lines.
fn erase(rows: &[usize], size: Size) -> String {
    let taken = |width: &usize| width.div_ceil(size.width.max(1)).max(1);
    match rows.iter().map(taken).sum::<usize>() {
        0 => String::new(),
        1 => "\r\x1b[J".to_owned(),
        rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        width: 20,
        height: 4,
    };

    fn shown(frame: &str) -> String {
        frame
            .replace(BEGIN, "⟨")
            .replace(END, "⟩")
            .replace(CUT, "")
            .replace(WRAP, "")
            .replace('\x1b', "␛")
            .replace('\r', "←")
    }

    #[test]
    fn what_is_final_is_written_once_and_the_rest_anew() {
        let mut drawn = Drawn::new(SIZE, Palette::Plain);
        let mut log = Vec::new();
        for piece in [
            "Some words that need a second row",
            " and",
            "\n\n- item",
            "\n\n",
        ] {
            drawn.feed(piece);
            log.push(shown(&drawn.frame(SIZE)));
        }
        assert_eq!(drawn.frame(SIZE), "");
        log.push(shown(&drawn.lift(SIZE)));
        log.push(shown(&drawn.frame(SIZE)));
        log.push(shown(&drawn.finish(SIZE)));
        insta::assert_snapshot!(log.join("\n--\n"), @r#"
⟨Some words that need
a second row⟩
--
⟨←␛[1A␛[JSome words that need
a second row and⟩
--
⟨←␛[1A␛[JSome words that need
a second row and

• item⟩
--
⟨←␛[1A␛[J
• item⟩
--
←␛[J
--
⟨• item⟩
--
←␛[J• item
"#);
    }

    #[test]
    fn a_terminal_of_another_width_has_the_rest_laid_out_again() {
        for is_apart in [false, true] {
            let mut drawn = Drawn::new(SIZE, Palette::Plain).apart(is_apart);
            drawn.feed("Some words that need two");
            drawn.frame(SIZE);
            assert_eq!(drawn.frame(SIZE), "");
            let narrow = Size { width: 10, ..SIZE };
            assert!(drawn.is_out_of_shape(narrow));
            let frame = shown(&drawn.frame(narrow));
            assert!(frame.contains("Some words\nthat need\ntwo"), "{frame}");
            assert_eq!(drawn.frame(narrow), "");
        }
    }

    #[test]
    fn a_row_of_the_rest_is_never_wider_than_the_terminal() {
        let mut drawn = Drawn::new(SIZE, Palette::Plain);
        drawn.feed("```\na line of code that is longer\n");
        drawn.frame(SIZE);
        assert!(drawn.standing.iter().all(|width| *width <= SIZE.width));
        drawn.feed("and");
        let frame = shown(&drawn.frame(SIZE));
        assert!(!frame.contains("[2A"), "{frame}");
    }

    #[test]
    fn rows_take_more_room_where_the_terminal_has_shrunk() {
        for (rows, width, expected) in [
            ([].as_slice(), 20, ""),
            (&[5], 20, "\r\x1b[J"),
            (&[0, 20], 20, "\r\x1b[1A\x1b[J"),
            (&[20, 20], 10, "\r\x1b[3A\x1b[J"),
        ] {
            assert_eq!(erase(rows, Size { width, height: 9 }), expected);
        }
    }
}
