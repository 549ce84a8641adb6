//! Questions of a run, shown above the typed text. The asking side is in `asker.rs`.
//!
//! The user may be in the middle of a sentence when a question comes. The typed text then stays, and the question waits
//! for Tab; if nothing is typed, the next line is the answer.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use super::editor::Editor;
use super::layout::hang;
use ah_conversation::neutralise;

/// An open question.
pub struct Panel {
    id: u64,
    /// Text so far.
    pub text: String,
    /// Receiver of the answers, line by line.
    lines: Sender<String>,
}

impl Panel {
    /// Returns the complete lines, and the beginning of the one that the answer follows.
    pub fn parts(&self) -> (&str, &str) {
        match self.text.rfind('\n') {
            Some(end) => (&self.text[..end], &self.text[end + 1..]),
            None => ("", &self.text),
        }
    }
}

/// Change of a question, which is named by its id.
pub enum QuestionUpdate {
    /// It is opened; answers go to the sender.
    Opened(u64, Sender<String>),
    /// Its text continues.
    Text(u64, String),
    /// Its text is complete, and it waits for an answer.
    Waiting(u64),
    /// It is answered or withdrawn.
    Closed(u64),
}

/// Open questions, of which the first is shown.
#[derive(Default)]
pub struct Questions {
    panels: VecDeque<Panel>,
    /// Whether the typed text is the answer.
    is_answering: bool,
    /// Typed text that waits while an answer is typed, or the other way round.
    aside: String,
}

impl Questions {
    /// Returns the question that is shown.
    pub fn first(&self) -> Option<&Panel> {
        self.panels.front()
    }

    /// Returns whether no question is open.
    pub fn is_empty(&self) -> bool {
        self.panels.is_empty()
    }

    /// Returns whether the typed text is the answer.
    pub fn is_answering(&self) -> bool {
        self.is_answering
    }

    /// Applies a change. Returns the lines of a question that was closed, to be printed.
    pub fn update(
        &mut self,
        update: QuestionUpdate,
        editor: &mut Editor,
        columns: usize,
    ) -> Option<String> {
        match update {
            QuestionUpdate::Opened(id, lines) => {
                self.panels.push_back(Panel {
                    id,
                    text: String::new(),
                    lines,
                });
                if self.panels.len() == 1 {
                    self.is_answering = editor.is_empty();
                }
                None
            }
            QuestionUpdate::Text(id, text) => {
                if let Some(panel) = self.panels.iter_mut().find(|panel| panel.id == id) {
                    panel.text.push_str(&text);
                }
                None
            }
            QuestionUpdate::Waiting(_) => None,
            QuestionUpdate::Closed(id) => self.close(id, editor, columns),
        }
    }

    fn close(&mut self, id: u64, editor: &mut Editor, columns: usize) -> Option<String> {
        let at = self.panels.iter().position(|panel| panel.id == id)?;
        let panel = self.panels.remove(at)?;
        if at > 0 {
            return None;
        }
        if self.is_answering {
            editor.take();
            editor.insert(std::mem::take(&mut self.aside));
        }
        self.answer_if_idle(editor);
        let rows = panel
            .text
            .trim_matches('\n')
            .lines()
            .flat_map(|line| hang(line, columns));
        Some(rows.map(|row| row + "\n").collect())
    }

    /// Takes what is typed next as the answer if a question is open and nothing is typed yet.
    fn answer_if_idle(&mut self, editor: &Editor) {
        self.is_answering = !self.panels.is_empty() && editor.is_empty();
    }

    /// Takes what is typed next as the answer if a question is open: the typed text was submitted.
    pub fn resume(&mut self) {
        self.is_answering = !self.panels.is_empty();
    }

    /// Switches between the typed text and the answer; returns whether a question is open.
    pub fn switch(&mut self, editor: &mut Editor) -> bool {
        if self.panels.is_empty() {
            return false;
        }
        self.is_answering = !self.is_answering;
        let typed = editor.take();
        editor.insert(std::mem::replace(&mut self.aside, typed));
        true
    }

    /// Sends the typed text as the answer.
    pub fn answer(&mut self, editor: &mut Editor) {
        let line = editor.take();
        if let Some(panel) = self.panels.front_mut() {
            panel.text.push_str(&neutralise(&line));
            panel.text.push('\n');
            // If the asking side has gone, the question is closed soon.
            let _ = panel.lines.send(line);
        }
    }
}
