//! The conversation line by line, for screen readers and for terminals that cannot move their cursor: nothing is
//! redrawn, and no key has a meaning of its own. The profile `plain-repl` has the prompts of a plain loop.

use std::collections::VecDeque;
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
const CHOOSE: &str = "A number, a part of the text, or Enter for none: ";

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
    /// What the next typed line is.
    awaited: Awaited,
    /// Lines that were typed while none was awaited; `None` is the end of the input.
    typed: VecDeque<Option<String>>,
    /// Whether no more lines come.
    is_over: bool,
    /// Receiver of the answers to the open question.
    answers: Option<Sender<String>>,
    /// What was chosen from a list.
    chosen: Option<(Subject, String)>,
    /// Whether a task is not done yet.
    is_busy: bool,
    /// Whether the announced answer is requested again.
    is_asked_again: bool,
    /// Whether an answer is announced and nothing of it was printed yet.
    is_announced: bool,
}

/// What a typed line is.
enum Awaited {
    /// Something that is wanted later.
    Nothing,
    /// What the user wants next.
    Prompt,
    /// An answer to the open question.
    Answer,
    /// The number of an entry.
    Choice(Subject, Vec<Entry>),
}

impl Plain {
    /// Returns the driver of a terminal in this state.
    pub fn new(style: PlainStyle, app: App, tasks: UnboundedSender<Task>) -> Self {
        Self {
            style,
            app,
            tasks,
            awaited: Awaited::Nothing,
            typed: VecDeque::new(),
            is_over: false,
            answers: None,
            chosen: None,
            is_busy: false,
            is_asked_again: false,
            is_announced: false,
        }
    }

    /// Reads and prints until the user exits or the input ends. `inputs` is the other end of `happened`.
    pub fn run(mut self, happened: &Receiver<Input>, inputs: Sender<Input>) {
        // The first input is the session.
        if let Ok(opened) = happened.recv() {
            self.take(opened);
        }
        let reader = std::thread::Builder::new().name("input".to_owned());
        if let Err(error) = reader.spawn(move || read_lines(&inputs)) {
            note(&format!("error: cannot read the input: {error}\n"));
            self.is_over = true;
        }
        while self.go_on() {
            let Ok(input) = happened.recv() else {
                break;
            };
            if !self.take(input) {
                break;
            }
        }
        // If the session has ended, it says so itself.
        let _ = self.tasks.send(Task::Quit);
    }

    /// Asks what comes next if nothing runs, and uses lines that are there already; returns `false` if the user exits.
    fn go_on(&mut self) -> bool {
        loop {
            if matches!(self.awaited, Awaited::Nothing) && !self.is_busy {
                // The task that listed it is done now.
                if let Some((subject, value)) = self.chosen.take() {
                    let effects = chosen(&mut self.app, subject, &value, Instant::now());
                    if !self.carry_out(effects) {
                        return false;
                    }
                    continue;
                }
                print(match self.style {
                    PlainStyle::Own => "> ",
                    PlainStyle::Loop => "you> ",
                });
                self.awaited = Awaited::Prompt;
            }
            // What a person has typed before a question is no answer to it.
            let takes_earlier = match self.awaited {
                Awaited::Nothing => false,
                Awaited::Prompt => true,
                Awaited::Answer | Awaited::Choice(..) => !io::stdin().is_terminal(),
            };
            let line = match self.typed.pop_front_if(|_| takes_earlier) {
                Some(line) => line,
                None if self.is_over && takes_earlier => None,
                None => return true,
            };
            if !self.accept(line) {
                return false;
            }
        }
    }

    /// Uses a line for what it was awaited for, `None` being the end of the input; returns `false` if the user exits.
    fn accept(&mut self, line: Option<String>) -> bool {
        match (std::mem::replace(&mut self.awaited, Awaited::Nothing), line) {
            (Awaited::Nothing, line) => self.typed.push_back(line),
            (Awaited::Prompt, None) => {
                print("\n");
                return false;
            }
            (Awaited::Prompt, Some(line)) => return self.submit(line.trim()),
            (Awaited::Answer, line) => self.answer(line),
            (Awaited::Choice(subject, entries), line) => self.pick(subject, entries, line),
        }
        true
    }

    fn submit(&mut self, typed: &str) -> bool {
        match self.style {
            PlainStyle::Loop if matches!(typed, "exit" | "quit") => return false,
            PlainStyle::Loop if typed.is_empty() => {}
            PlainStyle::Loop => self.begin(typed),
            PlainStyle::Own => {
                self.app.editor.set(typed);
                let effects = submit_line(&mut self.app, Instant::now());
                if !self.carry_out(effects) {
                    return false;
                }
                self.tell_hint();
                if let Some(picker) = self.app.picker.take() {
                    self.offer(picker);
                }
            }
        }
        true
    }

