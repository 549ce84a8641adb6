//! What is typed behind a slash and is meant for the terminal, not for the model.

use std::time::Instant;

use super::app::{App, Effect};
use super::picker::Subject;

/// A command of the terminal's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// All of them.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        about: "what can be typed",
    },
    Command {
        name: "exit",
        about: "leave; the session stays",
    },
];

/// A command that was called, and what was said behind its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    command: Command,
    rest: String,
}

/// Which command a line calls, if it calls one of ours.
pub fn call(line: &str) -> Option<Called> {
    let line = line.strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = if name == "quit" { "exit" } else { name };
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    Some(Called {
        command: *command,
        rest: rest.trim().to_owned(),
    })
}

/// Does what a command says.
pub fn perform(app: &mut App, called: &Called, _now: Instant) -> Vec<Effect> {
    let typed = app.editor.take();
    app.history.keep(typed.trim());
    match called.command.name {
        "exit" => vec![Effect::Quit],
        _ => vec![Effect::Print(help())],
    }
}

/// Does what a choice means.
pub fn chosen(app: &mut App, subject: Subject, value: &str) -> Vec<Effect> {
    match subject {
        Subject::History => {
            app.editor.set(value);
            Vec::new()
        }
        Subject::Session | Subject::Message | Subject::Model => Vec::new(),
    }
}

fn help() -> String {
    let mut text = String::new();
    for command in COMMANDS {
        text.push_str(&format!("  /{:<12} {}\n", command.name, command.about));
    }
    text.push_str(KEYS);
    text
}

const KEYS: &str = "
  Enter         says it; while the agent works, it is told at its next step
  Alt+Enter     a new line; while the agent works, said once it has finished
  Ctrl-J, \\     a new line
  Esc           takes back what waits, else interrupts
  Ctrl-C        interrupts; twice leaves
  Shift+Tab     the next permission mode
  Ctrl-G        writes the line in $EDITOR
  Ctrl-D        leaves

";
