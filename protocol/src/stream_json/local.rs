//! Prompts that the program answers itself, without the model: the commands of the original program that make sense for a
//! host. Commands and skills of the user with the same name take precedence, except over `/clear` and `/compact`.

use ah_conversation::{ContentBlock, Goal};

use crate::Introduction;

/// A command that is answered without the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocalCommand {
    /// Name as it was typed, in the form of results.
    pub(super) name: String,
    /// What it does.
    pub(super) task: Local,
}

/// What a local command does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// Compacts the conversation, with instructions for the summary.
    Compact(Option<String>),
    /// Begins a new conversation.
    Clear,
    /// Shows what fills the context window.
    Context,
    /// Shows tokens and cost.
    Cost,
    /// Sets the goal of the session and works for it, ends it, or says what it is: what was typed after its name.
    Goal(String),
    /// Shows or changes the model.
    Model(Option<String>),
    /// Shows or changes the effort.
    Effort(Option<String>),
    /// Names the session.
    Rename(Option<String>),
    /// Shows the subagents.
    Agents,
    /// Shows the output styles.
    Styles,
    /// Shows, reconnects, enables or disables MCP servers.
    Servers(Option<String>),
    /// Is a dialog of the original program, which a host cannot show.
    Unavailable,
}

/// Commands for hosts: name, description, hint for the arguments.
pub(super) const LISTED: [(&str, &str, &str); 11] = [
    ("agents", "Show the subagents", ""),
    ("clear", "Start a new conversation with empty context", ""),
    (
        "compact",
        "Replace the conversation with a summary",
        "[what to keep]",
    ),
    ("context", "Show what fills the context window", ""),
    ("cost", "Show the tokens and the cost of the session", ""),
    ("effort", "Show or set the reasoning effort", "[level]"),
    (Goal::NAME, Goal::ABOUT, Goal::HINT),
    (
        "mcp",
        "Show, reconnect, enable or disable MCP servers",
        "[reconnect|enable|disable [server|all]]",
    ),
    ("model", "Show or set the model", "[model]"),
    ("output-style", "Show the output styles", ""),
    ("rename", "Name the session", "<name>"),
];

/// Commands that the original program answers in its terminal only.
const UNAVAILABLE: [&str; 46] = [
    "add-dir",
    "bashes",
    "branch",
    "btw",
    "bug",
    "chrome",
    "color",
    "config",
    "copy",
    "desktop",
    "exit",
    "export",
    "extra-usage",
    "fast",
    "feedback",
    "fork",
    "heapdump",
    "help",
    "hooks",
    "ide",
    "install-github-app",
    "keybindings",
    "login",
    "logout",
    "memory",
    "mobile",
    "passes",
    "permissions",
    "plan",
    "plugin",
    "privacy-settings",
    "quit",
    "release-notes",
    "remote-env",
    "resume",
    "rewind",
    "sandbox",
    "skills",
    "status",
    "statusline",
    "stickers",
    "tasks",
    "terminal-setup",
    "theme",
    "upgrade",
    "vim",
];

/// Returns the local command that a prompt is.
pub(super) fn local(content: &[ContentBlock], known: &Introduction) -> Option<LocalCommand> {
    let [ContentBlock::Text { text }] = content else {
        return goal_among(content, known);
    };
    let line = text.trim().strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    let rest = rest.map(str::to_owned);
    let task = match name {
        "clear" | "reset" | "new" if rest.is_none() => Local::Clear,
        "compact" => Local::Compact(rest),
        _ if known.commands.iter().any(|own| own.name == name) => return None,
        "context" => Local::Context,
        "cost" | "usage" | "stats" => Local::Cost,
        // One that begins with a space is sent as it is.
        Goal::NAME if text.starts_with('/') => Local::Goal(rest.unwrap_or_default()),
        "model" => Local::Model(rest),
        "effort" => Local::Effort(rest),
        "rename" => Local::Rename(rest),
        "agents" => Local::Agents,
        "output-style" => Local::Styles,
        "mcp" => Local::Servers(rest),
        name if UNAVAILABLE.contains(&name) => Local::Unavailable,
        _ => return None,
    };
    Some(LocalCommand {
        name: name.replace('-', "_"),
        task,
    })
}

/// Returns the goal that the last text of a prompt with pictures or attached texts is.
fn goal_among(content: &[ContentBlock], known: &Introduction) -> Option<LocalCommand> {
    let text = content.iter().rev().find_map(ContentBlock::as_text)?;
    Goal::in_prompt(text)?;
    local(&[ContentBlock::text(text)], known)
}

/// Returns whether the program answers this prompt itself, whatever commands the user has.
pub fn is_local(prompt: &str) -> bool {
    let command = local(&[ContentBlock::text(prompt)], &Introduction::default());
    command.is_some_and(|command| match &command.task {
        // The model works for it.
        Local::Goal(typed) => !matches!(Goal::of(typed), Goal::Is(..)),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use ah_desk::Command;

    use super::*;

    #[test]
    fn commands_of_the_user_take_precedence() {
        let known = Introduction {
            commands: ["cost", "clear"]
                .map(|name| Command {
                    name: name.to_owned(),
                    ..Command::default()
                })
                .into(),
            ..Introduction::default()
        };
        let task = |prompt: &str, known| {
            let content = [ContentBlock::text(prompt)];
            local(&content, known).map(|it| (it.name, it.task))
        };
        let none = &Introduction::default();
        for (prompt, own, expected) in [
            ("/cost", none, Some(("cost", Local::Cost))),
            ("/cost", &known, None),
            ("/clear", &known, Some(("clear", Local::Clear))),
            ("/new", none, Some(("new", Local::Clear))),
            ("/new feature", none, None),
            (
                "/compact the  rest ",
                none,
                Some(("compact", Local::Compact(Some("the  rest".into())))),
            ),
            (
                "/terminal-setup",
                none,
                Some(("terminal_setup", Local::Unavailable)),
            ),
            ("/goal  x", none, Some(("goal", Local::Goal("x".into())))),
            (" /goal x", none, None),
            ("/compactly", none, None),
            ("cost", none, None),
        ] {
            let expected = expected.map(|(name, task)| (name.to_owned(), task));
            assert_eq!(task(prompt, own), expected, "{prompt}");
        }
    }
}
