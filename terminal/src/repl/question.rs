//! Questions of a run, shown above the typed text. The asking side is in `asker.rs`.
//!
//! The user may be in the middle of a sentence when a question comes. An answer is therefore typed into an editor of its
//! own, and what was typed for the conversation can never become one: with a text, the question waits for Tab; without,
//! until no key was pressed for a moment.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use ah_render::{Line, Palette, Style};

use super::editor::Editor;
use crate::print::question::Sheet;
use crate::print::question::layout::{self, Shown, Window};

/// Rows of the terminal that a question leaves to the typed text and the line below it.
const REST: usize = 3;

/// An open question.
pub struct Panel {
    id: u64,
    /// What is asked; a question may consist of several, one after the other.
    pub sheet: Sheet,
    /// What was wrong with the last answer.
    pub complaint: Option<String>,
    /// Index of the marked answer.
    marked: Option<usize>,
    /// Indices of the chosen answers, where several may be chosen.
    picked: Vec<usize>,
    /// Number of pages turned.
    page: usize,
    /// The last answer.
    said: Option<String>,
    /// Whether the question stands in the scrollback.
    is_printed: bool,
    /// Receiver of the answers, line by line.
    lines: Sender<String>,
}

/// The terminal that questions are shown on.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Columns and lines.
    pub size: (usize, usize),
    /// Colours of printed lines.
    pub palette: Palette,
}

impl Panel {
    /// Returns the question in `rows` rows of a terminal of this width.
    pub fn show(&self, columns: usize, rows: usize) -> Shown {
        let window = Window {
            columns,
            rows,
            marked: self.marked,
            picked: &self.picked,
            page: self.page,
        };
        layout::show(&self.sheet, window)
    }

    /// Replaces what is asked. Returns the lines that belong into the scrollback now.
    fn ask(&mut self, sheet: Sheet, page: Page) -> String {
        let mut printed = self.finish(page);
        self.sheet = sheet;
        self.complaint = None;
        (self.marked, self.picked, self.page) = (None, Vec::new(), 0);
        let (columns, lines) = page.size;
        self.is_printed = self.show(columns, lines.saturating_sub(REST)).is_folded;
        if self.is_printed {
            printed.push_str(&painted(&self.sheet.whole(columns), page.palette));
            printed.push('\n');
        }
        printed
    }

    /// Returns the lines of the question and its answer, as far as they are not printed yet.
    fn finish(&mut self, page: Page) -> String {
        let mut rows = match self.is_printed {
            true => vec![Line::of(&self.sheet.head, Style::BOLD).cut(page.size.0)],
            false => self.sheet.whole(page.size.0),
        };
        if self.sheet.head.is_empty() {
            return String::new();
        }
        if let Some(said) = self.said.take() {
            let said = Line::of(&self.sheet.said(&said), Style::PLAIN);
            let sign = Line::of("→ ", Style::DIM);
            rows.extend(ah_render::wrap(
                &said,
                page.size.0,
                &sign,
                &Line::of("  ", Style::PLAIN),
            ));
        }
        painted(&rows, page.palette)
    }

    /// Returns the line that Enter stands for: the typed text, or what is marked or chosen if nothing is typed.
    fn line(&self, typed: String) -> String {
        if !typed.trim().is_empty() {
            return typed;
        }
        match (self.picked.as_slice(), self.marked) {
            ([], None) => String::new(),
            ([], Some(marked)) => self.sheet.line_of(&[marked]),
            (picked, _) => self.sheet.line_of(picked),
        }
    }
}

fn painted(rows: &[Line], palette: Palette) -> String {
    rows.iter().map(|row| row.paint(palette) + "\n").collect()
}

/// Change of a question, which is named by its id.
pub enum QuestionUpdate {
    /// It is opened; answers go to the sender.
    Opened(u64, Sender<String>),
    /// It waits for an answer, or for another one if something was wrong with the last.
    Asked(u64, Box<Sheet>, Option<String>),
    /// It is answered or withdrawn.
    Closed(u64),
}

/// A key that chooses an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choosing {
    /// Marks the previous answer.
    Up,
    /// Marks the next answer.
    Down,
    /// Chooses the marked answer as one of several.
    Toggle,
    /// Shows the next part of what is folded.
    Page,
}

/// Open questions, of which the first is shown.
#[derive(Default)]
pub struct Questions {
    panels: VecDeque<Panel>,
    /// Whether keys go to the answer.
    is_answering: bool,
    /// Whether the user has turned from the first question to the conversation.
    is_put_off: bool,
}

