//! The command line as the parser knows it, with what is kept free or accepted for others.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, Subcommand as _};

use super::options::Options;
use super::subcommands::Subcommands;

/// Options that other agents know and that change nothing here. Each takes a value or none.
pub const WITHOUT_MEANING: &[(&str, bool)] = &[
    ("await-initialize", false),
    ("channels", true),
    ("initialize-fields", true),
    ("managed-settings", true),
    ("managed-settings-in-initialize", false),
    ("project-config-root", true),
    ("task-budget", true),
    ("thinking-display", true),
];

/// The command line that the help text shows.
pub fn command() -> Command {
    Subcommands::augment_subcommands(main())
        .about("Runs an agent on the session of this folder.")
        .subcommand_required(false)
        .arg_required_else_help(false)
}

/// The same without the subcommands.
pub fn main() -> Command {
    let command = Command::new("ah")
        .override_usage("ah [OPTIONS] [PROMPT]...\n       ah [OPTIONS] <COMMAND>\n       ah [OPTIONS] @N PROMPT...   (forks at message N)")
        .disable_version_flag(true)
        .disable_help_subcommand(true)
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
                .help("What the agent is to do; without it, standard input")
                .help_heading("Arguments"),
        )
}

/// The options that are accepted for what they mean elsewhere.
pub fn foreign() -> impl Iterator<Item = Arg> {
    WITHOUT_MEANING.iter().map(|(name, takes_value)| {
        let action = match takes_value {
            true => ArgAction::Append,
            false => ArgAction::SetTrue,
        };
        Arg::new(*name).long(*name).action(action).hide(true)
    })
}
