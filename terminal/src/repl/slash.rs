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
    /// Runs a subcommand of the program and prints its output.
    Own(&'static [&'static str]),
    /// Changes the reasoning effort.
    Effort,
    /// Names the session.
    Rename,
    /// Copies the last answer to the clipboard.
    Copy,
    /// Lists the tasks beside the conversation, shows or stops one.
    Tasks,
    /// Prints the full output of a tool call.
    Show,
    /// Changes to plan mode, and runs a prompt in it.
    Plan,
    /// Works until a check passes, or says what the session works for.
    Goal,
    /// Asks a side question.
    Aside,
    /// Shows the permissions, or changes a rule.
    Permissions,
    /// Adds a working directory.
    AddDirectory,
    /// Keeps the command of the user's status line.
    StatusLine,
    /// Asks for another key or server, or forgets them.
    LogIn(&'static [&'static str]),
    /// Prints a text.
    Say(&'static str),
    /// Continues in the background.
    Background,
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
    command("sessions", "list and open sessions", Action::Resume),
    command(
        "tasks",
        "list, show or stop background tasks: /tasks [stop] [N]",
        Action::Tasks,
    ),
    command(
        "show",
        "show the full output of an earlier tool call: /show [N]",
        Action::Show,
    ),
    command("rename", "name this session: /rename NAME", Action::Rename),
    command("tree", "continue from an earlier message", Action::Tree),
    command("fork", "continue in a copy of the session", Action::Fork),
    command(
        "compact",
        "replace the conversation with a summary: /compact [what to keep]",
        Action::Compact,
    ),
    command(
        "login",
        "use another key or server",
        Action::LogIn(&["login"]),
    ),
    command("logout", "forget saved keys", Action::LogIn(&["logout"])),
    command(
        "status",
        "show version, session, model, folder and sandbox",
        Action::Report(About::Status),
    ),
    command("clear", "start a new session", Action::Clear),
    command(
        "cost",
        "show tokens and cost of this session",
        Action::Report(About::Cost),
    ),
    command(
        "usage",
        "show the tokens and cost of each request",
        Action::Own(&["usage"]),
    ),
    command(
        "context",
        "show the use of the context window",
        Action::Report(About::Context),
    ),
    command(
        "permissions",
        "show the rules: /permissions [allow|ask|deny|remove RULE]",
        Action::Permissions,
    ),
    command(
        "plan",
        "switch to plan mode (read-only): /plan [PROMPT]",
        Action::Plan,
    ),
    command(
        "goal",
        "work until a check passes: /goal [off] [WORDS] [--until CMD]",
        Action::Goal,
    ),
    command("btw", "ask a side question: /btw QUESTION", Action::Aside),
    command(
        "add-dir",
        "add a working directory for this session: /add-dir FOLDER",
        Action::AddDirectory,
    ),
    command(
        "hooks",
        "list the hooks and where each comes from",
        Action::Report(About::Hooks),
    ),
    command(
        "statusline",
        "set the status line command: /statusline COMMAND",
        Action::StatusLine,
    ),
    command(
        "effort",
        "change the effort: /effort low, medium, high, xhigh or max",
        Action::Effort,
    ),
    command(
        "config",
        "show the settings and where each comes from",
        Action::Own(&["config", "show", "--origin"]),
    ),
    command(
        "memory",
        "list the instruction files that the model was given",
        Action::Report(About::Memory),
    ),
    command(
        "tools",
        "list the model's tools",
        Action::Report(About::Tools),
    ),
    command("mcp", "list MCP servers", Action::Report(About::Servers)),
    command("skills", "list skills", Action::Report(About::Skills)),
    command("agents", "list subagents", Action::Report(About::Agents)),
    command(
        "doctor",
        "check keys, settings, sandbox and servers",
        Action::Own(&["doctor", "--inside"]),
    ),
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
        "redo the last undone file changes",
        Action::Rewind(Direction::Redo),
    ),
    command(
        "export",
        "export the session: /export [FILE] (.md, .html or .jsonl)",
        Action::Export,
    ),
    command(
        "copy",
        "copy the last answer to the clipboard",
        Action::Copy,
    ),
    command(
        "background",
        "continue in the background: /background [PROMPT]",
        Action::Background,
    ),
    command("theme", "about colours", Action::Say(THEME)),
    command(
        "steer",
        "send a message to the agent's next step: /steer MESSAGE",
        Action::Steer,
    ),
    command("exit", "exit; the session is kept", Action::Exit),
];

