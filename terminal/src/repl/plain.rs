//! The conversation line by line, for screen readers and for terminals that cannot move their cursor: nothing is drawn
//! twice, and no key has a meaning of its own. The profile `plain-repl` has the words of a plain loop.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use ah_conversation::EventKind;
use tokio::sync::mpsc::UnboundedSender;

use super::app::{App, Effect, Ending, Input, Task};
use super::question::News;
use super::update;
use crate::print::neutralise;

/// How it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// As the conversation does.
    Own,
    /// As a plain loop: `you> `, `assistant> `, `exit` and `quit`.
    Loop,
}

/// The terminal's side, line by line.
pub struct Plain {
    /// How it speaks.
    pub words: Words,
    /// What is known.
    pub app: App,
    /// What is wanted.
    pub tasks: UnboundedSender<Task>,
    /// Whether something is being done.
    pub is_busy: bool,
    /// Whether the model is asked once more for the answer that is announced already.
    pub is_asked_again: bool,
    /// Whether an answer is announced of which nothing has come yet.
    pub is_announced: bool,
}

impl Plain {
    /// Reads and prints in turn, until somebody leaves or nothing more can be read.
    pub fn run(mut self, happened: &Receiver<Input>) {
        // The session is introduced first.
        if let Ok(opened) = happened.recv() {
            self.take(opened);
        }
        while self.ask() && self.show(happened) {}
        // Where the other side has ended, it says so.
        let _ = self.tasks.send(Task::Quit);
    }

    /// Reads until there is something to do; `false` where somebody leaves.
    fn ask(&mut self) -> bool {
        let prompt = match self.words {
            Words::Own => "> ",
            Words::Loop => "you> ",
        };
        while !self.is_busy {
            print(prompt);
            let Some(line) = read() else {
                print("\n");
                return false;
            };
            let typed = line.trim();
            match self.words {
                Words::Loop if matches!(typed, "exit" | "quit") => return false,
                Words::Loop if typed.is_empty() => {}
                Words::Loop => self.begin(typed),
                Words::Own => {
                    self.app.editor.set(typed);
                    let effects = update::submit_line(&mut self.app, Instant::now());
                    if !effects.into_iter().all(|effect| self.perform(effect)) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// A prompt is not shown again: whoever typed it has seen it.
    fn begin(&mut self, typed: &str) {
        (self.is_asked_again, self.is_announced) = (false, false);
        let effects = update::prompt(&mut self.app, typed, typed.to_owned(), Instant::now());
        for effect in effects {
            if matches!(effect, Effect::Task(_)) {
                self.perform(effect);
            }
        }
    }

    /// Shows what happens until the task has ended; `false` where the program has to.
    fn show(&mut self, happened: &Receiver<Input>) -> bool {
        while self.is_busy {
            let Ok(input) = happened.recv() else {
                return false;
            };
            if !self.take(input) {
                return false;
            }
        }
        true
    }

    fn take(&mut self, input: Input) -> bool {
        match input {
            Input::Done => self.is_busy = false,
            Input::Written(text) => {
                self.is_announced = false;
                print(&text);
            }
            Input::Noted(text) => {
                let is_one = io::stdout().is_terminal() && io::stderr().is_terminal();
                if std::mem::take(&mut self.is_announced) && is_one {
                    print("\n");
                }
                note(&text);
            }
            Input::Event(kind) => self.announce(&kind),
            Input::Question(News::Put(_, lines)) => self.app.answers = Some(lines),
            Input::Question(News::Says(_, text)) => print(&text),
            Input::Question(News::Waits(_)) => self.answer(),
            Input::Question(News::Over(_)) => self.app.answers = None,
            Input::Pick(picker) => {
                for (entry, _) in picker.window() {
                    print(&format!("  {}\n", neutralise(&entry.label)));
                }
            }
            Input::Ended(Ending::Failed(message, hint)) if self.words == Words::Loop => {
                note(&format!("Error: {}\n", neutralise(&message)));
                if let Some(hint) = hint {
                    note(&format!("hint: {}\n", neutralise(&hint)));
                }
                self.app.work = None;
                print("\n");
            }
            input => {
                let effects = update::update(&mut self.app, input, Instant::now());
                return effects.into_iter().all(|effect| self.perform(effect));
            }
        }
        true
    }

    /// A plain loop says before each answer who speaks.
    fn announce(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Retry { .. } => self.is_asked_again = true,
            EventKind::ApiCallStart { .. } => {
                let is_again = std::mem::take(&mut self.is_asked_again);
                if self.words == Words::Loop && !is_again {
                    print("\nassistant> ");
                    self.is_announced = true;
                }
            }
            _ => {}
        }
    }

    /// What is read next answers the question.
    fn answer(&mut self) {
        let line = read();
        match (&self.app.answers, line) {
            (Some(lines), Some(line)) => {
                let _ = lines.send(line);
            }
            // Nobody can answer any more.
            (_, None) => self.app.answers = None,
            (None, Some(_)) => {}
        }
    }

    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Print(text) => print(&text),
            Effect::Task(task) => self.is_busy = self.tasks.send(task).is_ok(),
            Effect::ScrollAway
            | Effect::OpenEditor
            | Effect::ListFiles
            | Effect::Status
            | Effect::Ring(_) => {}
            Effect::Quit => return false,
        }
        true
    }
}

/// Where the answers to a question go.
pub type Answers = Sender<String>;

/// The next line; `None` where there is none.
fn read() -> Option<String> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line).ok()?;
    (count > 0).then_some(line)
}

/// Where a stream is closed there is nobody to tell.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
