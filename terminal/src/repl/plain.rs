//! The conversation line by line, for screen readers and for terminals that cannot move their cursor: nothing is
//! redrawn, and no key has a meaning of its own. The profile `plain-repl` has the prompts of a plain loop.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use ah_conversation::EventKind;
use tokio::sync::mpsc::UnboundedSender;

use super::app::App;
use super::effect::{Effect, Task};
use super::input::{Ending, Input};
use super::picker::{Entry, Picker, Subject};
use super::question::QuestionUpdate;
use super::update::command::chosen;
use super::update::prompt::prompt;
use super::update::submit::{is_exit, submit_line};
use super::update::update;
use crate::glyphs;
use ah_conversation::neutralise;

/// Largest number of entries of a list that are printed.
const LISTED: usize = 50;

/// Style of the prompts and commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainStyle {
    /// As in the full conversation.
    Own,
    /// A plain loop: `you> `, `assistant> `, `exit` and `quit`.
    Loop,
}

/// The driver of the terminal, line by line.
pub struct Plain {
    /// Style of the prompts.
    pub style: PlainStyle,
    /// State of the terminal.
    pub app: App,
    /// Tasks for the session.
    pub tasks: UnboundedSender<Task>,
    /// Receiver of the answers to the open question.
    pub answers: Option<Sender<String>>,
    /// What was chosen from a list.
    pub chosen: Option<(Subject, String)>,
    /// Whether a task is not done yet.
    pub is_busy: bool,
    /// Whether the announced answer is requested again.
    pub is_asked_again: bool,
    /// Whether an answer is announced and nothing of it was printed yet.
    pub is_announced: bool,
}

impl Plain {
    /// Reads and prints in turn until the user exits or the input ends.
    pub fn run(mut self, happened: &Receiver<Input>) {
        // The first input is the session.
        if let Ok(opened) = happened.recv() {
            self.take(opened);
        }
        while self.ask() && self.show(happened) {}
        // If the session has ended, it says so itself.
        let _ = self.tasks.send(Task::Quit);
    }

    /// Reads until there is a task; returns `false` if the user exits.
    fn ask(&mut self) -> bool {
        let prompt = match self.style {
            PlainStyle::Own => "> ",
            PlainStyle::Loop => "you> ",
        };
        while !self.is_busy {
            print(prompt);
            let Some(line) = read() else {
                print("\n");
                return false;
            };
            let typed = line.trim();
            match self.style {
                PlainStyle::Loop if matches!(typed, "exit" | "quit") => return false,
                PlainStyle::Loop if typed.is_empty() => {}
                PlainStyle::Loop => self.begin(typed),
                PlainStyle::Own => {
                    self.app.editor.set(typed);
                    let effects = submit_line(&mut self.app, Instant::now());
                    if !effects.into_iter().all(|effect| self.perform(effect)) {
                        return false;
                    }
                    if let Some(picker) = self.app.picker.take() {
                        self.chosen = offer(picker);
                    }
                    if !self.is_busy && !self.choose() {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Runs a prompt without printing it: the terminal has echoed it.
    fn begin(&mut self, typed: &str) {
        (self.is_asked_again, self.is_announced) = (false, false);
        let effects = prompt(&mut self.app, typed, typed.to_owned(), Instant::now());
        for effect in effects {
            if matches!(effect, Effect::Task(_)) {
                self.perform(effect);
            }
        }
    }

    /// Handles inputs until the task has ended; returns `false` if the program ends.
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
            Input::Done => {
                self.is_busy = false;
                return self.choose();
            }
            Input::Written(text) | Input::Output(text) => {
                self.is_announced = false;
                print_answer(&text);
            }
            Input::Noted(text) => {
                let is_one = io::stdout().is_terminal() && io::stderr().is_terminal();
                if std::mem::take(&mut self.is_announced) && is_one {
                    print("\n");
                }
                note(&text);
            }
            Input::Event(kind) => self.announce(&kind),
            Input::Question(QuestionUpdate::Opened(_, lines)) => self.answers = Some(lines),
            Input::Question(QuestionUpdate::Asked(_, sheet, complaint)) => {
                let text = complaint.map_or_else(|| sheet.text(), |complaint| complaint + "\n");
                print(&format!("{text}{}", sheet.prompt));
                self.answer();
            }
            Input::Question(QuestionUpdate::Closed(_)) => self.answers = None,
            Input::Pick(picker) => self.chosen = offer(picker),
            Input::Ended(Ending::Failed(message, hint)) if self.style == PlainStyle::Loop => {
                note(&format!("Error: {}\n", neutralise(&message)));
                if let Some(hint) = hint {
                    note(&format!("hint: {}\n", neutralise(&hint)));
                }
                self.app.work = None;
                print("\n");
            }
            input => {
                let effects = update(&mut self.app, input, Instant::now());
                return effects.into_iter().all(|effect| self.perform(effect));
            }
        }
        true
    }

    /// Carries out what was chosen from a list, now that the task that listed it is done.
    fn choose(&mut self) -> bool {
        let Some((subject, value)) = self.chosen.take() else {
            return true;
        };
        let effects = chosen(&mut self.app, subject, &value, Instant::now());
        effects.into_iter().all(|effect| self.perform(effect))
    }

    /// Prints the speaker before each answer in a plain loop.
    fn announce(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Retry { .. } => self.is_asked_again = true,
            EventKind::ApiCallStart { .. } => {
                let is_again = std::mem::take(&mut self.is_asked_again);
                if self.style == PlainStyle::Loop && !is_again {
                    print("\nassistant> ");
                    self.is_announced = true;
                }
            }
            _ => {}
        }
    }

    /// Answers the question with the next line.
    fn answer(&mut self) {
        let line = read();
        let line = line.filter(|line| !is_exit(line));
        match (&self.answers, line) {
            (Some(lines), Some(line)) => {
                let _ = lines.send(line);
            }
            // No answer can come any more.
            (_, None) => self.answers = None,
            (None, Some(_)) => {}
        }
    }

    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Print(text) | Effect::Output(text) => print(&text),
            Effect::Task(task) => self.is_busy = self.tasks.send(task).is_ok(),
            Effect::ScrollAway
            | Effect::OpenEditor
            | Effect::ListFiles
            | Effect::Status
            | Effect::Ring(_)
            | Effect::Skip(_)
            | Effect::Suspend
            | Effect::Continue => {}
            Effect::Quit => return false,
        }
        true
    }
}

