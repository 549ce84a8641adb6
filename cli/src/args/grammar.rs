//! The command line for the parser, including options accepted for compatibility.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, Subcommand as _};

use super::options::Options;
use super::subcommands::Subcommands;

/// Options of other agents that have no effect here, and whether each takes a value.
pub const WITHOUT_MEANING: &[(&str, bool)] = &[
    ("await-initialize", false),
    ("bare", false),
    ("brief", false),
    ("channels", true),
    ("chrome", false),
    ("disable-slash-commands", false),
    ("enable-auto-mode", false),
    ("ide", false),
    ("initialize-fields", true),
    ("managed-settings-in-initialize", false),
    ("mcp-debug", false),
    ("no-chrome", false),
    ("project-config-root", true),
    ("prompt-suggestions", false),
    ("remote-control-session-name-prefix", true),
    ("task-budget", true),
    ("teammate-mode", true),
    ("thinking-display", true),
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

/// Subcommands of the program that this one stands in for and that it does not have, each with what is there instead. A
/// word that is also the first of many a prompt counts only if it stands alone.
pub const FOREIGN_SUBCOMMANDS: &[(&str, bool, &str)] = &[
    (
        "auto-mode",
        false,
        "`ah --permission-mode` sets how much is asked",
    ),
    ("install", true, "the README says how to install ah"),
    (
        "migrate-installer",
        false,
        "the README says how to install ah",
    ),
    ("remote-control", false, "sessions are local"),
    ("setup-token", false, "`ANTHROPIC_AUTH_TOKEN` holds a token"),
    ("update", true, "the README says how to install ah"),
    ("upgrade", true, "the README says how to install ah"),
    ("version", true, "`ah --version` prints it"),
];

/// Returns the command line shown by the help text.
pub fn command() -> Command {
    Subcommands::augment_subcommands(main())
        .about("Runs an agent on the session of this folder.")
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