impl Questions {
    /// Returns the question that is shown.
    pub fn first(&self) -> Option<&Panel> {
        self.panels
            .front()
            .filter(|panel| !panel.sheet.head.is_empty())
    }

    /// Returns whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.panels.is_empty()
    }

    /// Returns whether keys go to the answer.
    pub fn is_answering(&self) -> bool {
        self.is_answering
    }

    /// Returns whether the user has turned from the question to the conversation.
    pub fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// Lets keys go to the answer from now on, unless the user has turned away: nothing else is being typed.
    pub fn listen(&mut self) {
        self.is_answering |= !self.panels.is_empty() && !self.is_put_off;
    }

    /// Applies a change. `reply` is the text of the answer. Returns the lines that belong into the scrollback now.
    pub fn update(
        &mut self,
        update: QuestionUpdate,
        reply: &mut Editor,
        page: Page,
    ) -> Option<String> {
        match update {
            QuestionUpdate::Opened(id, lines) => {
                self.panels.push_back(Panel {
                    id,
                    sheet: Sheet::default(),
                    complaint: None,
                    marked: None,
                    picked: Vec::new(),
                    page: 0,
                    said: None,
                    is_printed: false,
                    lines,
                });
                None
            }
            QuestionUpdate::Asked(id, _, Some(complaint)) => {
                let at = self.panels.iter().position(|panel| panel.id == id)?;
                let panel = &mut self.panels[at];
                panel.complaint = Some(complaint);
                if let Some(said) = panel.said.take().filter(|_| at == 0) {
                    // It can be mended, or shortened.
                    let typed = reply.take();
                    reply.insert(said + &typed);
                }
                None
            }
            QuestionUpdate::Asked(id, sheet, None) => {
                let panel = self.panels.iter_mut().find(|panel| panel.id == id)?;
                let printed = panel.ask(*sheet, page);
                Some(printed).filter(|printed| !printed.is_empty())
            }
            QuestionUpdate::Closed(id) => self.close(id, reply, page),
        }
    }

    fn close(&mut self, id: u64, reply: &mut Editor, page: Page) -> Option<String> {
        let at = self.panels.iter().position(|panel| panel.id == id)?;
        let mut panel = self.panels.remove(at)?;
        if at > 0 {
            return None;
        }
        reply.renew();
        (self.is_answering, self.is_put_off) = (false, false);
        Some(panel.finish(page))
    }

    /// Whether a change closes the question that keys go to, before it was answered here.
    pub fn is_withdrawn_by(&self, change: &QuestionUpdate) -> bool {
        let QuestionUpdate::Closed(id) = change else {
            return false;
        };
        let first = self.panels.front();
        self.is_answering && first.is_some_and(|panel| panel.id == *id && panel.said.is_none())
    }

    /// Switches between the conversation and the answer; returns whether a question is open.
    pub fn switch(&mut self) -> bool {
        if self.panels.is_empty() {
            return false;
        }
        self.is_put_off = self.is_answering;
        self.is_answering = !self.is_answering;
        true
    }

    /// Applies a key that chooses; returns whether it had a meaning.
    pub fn choose(&mut self, key: Choosing) -> bool {
        let Some(panel) = self.panels.front_mut() else {
            return false;
        };
        let last = panel.sheet.answers.len().saturating_sub(1);
        match key {
            Choosing::Down => panel.marked = Some(panel.marked.map_or(0, |at| (at + 1).min(last))),
            Choosing::Up => {
                panel.marked = Some(panel.marked.map_or(last, |at| at.saturating_sub(1)));
            }
            Choosing::Toggle => {
                let Some(at) = panel.marked.filter(|_| panel.sheet.is_multiple) else {
                    return false;
                };
                match panel.picked.iter().position(|picked| *picked == at) {
                    Some(place) => drop(panel.picked.remove(place)),
                    None => panel.picked.push(at),
                }
                panel.picked.sort_unstable();
            }
            Choosing::Page => panel.page += 1,
        }
        true
    }

    /// Sends what was typed in `reply`, or the marked answer.
    pub fn answer(&mut self, typed: String, reply: &mut Editor) {
        if let Some(panel) = self.panels.front_mut()
            && panel.said.is_none()
        {
            reply.take();
            let line = panel.line(typed);
            panel.send(line);
        }
    }
}

impl Panel {
    fn send(&mut self, line: String) {
        if self.said.is_none() {
            self.said = Some(line.clone());
            // If the asking side has gone, the question is closed soon.
            let _ = self.lines.send(line);
        }
    }
}
