//! Whoever shows a question and returns what was typed: line by line here, with arrow keys in the conversation.

use std::io::{self, BufRead, IsTerminal as _, Write};

use ah_conversation::PermissionAnswer;
use ah_render::Palette;
use rustix::termios::{QueueSelector, tcflush};

use super::layout::{self, Window};
use super::sheet::{Said, Sheet};
use crate::glyphs;
use crate::print::Size;
use crate::print::in_short::REFUSED;

/// A place where questions are asked.
pub trait Form {
    /// Shows the question, or with a complaint what was wrong with the last answer, and returns the next typed line;
    /// `None` if there will be none.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read or written.
    fn fill(&mut self, sheet: &Sheet, complaint: Option<&str>) -> io::Result<Option<String>>;
}

/// Asks until there is an answer; `None` if there will be none.
pub fn answer(sheet: &Sheet, form: &mut impl Form) -> io::Result<Option<Said>> {
    let mut complaint = None;
    while let Some(line) = form.fill(sheet, complaint.as_deref())? {
        match sheet.read(&line) {
            Some(said) => return Ok(Some(said)),
            None => complaint = Some(sheet.complaint(&line)),
        }
    }
    Ok(None)
}

/// Questions as lines of text.
pub struct Lines<R, W> {
    /// What is typed.
    pub input: R,
    /// Where questions are written.
    pub output: W,
    /// Size of the terminal, if that is known: of a question that does not fit, what matters is repeated.
    pub size: Option<Size>,
}

impl Lines<io::StdinLock<'static>, glyphs::Err> {
    /// Returns the form of the process's own terminal, which has this size.
    pub fn of_process(size: Size) -> Self {
        Self {
            input: io::stdin().lock(),
            output: glyphs::err(),
            size: Some(size),
        }
    }
}

impl<R: BufRead, W: Write> Form for Lines<R, W> {
    fn fill(&mut self, sheet: &Sheet, complaint: Option<&str>) -> io::Result<Option<String>> {
        if self.size.is_some() && forget_typed() {
            writeln!(
                self.output,
                "(what you typed before this question was not taken as an answer)"
            )?;
        }
        match complaint {
            Some(complaint) => writeln!(self.output, "{complaint}")?,
            None => self.output.write_all(text(sheet, self.size).as_bytes())?,
        }
        write!(self.output, "{}", sheet.prompt)?;
        self.output.flush()?;
        let mut line = String::new();
        let has_line = self.input.read_line(&mut line)? > 0;
        Ok(has_line.then(|| line.trim().to_owned()))
    }
}

/// Drops the lines that a person has typed at the terminal before it asks; returns whether there was one.
fn forget_typed() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal()
        && rustix::io::ioctl_fionread(&stdin).is_ok_and(|count| count > 0)
        && tcflush(&stdin, QueueSelector::IFlush).is_ok()
}

/// Returns the question as text. If it is longer than the terminal, its beginning is repeated with the answers.
fn text(sheet: &Sheet, size: Option<Size>) -> String {
    let text = sheet.text();
    let Some(size) = size else {
        return text;
    };
    let height = size.height.saturating_sub(1).max(4);
    let width = size.width.max(8);
    let rows: usize = text
        .lines()
        .map(|line| line.chars().count().div_ceil(width).max(1))
        .sum();
    if rows < height {
        return text;
    }
    let shown = layout::show(
        sheet,
        Window {
            columns: width,
            rows: height,
            marked: None,
            picked: &[],
            page: 0,
        },
    );
    let mut text = String::from("\n");
    let whole = sheet.whole(width).into_iter();
    for row in whole.chain([ah_render::Line::default()]).chain(shown.rows) {
        // No key opens what is folded here: it is above.
        let row = row.paint(Palette::Plain).replace(" (Ctrl-O)", " above");
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    text
}

/// Returns the refusal of a tool call, with the reason if one was given.
pub fn refused(reason: &str) -> PermissionAnswer {
    let message = match reason {
        "" => format!("{REFUSED}. Ask what they want instead, or continue without it."),
        reason => format!("{REFUSED}: {reason}"),
    };
    PermissionAnswer::Deny {
        message,
        interrupt: false,
    }
}
