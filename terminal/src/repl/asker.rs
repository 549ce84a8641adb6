//! The asking side of a question in the conversation: what is asked goes to the terminal, and typed lines come back, so
//! that the same code asks as without a conversation (`print/question.rs`).

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::input::Input;
use super::question::QuestionUpdate;
use crate::print::question::{Form, Sheet};

/// The side of a question that asks.
pub struct Asker {
    id: u64,
    inputs: Sender<Input>,
    typed: Receiver<String>,
}

impl Asker {
    /// Opens a question.
    pub fn open(inputs: &Sender<Input>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (lines, typed) = channel();
        let _ = inputs.send(Input::Question(QuestionUpdate::Opened(id, lines)));
        Self {
            id,
            inputs: inputs.clone(),
            typed,
        }
    }

    /// Returns what closes the question when it is dropped: also if nobody waits for the answer any more.
    pub fn closer(&self) -> Closer {
        Closer {
            id: self.id,
            inputs: self.inputs.clone(),
        }
    }
}

/// Closes a question when it is dropped.
pub struct Closer {
    id: u64,
    inputs: Sender<Input>,
}

impl Drop for Closer {
    fn drop(&mut self) {
        let _ = self
            .inputs
            .send(Input::Question(QuestionUpdate::Closed(self.id)));
    }
}

impl Form for Asker {
    fn fill(&mut self, sheet: &Sheet, complaint: Option<&str>) -> io::Result<Option<String>> {
        let complaint = complaint.map(str::to_owned);
        let asked = QuestionUpdate::Asked(self.id, Box::new(sheet.clone()), complaint);
        let _ = self.inputs.send(Input::Question(asked));
        // If nobody can answer, this is the end of the input.
        let line = self.typed.recv().ok();
        Ok(line.map(|line| line.replace('\n', " ").trim().to_owned()))
    }
}