/// Other names of commands, as users of other agents type them.
pub const ALIASES: &[(&str, &str)] = &[
    ("quit", "exit"),
    ("new", "clear"),
    ("reset", "clear"),
    ("settings", "config"),
    ("allowed-tools", "permissions"),
    ("continue", "resume"),
    ("rewind", "undo"),
    ("stats", "usage"),
    ("bashes", "tasks"),
    ("bg", "background"),
];

/// What hints for the command line say, and what it is in the conversation.
const WORDS: &[(&str, &str)] = &[
    (
        "start a new session with `--new`",
        "start a new session with `/new`",
    ),
    ("`--new` starts another", "`/new` starts another"),
    (
        "fork the conversation before this point with `@N`",
        "go back before this point with Esc Esc",
    ),
    (
        "`--fallback-model MODEL` names a model to fall back to",
        "`/model` chooses another model",
    ),
    (
        "`ah models --refresh` reads the server's list of models",
        "`/model` lists the server's models",
    ),
    (
        "`ah models --refresh` updates the lists",
        "`/model` lists what the servers have",
    ),
    ("`--model ", "`/model "),
    ("change it with `--model`", "change it with `/model`"),
    ("`ah sessions` lists them", "`/sessions` lists them"),
    (
        "start a new one with `ah -n`",
        "start a new one with `/new`",
    ),
    ("`ah undo` shows", "`/undo` shows"),
];
/// Where a hint begins to list the models, which are too many for a line.
const KNOWN_MODELS: &str = "known are `";

/// Variables of tokens in whose place a login puts another.
const TOKENS: [&str; 2] = ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/// Returns a hint in the words of the conversation: its own commands in the place of options.
pub fn in_its_words(hint: &str) -> String {
    // A key that was refused, whoever's it is.
    let is_key = |name: &str| name.ends_with("_API_KEY") || TOKENS.contains(&name);
    if hint.starts_with("check ") && hint.rsplit(' ').next().is_some_and(is_key) {
        return format!("{hint}, or give another key with `/login`");
    }
    let wanted = hint
        .strip_prefix("set ")
        .map(|rest| rest.split([' ', ',', ';']));
    let is_login = wanted
        .and_then(|mut words| words.next())
        .is_some_and(is_key);
    let hint = match hint.split_once(KNOWN_MODELS) {
        _ if is_login => format!("`/login`, or {hint}"),
        Some((before, _)) => format!("{before}`/model` lists the models"),
        None => hint.to_owned(),
    };
    let words = WORDS.iter();
    words.fold(hint, |hint, (there, here)| hint.replace(there, here))
}

/// Warns of what failed, with its hint.
pub fn tell_failure(message: &str, hint: Option<&str>) {
    crate::warn(&in_its_words(message));
    if let Some(hint) = hint {
        crate::note(&format!("hint: {}", in_its_words(hint)));
    }
}

/// Least similarity of a name that is offered in the place of an unknown one, from 0 to 1.
const NEAR: f32 = 0.75;

/// Returns why a line is no command, if it looks like one and none of the terminal's or of `named` is called so: a
/// model that is paid for would read it otherwise.
pub fn unknown<'a>(line: &str, named: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
    let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ['-', '_', ':'].contains(&c));
    if !is_name || word.starts_with("skill:") || call(line).is_some() {
        return None;
    }
    let mut known: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    known.extend(named);
    // A command in a folder is called by its own name too.
    let is_called =
        |name: &&str| *name == word || name.rsplit_once(':').is_some_and(|(_, last)| last == word);
    if known.iter().any(is_called) {
        return None;
    }
    let lower = word.to_lowercase();
    let near = ah_diff::nearest(&lower, &known, 1, NEAR);
    let instead = match near.first() {
        Some(near) => format!("did you mean `/{near}`?"),
        None => "`/help` lists all commands.".to_owned(),
    };
    Some(format!("There is no command `/{word}`; {instead}"))
}

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
    let line = match line {
        "?" => "help",
        "exit" | "quit" => "exit",
        line => line.strip_prefix('/')?,
    };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, name)| *name);
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    Some(Call {
        command: *command,
        rest: rest.trim().to_owned(),
    })
}

