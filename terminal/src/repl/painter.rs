//! Draws on the terminal: finished lines go into the scrollback once, the live lines below are redrawn as they change.
//!
//! It queries nothing from the terminal and erases only its own lines: it knows how many it has drawn, and where it has
//! left the cursor. Each frame is one synchronised update (DEC 2026), so that terminals that support it show no partial
//! frame.
//!
//! Reedline's external printer would leave lines that move above the prompt in the scrollback: it moves up by the lines of its
//! buffer only, and queries the cursor's position for each batch.

use std::io::{self, Write};

use crate::print::wrap::width;

const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";
/// Turns line wrapping off. Terminals differ in the width of emoji of several parts, and a row that wraps would move
/// everything below it.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const ERASE_BELOW: &str = "\x1b[J";
const ERASE_REST: &str = "\x1b[K";
const ERASE_ROW: &str = "\x1b[2K";
const SAVE: &str = "\x1b7";
const RESTORE: &str = "\x1b8";
const ENTER_PAGE: &str = "\x1b[?1049h";
/// Leaves the alternate screen; the terminal shows the other one as it was, with the cursor where it was.
pub const LEAVE_PAGE: &str = "\x1b[?1049l";

/// The lines at the bottom, none wider than the terminal, and the cursor in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// The lines, with their colours.
    pub rows: Vec<String>,
    /// Row and column, from 0.
    pub cursor: (usize, usize),
    /// Width of the terminal.
    pub columns: usize,
}

impl Live {
    /// Returns the number of rows above the cursor on a terminal of this width that wraps its lines again. Each was drawn in
    /// one line.
    fn above(&self, columns: usize) -> usize {
        let (row, column) = self.cursor;
        let columns = columns.max(1);
        let taken = |row: &String| width(row).min(self.columns).div_ceil(columns).max(1);
        let above: usize = self.rows.iter().take(row).map(taken).sum();
        above + column / columns
    }
}

/// Draws on a terminal.
pub struct Painter<W> {
    out: W,
    drawn: Live,
    /// Whether the terminal wraps its lines again when it becomes narrower.
    reflows: bool,
    /// Whether the alternate screen is shown.
    is_on_page: bool,
}

impl<W: Write> Painter<W> {
    /// Returns a painter that has drawn nothing; the cursor is at the start of an empty line.
    pub fn new(out: W, reflows: bool) -> Self {
        Self {
            out,
            drawn: Live::default(),
            reflows,
            is_on_page: false,
        }
    }

    /// Prints `finished`, which is empty or ends with a line break, and draws `live` below it.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub fn draw(&mut self, finished: &str, live: &Live) -> io::Result<()> {
        self.leave_page()?;
        if finished.is_empty() && *live == self.drawn {
            return Ok(());
        }
        debug_assert!(live.rows.iter().all(|row| width(row) <= live.columns));
        let mut frame = String::from(BEGIN);
        self.go_to_top(&mut frame, live.columns);
        let is_resized = !self.drawn.rows.is_empty() && live.columns != self.drawn.columns;
        if !finished.is_empty() || is_resized {
            self.erase(&mut frame, is_resized);
            frame.push_str(&finished.replace('\n', "\r\n"));
        }
        frame.push_str(CUT);
        for (at, row) in live.rows.iter().enumerate() {
            if at > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(row);
            // In a full row it would erase the last character.
            if width(row) < live.columns {
                frame.push_str(ERASE_REST);
            }
        }
        frame.push_str(WRAP);
        if finished.is_empty() && live.rows.len() < self.drawn.rows.len() {
            frame.push_str(ERASE_BELOW);
        }
        let (row, column) = live.cursor;
        let up = live.rows.len().saturating_sub(row + 1);
        if up > 0 {
            frame.push_str(&format!("\x1b[{up}A"));
        }
        frame.push('\r');
        if column > 0 {
            frame.push_str(&format!("\x1b[{column}C"));
        }
        frame.push_str(END);
        self.drawn = live.clone();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Erases the live lines, so that another program can use the terminal.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub fn clear(&mut self) -> io::Result<()> {
        self.leave_page()?;
        let mut frame = String::new();
        self.go_to_top(&mut frame, self.drawn.columns);
        self.erase(&mut frame, false);
        self.drawn = Live::default();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Shows rows on the alternate screen, as many as the terminal has lines; what was drawn comes back with the next frame.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub fn show_page(&mut self, rows: &[String]) -> io::Result<()> {
        let mut frame = String::new();
        if !std::mem::replace(&mut self.is_on_page, true) {
            frame.push_str(ENTER_PAGE);
        }
        frame.push_str(BEGIN);
        frame.push_str(CUT);
        for (at, row) in rows.iter().enumerate() {
            frame.push_str(&format!("\x1b[{};1H{ERASE_ROW}{row}", at + 1));
        }
        frame.push_str(WRAP);
        frame.push_str(END);
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    fn leave_page(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.is_on_page) {
            true => {
                self.out.write_all(LEAVE_PAGE.as_bytes())?;
                self.out.flush()
            }
            false => Ok(()),
        }
    }

    /// Takes nothing on the screen for its own any more: others have written since.
    pub fn forget(&mut self) {
        self.drawn = Live::default();
    }

    /// Scrolls what is on a screen of this height into the scrollback, without the blank rest below, and starts at its top.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub fn scroll_away(&mut self, height: usize) -> io::Result<()> {
        self.clear()?;
        // From the row below the last one that is used: to the bottom, and from there as many as are used.
        write!(self.out, "{}\x1b[H", "\n".repeat(height.saturating_sub(1)))?;
        self.out.flush()
    }