    fn tell_hint(&mut self) {
        if let Some(hint) = self.app.hint.take() {
            print(&format!("{hint}\n"));
        }
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

    fn take(&mut self, input: Input) -> bool {
        match input {
            Input::Done => self.is_busy = false,
            Input::Line(line) => {
                self.is_over |= line.is_none() && !io::stdin().is_terminal();
                return self.accept(line);
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
                // The user was about to type something else.
                let before = match self.awaited {
                    Awaited::Prompt => "\n",
                    _ => "",
                };
                print(&format!("{before}{text}{}", sheet.prompt));
                self.awaited = Awaited::Answer;
            }
            Input::Question(QuestionUpdate::Closed(_)) => {
                self.answers = None;
                if matches!(self.awaited, Awaited::Answer) {
                    print("\n");
                    self.awaited = Awaited::Nothing;
                }
            }
            Input::Pick(picker) => self.offer(picker),
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
                let goes_on = self.carry_out(effects);
                self.tell_hint();
                return goes_on;
            }
        }
        true
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

    /// Answers the question with a line.
    fn answer(&mut self, line: Option<String>) {
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

    /// Prints a list with numbers, of which the user may type one.
    fn offer(&mut self, picker: Picker) {
        let subject = picker.subject;
        let entries = picker.into_entries();
        print(&list(&entries));
        if !entries.is_empty() {
            print(CHOOSE);
            self.awaited = Awaited::Choice(subject, entries);
        }
    }

    /// Notes the choice of a typed number, or of a text that is in one entry alone; asks again if there are several, or none.
    fn pick(&mut self, subject: Subject, entries: Vec<Entry>, line: Option<String>) {
        let line = line.unwrap_or_default();
        let typed = line.trim();
        if typed.is_empty() {
            return;
        }
        let found = found(typed, &entries);
        match found.as_slice() {
            [entry] => self.chosen = Some((subject, entry.value.clone())),
            [] => {
                print(&format!(
                    "nothing contains `{}`\n{CHOOSE}",
                    neutralise(typed)
                ));
                self.awaited = Awaited::Choice(subject, entries);
            }
            _ => {
                print(&format!("{}{CHOOSE}", list(&found)));
                self.awaited = Awaited::Choice(subject, found);
            }
        }
    }

    /// Carries out effects; returns `false` if the program ends.
    fn carry_out(&mut self, effects: Vec<Effect>) -> bool {
        effects.into_iter().all(|effect| self.perform(effect))
    }

    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Print(text) | Effect::Output(text) => print(&text),
            Effect::Task(task) => self.is_busy = self.tasks.send(task).is_ok(),
            // The lines of the terminal are read here already.
            Effect::Lend(lent) => {
                let command = lent.arguments.join(" ");
                print(&format!("  leave with /exit and run `ah {command}`\n"));
                self.is_busy = self.tasks.send(lent.then).is_ok();
            }
            Effect::ScrollAway
            | Effect::OpenEditor
            | Effect::ListFiles
            | Effect::Status
            | Effect::Ring(_)
            | Effect::Copy(_)
            | Effect::Skip(_)
            | Effect::Suspend
            | Effect::Continue => {}
            Effect::Quit => return false,
        }
        true
    }
}

/// Returns the entries with their numbers, which are accepted also for those that are left out.
fn list(entries: &[Entry]) -> String {
    let mut text = String::new();
    for (at, entry) in entries.iter().take(LISTED).enumerate() {
        let label = neutralise(&entry.label).replace('\n', "\n      ");
        text.push_str(&format!("{:>4}  {label}\n", at + 1));
    }
    match entries.len().saturating_sub(LISTED) {
        0 if entries.is_empty() => text.push_str("  nothing to choose from\n"),
        0 => {}
        more => text.push_str(&format!("      and {more} more\n")),
    }
    text
}

/// Returns the entry of a typed number, else those that contain what was typed.
fn found(typed: &str, entries: &[Entry]) -> Vec<Entry> {
    let number = typed.parse::<usize>().ok();
    if let Some(entry) = number.and_then(|number| entries.get(number.checked_sub(1)?)) {
        return vec![entry.clone()];
    }
    let typed = typed.to_lowercase();
    let found = entries.iter();
    let found = found.filter(|entry| entry.label.to_lowercase().contains(&typed));
    found.cloned().collect()
}

/// Returns the next line; `None` at the end of the input.
fn read() -> Option<String> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line).ok()?;
    (count > 0).then_some(line)
}

/// Passes on lines as they are typed, so that it is known what was typed before a question.
fn read_lines(inputs: &Sender<Input>) {
    loop {
        let line = read();
        // At a terminal, Ctrl-D ends one line.
        let is_over = line.is_none() && !io::stdin().is_terminal();
        if inputs.send(Input::Line(line)).is_err() || is_over {
            return;
        }
    }
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
    fn a_list_is_numbered_and_a_number_or_a_part_of_the_text_chooses() {
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
        for (typed, expected) in [
            ("1", "1"),
            ("52", "52"),
            ("0", "10 20 30 40 50"),
            ("53", ""),
            ("ONE\n5", "5 50 51 52"),
            ("none", ""),
        ] {
            let found = found(typed, &entries);
            let found: Vec<_> = found.iter().map(|entry| entry.value.as_str()).collect();
            assert_eq!(found.join(" "), expected, "{typed:?}");
        }
    }
}