/// Returns commands and keys with their descriptions.
pub fn help() -> String {
    let mut text = String::new();
    let mut commands: Vec<_> = COMMANDS.iter().collect();
    commands.sort_by_key(|command| command.name);
    for command in commands {
        text.push_str(&format!("  /{:<12} {}\n", command.name, command.about));
    }
    text.push_str(KEYS);
    text
}

/// Keys with their descriptions.
pub const KEYS: &str = "
  Enter         send (while the agent works: steer it at its next step)
  Alt+Enter     new line (while the agent works: send after it has finished)
  Ctrl-J, \\     new line
  Esc           take back queued messages, otherwise interrupt
  Esc Esc       edit an earlier prompt and continue from before it
  Ctrl-C        interrupt; twice: exit
  Ctrl-R        search the input history
  Ctrl-P        find a command, a file or a session
  Tab           accept the suggestion; switch to a question and back
  Shift+Tab     next permission mode
  Ctrl-O        view everything: outputs, thinking, subagents; search and copy
  Ctrl-B        with nothing typed: continue in the background (`ah attach`)
  Ctrl-Z        suspend; `fg` in the shell continues
  Ctrl-G        edit the text in $EDITOR (also Ctrl-X Ctrl-E)
  !COMMAND      run a command and tell the model with the next prompt
  !!COMMAND     run a command without telling the model
  @PATH         insert a file name; pictures are sent to the model
  Ctrl-V        insert the picture in the clipboard; dropping one works, too
  Ctrl-D        exit
  ?             these keys; with Enter, the commands too

";

/// Answer of `/theme`.
const THEME: &str = "  ah uses the sixteen colours of your terminal's theme: change them there.
  NO_COLOR=1 turns colours off; --plain also turns off everything that is redrawn.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_commands_of_the_conversation() {
        for (_, here) in WORDS {
            for word in here.split('`').filter(|word| word.starts_with('/')) {
                assert!(call(word).is_some(), "{word}");
            }
        }
        let hint =
            in_its_words("start a new session with `--new`, or use a model with a larger window");
        assert_eq!(
            hint,
            "start a new session with `/new`, or use a model with a larger window"
        );
        for name in [
            "OPENAI_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            assert_eq!(
                in_its_words(&format!("check {name}")),
                format!("check {name}, or give another key with `/login`")
            );
        }
        for (there, here) in [
            (
                "set OPENAI_API_KEY; or use a server that is configured: `--model litellm/NAME`",
                "`/login`, or set OPENAI_API_KEY; or use a server that is configured: `/model litellm/NAME`",
            ),
            (
                "did you mean `sonnet`? known are `fable`, `opus` and more",
                "did you mean `sonnet`? `/model` lists the models",
            ),
            (
                "check OPENAI_BASE_URL and the proxy",
                "check OPENAI_BASE_URL and the proxy",
            ),
            ("set OPENAI_BASE_URL", "set OPENAI_BASE_URL"),
        ] {
            assert_eq!(in_its_words(there), here);
        }
    }

    /// On a terminal of eighty columns none is cut.
    #[test]
    fn keys_and_commands_fit_a_row() {
        for row in help().lines() {
            assert!(row.chars().count() <= 80, "{row}");
        }
    }

    #[test]
    fn what_looks_like_a_command_is_one_or_is_refused() {
        let named = || ["commit", "team:ship"].into_iter();
        for (line, expected) in [
            ("/nosuch", Some("`/help` lists all commands.")),
            ("/plugin", Some("`/help` lists all commands.")),
            ("/modle opus", Some("did you mean `/model`?")),
            ("/status1", Some("did you mean `/status`?")),
            ("/comit", Some("did you mean `/commit`?")),
            ("/Help", Some("did you mean `/help`?")),
            ("/commit", None),
            ("/team:ship now", None),
            ("/ship now", None),
            ("/quit", None),
            ("/skill:any thing", None),
            ("/usr/bin/env is missing", None),
            ("/ alone", None),
            ("/2 is no name", None),
            ("no command", None),
        ] {
            let said = unknown(line, named());
            match (&said, expected) {
                (Some(said), Some(expected)) => assert!(said.ends_with(expected), "{said}"),
                (said, expected) => assert_eq!(said.as_deref(), expected, "{line:?}"),
            }
        }
        assert_eq!(call("?").unwrap().command.name, "help");
        assert_eq!(call("exit").unwrap().command.name, "exit");
        assert_eq!(call("exit the loop"), None);
    }
}
