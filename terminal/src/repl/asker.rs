//! The asking side of a question in the conversation: a writer for its text and a reader for the answers, so that the
//! same code asks as without a conversation (`print/question.rs`).

use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::input::Input;
use super::question::QuestionUpdate;

/// The side of a question that asks.
pub struct Asker {
    id: u64,
    inputs: Sender<Input>,
}

impl Asker {
    /// Opens a question. It is closed when the asker is dropped.
    pub fn open(inputs: &Sender<Input>) -> (Self, AnswerReader, QuestionWriter) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (lines, typed) = channel();
        let _ = inputs.send(Input::Question(QuestionUpdate::Opened(id, lines)));
        let asker = Self {
            id,
            inputs: inputs.clone(),
        };
        let reader = AnswerReader {
            typed,
            line: Vec::new(),
            at: 0,
        };
        let writer = QuestionWriter {
            id,
            inputs: inputs.clone(),
        };
        (asker, reader, writer)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self
            .inputs
            .send(Input::Question(QuestionUpdate::Closed(self.id)));
    }
}

/// Reads the answers.
pub struct AnswerReader {
    typed: Receiver<String>,
    line: Vec<u8>,
    at: usize,
}

impl Read for AnswerReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for AnswerReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.line.len() {
            // If nobody can answer, this is the end of the input.
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

/// Writes the text of a question.
pub struct QuestionWriter {
    id: u64,
    inputs: Sender<Input>,
}

impl Write for QuestionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let _ = self
            .inputs
            .send(Input::Question(QuestionUpdate::Text(self.id, text)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self
            .inputs
            .send(Input::Question(QuestionUpdate::Waiting(self.id)));
        Ok(())
    }
}
