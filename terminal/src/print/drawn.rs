//! An answer on a terminal: what is final is written once and never touched again; the rest stands below it and is drawn
//! anew until it is final too. What a terminal shows is never wiped but for those few rows.

use std::mem;

use ah_render::{Line, Markdown, Palette};

/// The rest of an answer takes at most so many rows.
const MOST_ROWS: usize = 12;
/// Terminals that know these show all that comes between them at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Between these a row ends at the edge, also where the terminal thinks that it is wider than we do.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// Between these stands the rest of an answer, in the place of what stood there before, where somebody else draws it. No
/// text that is shown holds them.
pub const REST: char = '\x0e';
/// The end of the rest of an answer.
pub const REST_END: char = '\x0f';

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// An answer that is being drawn.
pub struct Drawn {
    markdown: Markdown,
    palette: Palette,
    /// The rows that are final and not written yet.
    waiting: Vec<Line>,
    /// How wide the rows are that stand below the final ones.
    standing: Vec<usize>,
    has_changed: bool,
    /// Whether the rest is told apart, for somebody else to draw it.
    is_apart: bool,
}

impl Drawn {
    pub fn new(size: Size, palette: Palette) -> Self {
        Self {
            markdown: Markdown::new(size.width),
            palette,
            waiting: Vec::new(),
            standing: Vec::new(),
            has_changed: false,
            is_apart: false,
        }
    }

    /// One whose rest is told apart, for somebody else to draw it.
    pub fn apart(self, is_apart: bool) -> Self {
        Self { is_apart, ..self }
    }

    /// Adds a piece of the answer, which the next frame shows; tells whether it is the first since the last frame.
    pub fn feed(&mut self, piece: &str) -> bool {
        self.waiting.extend(self.markdown.feed(piece));
        !mem::replace(&mut self.has_changed, true)
    }

    /// Whether there is something to be shown.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// What to write so that the terminal shows the answer as far as it is known; nothing if it does.
    pub fn frame(&mut self, size: Size) -> String {
        if !self.has_changed {
            return String::new();
        }
        self.has_changed = false;
        let mut frame = self.settle(size);
        let tail = self.markdown.tail();
        let most = MOST_ROWS.min(size.height.saturating_sub(1));
        let rows = &tail[tail.len().saturating_sub(most)..];
        let painted: Vec<_> = rows.iter().map(|row| row.paint(self.palette)).collect();
        let painted = painted.join("\n");
        self.standing = rows.iter().map(Line::width).collect();
        if self.is_apart {
            frame.push_str(&format!("{REST}{painted}{REST_END}"));
            return frame;
        }
        format!("{BEGIN}{frame}{CUT}{painted}{WRAP}{END}")
    }

    /// What to write so that just what is final stands there, and something else can be written below it.
    pub fn lift(&mut self, size: Size) -> String {
        // What is taken away comes back with the next frame.
        self.has_changed |= !self.standing.is_empty();
        self.settle(size)
    }

    /// The answer is whole: what to write so that all of it stands there.
    pub fn finish(&mut self, size: Size) -> String {
        self.waiting.extend(self.markdown.finish());
        let rest = self.settle(size);
        self.has_changed = false;
        rest
    }

    fn settle(&mut self, size: Size) -> String {
        let mut text = match self.is_apart {
            true => format!("{REST}{REST_END}"),
            false => erase(&self.standing, size),
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

/// Takes away rows that are so wide, at whose end the cursor stands. Where the terminal has become narrower, each takes
/// more of them than when it was drawn.
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
