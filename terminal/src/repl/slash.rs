//! Slash commands of the terminal: names, descriptions and the help text.

use super::effect::About;
use crate::undo::Direction;

/// A slash command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its name without the slash.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its action.
    pub action: Action,
}

/// Action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Prints commands and keys.
    Help,
    /// Changes the model.
    Model,
    /// Opens another session.
    Resume,
    /// Continues from an earlier message.
    Tree,
    /// Continues in a copy of the session.
    Fork,
    /// Replaces the conversation with a summary.
    Compact,
    /// Opens a new session.
    Clear,
    /// Prints a report on the session.
    Report(About),
    /// Writes the session to a file.
    Export,
    /// Prints the changes to files.
    Changes,
    /// Undoes or redoes file changes.
    Rewind(Direction),
    /// Sends a message to the current run.
    Steer,
    /// Ends the program.
    Exit,
}

const fn command(name: &'static str, about: &'static str, action: Action) -> Command {
    Command {
        name,
        about,
        action,
    }
}

/// All commands, in the order of the help.
pub const COMMANDS: &[Command] = &[
    command("help", "list commands and keys", Action::Help),
    command(
        "model",
        "change the model: /model NAME, or choose from a list",
        Action::Model,
    ),
    command(
        "resume",
        "open another session of this folder",
        Action::Resume,
    ),
    command("tree", "continue from an earlier message", Action::Tree),
    command("fork", "continue in a copy of the session", Action::Fork),
    command(
        "compact",
        "replace the conversation with a summary: /compact [what to keep]",
        Action::Compact,
    ),
    command("clear", "start a new session", Action::Clear),
    command(
        "cost",
        "show tokens and cost of this session",
        Action::Report(About::Cost),
    ),
    command(
        "context",
        "show the use of the context window",
        Action::Report(About::Context),
    ),
    command(
        "permissions",
        "show the permission mode and rules",
        Action::Report(About::Permissions),
    ),
    command(
        "tools",
        "list the tools of the model",
        Action::Report(About::Tools),
    ),
    command("mcp", "list MCP servers", Action::Report(About::Servers)),
    command("skills", "list skills", Action::Report(About::Skills)),
    command(
        "diff",
        "show the changes that tools made to files",
        Action::Changes,
    ),
    command(
        "undo",
        "undo the last run's file changes",
        Action::Rewind(Direction::Undo),
    ),
    command(
        "redo",
        "redo the file changes that were undone last",
        Action::Rewind(Direction::Redo),
    ),
    command(
        "export",
        "write the session to a Markdown file: /export [FILE]",
        Action::Export,
    ),
    command(
        "steer",
        "send a message to the agent's next step: /steer MESSAGE",
        Action::Steer,
    ),
    command("exit", "exit; the session is kept", Action::Exit),
];

/// A command as it was typed, with the text after its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The command.
    pub command: Command,
    /// The text after its name.
    pub rest: String,
}

/// Returns the command that a line calls, if it is one of the terminal.
pub fn call(line: &str) -> Option<Call> {
    let line = line.strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = match name {
        "quit" => "exit",
        "new" => "clear",
        name => name,
    };
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    Some(Call {
        command: *command,
        rest: rest.trim().to_owned(),
    })
}

/// Returns commands and keys with their descriptions.
pub fn help() -> String {
    let mut text = String::new();
    for command in COMMANDS {
        text.push_str(&format!("  /{:<12} {}\n", command.name, command.about));
    }
    text.push_str(KEYS);
    text
}

const KEYS: &str = "
  Enter         send (while the agent works: steer it at its next step)
  Alt+Enter     new line (while the agent works: send after it has finished)
  Ctrl-J, \\     new line
  Esc           take back queued messages, otherwise interrupt
  Ctrl-C        interrupt; twice: exit
  Ctrl-R        search the input history
  Tab           accept the suggestion; switch to a question and back
  Shift+Tab     next permission mode
  Ctrl-O        show full output of the last tool calls
  Ctrl-G        edit the text in $EDITOR (also Ctrl-X Ctrl-E)
  !COMMAND      run a command and tell the model with the next prompt
  !!COMMAND     run a command without telling the model
  @PATH         insert a file name; pictures are sent to the model
  Ctrl-V        insert the picture in the clipboard; a picture dropped here is inserted too
  Ctrl-D        exit

";
