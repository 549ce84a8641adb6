//! The command line for the parser, including options accepted for compatibility.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, Subcommand as _};

use super::options::Options;
use super::subcommands::Subcommands;

/// Options of other agents that have no effect here, and whether each takes a value.
pub const WITHOUT_MEANING: &[(&str, bool)] = &[
    ("await-initialize", false),
    ("ax-screen-reader", false),
    ("bare", false),
    ("brief", false),
    ("channels", true),
    ("chrome", false),
    ("disable-slash-commands", false),
    ("enable-auto-mode", false),
    ("exclude-dynamic-system-prompt-sections", false),
    ("ide", false),
    ("initialize-fields", true),
    ("managed-settings-in-initialize", false),
    ("mcp-debug", false),
    ("no-chrome", false),
    ("project-config-root", true),
    ("prompt-suggestions", false),
    ("remote-control-session-name-prefix", true),
    ("system-prompt-snapshot", true),
    ("task-budget", true),
    ("teammate-mode", true),
    ("thinking-display", true),
    ("tmux", false),
];

/// The names of our subcommands: to have the parser describe them takes longer than the rest of a start.
pub const SUBCOMMANDS: &[&str] = &[
    "acp",
    "agents",
    "answer",
    "attach",
    "auth",
    "bench",
    "branch",
    "branches",
    "cancel",
    "checkout",
    "completions",
    "config",
    "demo",
    "diff",
    "doctor",
    "embed",
    "enqueue",
    "export",
    "extract",
    "fleet",
    "gc",
    "import",
    "interrupt",
    "login",
    "logout",
    "logs",
    "man",
    "mcp",
    "models",
    "move",
    "plugin",
    "prompt",
    "proxy",
    "redo",
    "restore",
    "rmm",
    "sandbox",
    "scan",
    "serve",
    "sessions",
    "shim",
    "show",
    "steer",
    "tools",
    "tree",
    "undo",
    "usage",
    "watch",
    "work",
    "worker",
    "worktree",
];

/// Subcommands that the program which this one stands in for has as well. A JSON format does not make prompts of them.
pub const SHARED_SUBCOMMANDS: &[&str] = &[
    "agents", "auth", "doctor", "import", "mcp", "plugin", "plugins", "sandbox",
];

/// Subcommands of the program that this one stands in for and that it does not have, each with how many words at most are
/// meant for it, since a prompt may begin alike, and what is there instead.
pub const FOREIGN_SUBCOMMANDS: &[(&str, usize, &str)] = &[
    (
        "auto-mode",
        usize::MAX,
        "`ah --permission-mode` sets how much is asked",
    ),
    ("gateway", 1, "models are reached at their own addresses"),
    ("install", 1, "the README says how to install ah"),
    ("kill", 2, "`ah interrupt` ends a run"),
    (
        "migrate-installer",
        usize::MAX,
        "the README says how to install ah",
    ),
    ("purge", 2, "`ah sessions rm` deletes a session"),
    ("remote-control", usize::MAX, "sessions are local"),
    ("respawn", 2, "`ah -r ID` continues a session"),
    ("rm", 2, "`ah sessions rm` deletes a session"),
    (
        "setup-token",
        usize::MAX,
        "`ANTHROPIC_AUTH_TOKEN` holds a token",
    ),
    ("stop", 2, "`ah interrupt` ends a run"),
    ("ultrareview", 2, "`ah \"/review\"` reviews"),
    ("update", 1, "the README says how to install ah"),
    ("upgrade", 1, "the README says how to install ah"),
    ("version", 1, "`ah --version` prints it"),
];

/// Returns the command line shown by the help text.
pub fn command() -> Command {
    Subcommands::augment_subcommands(main())
        .about("Runs a coding agent in this folder.")
        .subcommand_required(false)
        .arg_required_else_help(false)
}

/// Returns the command line without subcommands.
pub fn main() -> Command {
    let command = Command::new("ah")
        .override_usage("ah [OPTIONS] [PROMPT]...\n       ah [OPTIONS] <COMMAND>\n       ah [OPTIONS] @N PROMPT...   (forks at message N)")
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        // Programs add options to a command line that they do not know.
        .args_override_self(true)
        .max_term_width(100);
    Options::augment_args(command)
        .disable_help_flag(true)
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .action(ArgAction::HelpShort)
                .global(true)
                .help("Print help")
                .help_heading("Help"),
        )
        .arg(
            Arg::new("prompt")
                .value_name("PROMPT")
                .num_args(0..)
                .value_parser(clap::value_parser!(OsString))
                .help("Task or question for the agent [default: standard input]")
                .help_heading("Arguments"),
        )
}

/// Returns the options that are accepted for compatibility.
pub fn foreign() -> impl Iterator<Item = Arg> {
    WITHOUT_MEANING.iter().map(|(name, takes_value)| {
        let action = if *takes_value {
            ArgAction::Append
        } else {
            ArgAction::SetTrue
        };
        Arg::new(*name).long(*name).action(action).hide(true)
    })
}
