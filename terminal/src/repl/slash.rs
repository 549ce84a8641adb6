//! What is typed behind a slash and is meant for the terminal, not for the model.

use std::time::Instant;

use ah_conversation::MailKind;

use super::app::{About, App, Effect, Task, Work};
use super::picker::Subject;
use super::update;
use crate::undo::Way;

/// A command of the terminal's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    does: Does,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Help,
    Model,
    Resume,
    Tree,
    Fork,
    Compact,
    Clear,
    Tell(About),
    Export,
    Changes,
    Rewind(Way),
    Steer,
    Exit,
}

const fn command(name: &'static str, about: &'static str, does: Does) -> Command {
    Command { name, about, does }
}

/// All of them.
pub const COMMANDS: &[Command] = &[
    command("help", "keys and commands", Does::Help),
    command(
        "model",
        "another model: /model NAME, or a list",
        Does::Model,
    ),
    command("resume", "another session of this folder", Does::Resume),
    command(
        "tree",
        "an earlier message, to go on from there",
        Does::Tree,
    ),
    command("fork", "a copy of the session, to go on in", Does::Fork),
    command(
        "compact",
        "a summary in the place of all that was said: /compact WHAT IT HEEDS",
        Does::Compact,
    ),
    command("clear", "a new session", Does::Clear),
    command(
        "cost",
        "tokens and money of this session",
        Does::Tell(About::Cost),
    ),
    command(
        "context",
        "what fills the window",
        Does::Tell(About::Context),
    ),
    command(
        "permissions",
        "what is allowed, asked about and denied",
        Does::Tell(About::Permissions),
    ),
    command("tools", "what the model may use", Does::Tell(About::Tools)),
    command("mcp", "MCP servers", Does::Tell(About::Servers)),
    command(
        "skills",
        "skills that can be called",
        Does::Tell(About::Skills),
    ),
    command("diff", "what tools have changed in files", Does::Changes),
    command(
        "undo",
        "files as they were before the last run that changed any",
        Does::Rewind(Way::Back),
    ),
    command("redo", "what was taken back last", Does::Rewind(Way::Forth)),
    command(
        "export",
        "the session as Markdown: /export FILE",
        Does::Export,
    ),
    command(
        "steer",
        "words for the agent's next step: /steer WORDS",
        Does::Steer,
    ),
    command("exit", "leave; the session stays", Does::Exit),
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
    let name = match name {
        "quit" => "exit",
        "new" => "clear",
        name => name,
    };
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    Some(Called {
        command: *command,
        rest: rest.trim().to_owned(),
    })
}

/// Does what a command says.
pub fn perform(app: &mut App, called: &Called, now: Instant) -> Vec<Effect> {
    let is_fine_meanwhile = matches!(
        called.command.does,
        Does::Help | Does::Steer | Does::Exit | Does::Model
    );
    if app.work.is_some() && !is_fine_meanwhile {
        app.hint = Some(format!(
            "/{} has to wait until the agent has finished; Esc interrupts it",
            called.command.name
        ));
        return Vec::new();
    }
    let typed = app.editor.take();
    app.history.keep(typed.trim());
    let rest = called.rest.clone();
    match called.command.does {
        Does::Help => vec![Effect::Print(help())],
        Does::Model if rest.is_empty() => vec![Effect::Task(Task::List(Subject::Model))],
        Does::Model => vec![Effect::Task(Task::Model(rest))],
        Does::Resume if rest.is_empty() => vec![Effect::Task(Task::List(Subject::Session))],
        Does::Resume => begin(app, "opening", Task::Resume(rest), now),
        Does::Tree => vec![Effect::Task(Task::List(Subject::Message))],
        Does::Fork => begin(app, "copying", Task::Fork, now),
        Does::Compact => begin(app, "summing up", Task::Compact(rest), now),
        Does::Clear => begin(app, "opening", Task::New, now),
        Does::Tell(about) => vec![Effect::Task(Task::Tell(about))],
        Does::Export => vec![Effect::Task(Task::Export(rest))],
        Does::Changes => vec![Effect::Task(Task::Changes)],
        Does::Rewind(way) => begin(app, "looking", Task::Rewind(way), now),
        Does::Steer if rest.is_empty() => Vec::new(),
        Does::Steer => match app.work {
            Some(_) => vec![Effect::Task(Task::Send(MailKind::Steer, rest))],
            None => update::prompt(app, &rest.clone(), rest, now),
        },
        Does::Exit => vec![Effect::Quit],
    }
}

fn begin(app: &mut App, label: &str, task: Task, now: Instant) -> Vec<Effect> {
    app.work = Some(Work::begin(label, now));
    vec![Effect::Task(task)]
}

/// Does what a choice means.
pub fn chosen(app: &mut App, subject: Subject, value: &str, now: Instant) -> Vec<Effect> {
    let value = value.to_owned();
    match subject {
        Subject::History => {
            app.editor.set(&value);
            Vec::new()
        }
        Subject::Session => begin(app, "opening", Task::Resume(value), now),
        Subject::Message => begin(app, "opening", Task::GoTo(value), now),
        Subject::Model => vec![Effect::Task(Task::Model(value))],
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
  Ctrl-R        lines typed before
  Tab           takes the suggestion; goes to a question and back
  Shift+Tab     the next permission mode
  Ctrl-O        what the last tool calls have given, whole
  Ctrl-G        writes the line in $EDITOR, as Ctrl-X Ctrl-E
  !COMMAND      runs it, and tells the model with the next prompt
  !!COMMAND     runs it, and tells nobody
  @PATH         a file, suggested; a picture is shown to the model
  Ctrl-V        the picture in the clipboard; one that is dropped here is shown as well
  Ctrl-D        leaves

";