/// Prints a list with numbers, and returns the choice.
fn offer(picker: Picker) -> Option<(Subject, String)> {
    let subject = picker.subject;
    let entries = picker.into_entries();
    print(&list(&entries));
    if entries.is_empty() {
        return None;
    }
    print("A number, or Enter for none: ");
    let entry = number(&read()?, &entries)?;
    Some((subject, entry.value.clone()))
}

/// Returns the entries with their numbers, which are accepted also for those that are left out.
fn list(entries: &[Entry]) -> String {
    let mut text = String::new();
    for (at, entry) in entries.iter().take(LISTED).enumerate() {
        let label = neutralise(&entry.label).replace('\n', "\n      ");
        text.push_str(&format!("{:>4}  {label}\n", at + 1));
    }
    match entries.len().saturating_sub(LISTED) {
        0 if entries.is_empty() => text.push_str("  nothing to choose\n"),
        0 => {}
        more => text.push_str(&format!("      and {more} more\n")),
    }
    text
}

/// Returns the entry of a typed number.
fn number<'a>(line: &str, entries: &'a [Entry]) -> Option<&'a Entry> {
    let number: usize = line.trim().parse().ok()?;
    entries.get(number.checked_sub(1)?)
}

/// Returns the next line; `None` at the end of the input.
fn read() -> Option<String> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line).ok()?;
    (count > 0).then_some(line)
}

/// Prints an answer, which a program gets as the model has written it.
fn print_answer(text: &str) {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        drop(out);
        return print(text);
    }
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints to standard output. If that is closed, nothing can be reported.
fn print(text: &str) {
    let mut out = glyphs::out();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn note(text: &str) {
    let _ = glyphs::err().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_numbered_and_a_number_chooses() {
        let entry = |n: usize| Entry {
            label: format!("one\n{n}"),
            value: n.to_string(),
        };
        let entries: Vec<_> = (1..=52).map(entry).collect();
        let text = list(&entries);
        assert!(
            text.starts_with("   1  one\n      1\n   2  one\n"),
            "{text}"
        );
        assert!(
            text.ends_with("  50  one\n      50\n      and 2 more\n"),
            "{text}"
        );
        for (line, expected) in [
            ("1\n", Some("1")),
            (" 52 ", Some("52")),
            ("0", None),
            ("53", None),
            ("", None),
            ("no", None),
        ] {
            let chosen = number(line, &entries).map(|entry| entry.value.as_str());
            assert_eq!(chosen, expected, "{line:?}");
        }
    }
}