    /// Writes a sequence that changes nothing on the screen, such as a bell.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub fn ring(&mut self, sequence: &str) -> io::Result<()> {
        self.out.write_all(sequence.as_bytes())?;
        self.out.flush()
    }

    /// Erases the live lines, from the top of which it begins and ends: one by one, since from the top of the screen on tmux
    /// would take it for a clear and keep a copy. Where the terminal has wrapped them again, everything below the first.
    fn erase(&self, frame: &mut String, is_resized: bool) {
        if is_resized {
            frame.push_str(&format!("{ERASE_ROW}{SAVE}\x1b[1B{ERASE_BELOW}{RESTORE}"));
            return;
        }
        let rows = self.drawn.rows.len();
        frame.push_str(&vec![ERASE_ROW; rows.max(1)].join("\x1b[1B"));
        if rows > 1 {
            frame.push_str(&format!("\x1b[{}A", rows - 1));
        }
    }

    fn go_to_top(&self, frame: &mut String, columns: usize) {
        let above = if self.reflows {
            self.drawn.above(columns)
        } else {
            self.drawn.cursor.0
        };
        if above > 0 {
            frame.push_str(&format!("\x1b[{above}A"));
        }
        frame.push('\r');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(rows: &[&str], cursor: (usize, usize)) -> Live {
        Live {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            cursor,
            columns: 20,
        }
    }

    /// Returns the screen and the scrollback of a 20 × 4 terminal after these frames.
    fn screen(frames: &[(&str, Live)]) -> (String, String) {
        let mut bytes = Vec::new();
        let mut painter = Painter::new(&mut bytes, true);
        for (finished, live) in frames {
            painter.draw(finished, live).unwrap();
        }
        let mut parser = {
            let many = |count| std::num::NonZero::new(count).unwrap();
            vt100::Parser::new(many(4), many(20), 100)
        };
        parser.process(&bytes);
        let (row, column) = parser.screen().cursor_position();
        let shown = parser.screen().contents();
        parser.screen_mut().set_scrollback(100);
        let above = parser.screen().contents();
        (format!("{shown}\n@{row},{column}"), above)
    }

    #[test]
    fn finished_lines_stay_above_what_changes() {
        let (shown, _) = screen(&[
            ("", live(&["busy", "> "], (1, 2))),
            ("one\n", live(&["busy still", "> a"], (1, 3))),
            ("two\n", live(&["> ab"], (0, 4))),
        ]);
        assert_eq!(shown, "one\ntwo\n> ab\n@2,4");
    }

    #[test]
    fn scrolled_lines_are_complete() {
        let (shown, above) = screen(&[
            ("", live(&["busy", "> "], (1, 2))),
            ("1\n2\n3\n4\n5\n", live(&["busy", "> x"], (1, 3))),
            ("6\n", live(&["> x"], (0, 3))),
        ]);
        assert_eq!(shown, "4\n5\n6\n> x\n@3,3");
        assert!(above.starts_with("1\n2\n3"), "{above}");
    }

    #[test]
    fn an_unchanged_frame_is_not_written() {
        let mut bytes = Vec::new();
        let mut painter = Painter::new(&mut bytes, true);
        let same = live(&["> "], (0, 2));
        painter.draw("", &same).unwrap();
        painter.draw("", &same).unwrap();
        let frames = bytes.windows(6).filter(|piece| piece == b"\x1b[?202");
        assert_eq!(frames.count(), 2);
    }

    #[test]
    fn a_row_that_is_full_keeps_its_last_character() {
        let full = "a row of 20 columns.";
        let (shown, _) = screen(&[
            ("", live(&["something before it", "> "], (1, 2))),
            ("", live(&[full, "> "], (1, 2))),
        ]);
        assert_eq!(shown, format!("{full}\n> \n@1,2"));
    }

    #[test]
    fn rows_above_the_cursor_are_counted_as_the_terminal_wraps_them() {
        let rows = [
            "a row of 20 columns.",
            "\x1b[2m日本\x1b[0m",
            "",
            "> typed here",
        ];
        for (cursor, columns, expected) in [
            ((0, 0), 20, 0),
            ((3, 2), 20, 3),
            ((3, 2), 40, 3),
            ((3, 2), 19, 4),
            ((3, 2), 5, 6),
            ((3, 2), 3, 10),
            ((3, 12), 5, 8),
            ((3, 2), 0, 27),
        ] {
            assert_eq!(
                live(&rows, cursor).above(columns),
                expected,
                "{cursor:?} of {columns}"
            );
        }
    }

    #[test]
    fn a_row_that_is_wider_than_its_terminal_was_drawn_in_one_line() {
        let wide = live(&["a row of more than 20 columns", "> "], (1, 2));
        assert_eq!(wide.above(20), 1);
        assert_eq!(wide.above(10), 2);
    }

    #[test]
    fn colours_take_no_room() {
        assert_eq!(width("\x1b[1;33mdär\x1b[0m 日本"), 8);
    }
}
