//! Questions of a run, put above the line that is typed. They are asked by the same code as without a conversation
//! (`print/question.rs`): what it writes stands in a panel, what it reads is what is typed and entered there.
//!
//! Somebody may be in the middle of a sentence when a question comes. What is typed then stays what it was, and the
//! question waits for Tab; where nothing is typed, the next line is the answer.

use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::app::{App, Effect, Input};
use super::view;

/// A question that is put.
pub struct Panel {
    id: u64,
    /// What was written so far.
    pub text: String,
    /// Takes the lines that are answered.
    lines: Sender<String>,
}

impl Panel {
    /// The lines that stand above, and the beginning of the one that is answered in.
    pub fn parts(&self) -> (&str, &str) {
        match self.text.rfind('\n') {
            Some(end) => (&self.text[..end], &self.text[end + 1..]),
            None => ("", &self.text),
        }
    }
}

/// What happens to questions.
pub enum News {
    /// One is put; what is answered is to be sent there.
    Put(u64, Sender<String>),
    /// One says more.
    Says(u64, String),
    /// One has said all, and waits.
    Waits(u64),
    /// One is answered, or nobody wants to know any more.
    Over(u64),
}

/// Takes in what happens to questions.
pub fn update(app: &mut App, news: News) -> Vec<Effect> {
    match news {
        News::Put(id, lines) => {
            app.questions.push_back(Panel {
                id,
                text: String::new(),
                lines,
            });
            if app.questions.len() == 1 {
                app.is_answering = app.editor.is_empty();
            }
            Vec::new()
        }
        News::Says(id, text) => {
            if let Some(panel) = app.questions.iter_mut().find(|panel| panel.id == id) {
                panel.text.push_str(&text);
            }
            Vec::new()
        }
        News::Waits(_) => Vec::new(),
        News::Over(id) => {
            let Some(at) = app.questions.iter().position(|panel| panel.id == id) else {
                return Vec::new();
            };
            let panel = app.questions.remove(at);
            if at > 0 {
                return Vec::new();
            }
            if app.is_answering {
                app.is_answering = false;
                app.editor.take();
                let aside = std::mem::take(&mut app.aside);
                app.editor.insert(aside);
            }
            app.is_answering = !app.questions.is_empty() && app.editor.is_empty();
            let shown = panel.map(|panel| panel.text).unwrap_or_default();
            let lines = shown.trim_matches('\n').lines();
            let rows = lines.flat_map(|line| view::hang(line, app.size.0));
            vec![Effect::Print(rows.map(|row| row + "\n").collect())]
        }
    }
}

/// Goes from what is typed to the question, or back; `false` where there is none.
pub fn turn(app: &mut App) -> bool {
    if app.questions.is_empty() {
        return false;
    }
    app.is_answering = !app.is_answering;
    let typed = app.editor.take();
    let aside = std::mem::replace(&mut app.aside, typed);
    app.editor.insert(aside);
    true
}

/// Answers with what is typed.
pub fn answer(app: &mut App) {
    let line = app.editor.take();
    if let Some(panel) = app.questions.front_mut() {
        panel
            .text
            .push_str(&format!("{}\n", crate::print::neutralise(&line)));
        // Whoever asked may have gone; that is told besides.
        let _ = panel.lines.send(line);
    }
}

/// The end of a question at which a run asks.
pub struct Asker {
    id: u64,
    inputs: Sender<Input>,
}

impl Asker {
    /// Puts a question. It is gone when the asker is.
    pub fn put(inputs: &Sender<Input>) -> (Self, Lines, Words) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (lines, typed) = channel();
        let _ = inputs.send(Input::Question(News::Put(id, lines)));
        let asker = Self {
            id,
            inputs: inputs.clone(),
        };
        let lines = Lines {
            typed,
            line: Vec::new(),
            at: 0,
        };
        let words = Words {
            id,
            inputs: inputs.clone(),
        };
        (asker, lines, words)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Question(News::Over(self.id)));
    }
}

/// What is answered, to be read.
pub struct Lines {
    typed: Receiver<String>,
    line: Vec<u8>,
    at: usize,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Lines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.line.len() {
            // Without anybody to answer, there is nothing to read.
            self.line = match self.typed.recv() {
                Ok(line) => format!("{}\n", line.replace('\n', " ")).into_bytes(),
                Err(_) => Vec::new(),
            };
            self.at = 0;
        }
        Ok(&self.line[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

/// What a question says, to be written.
pub struct Words {
    id: u64,
    inputs: Sender<Input>,
}

impl Write for Words {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let _ = self.inputs.send(Input::Question(News::Says(self.id, text)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.inputs.send(Input::Question(News::Waits(self.id)));
        Ok(())
    }
}
