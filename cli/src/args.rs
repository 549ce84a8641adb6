//! What was typed, and what it means.
//!
//! [`options`] and [`subcommands`] are the command line as a person types it; [`Invocation`] is what they want.
//! Nothing here reads a file or the environment.

mod faults;
mod grammar;
pub mod json;
pub mod options;
mod overrides;
pub mod session;
pub mod subcommands;
mod words;
pub mod work;

use std::ffi::OsString;

use ah_conversation::{Interface, PermissionMode};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _, Subcommand as _};

use ah::plan::SessionPlan;
use ah_config::Error;
use faults::explain;
use grammar::WITHOUT_MEANING;
pub use grammar::command;
use options::{InputFormat, Options, OutputFormat, OutputOptions};
use session::plan;
use subcommands::Subcommands;
pub use words::Names;
use words::Sorted;

/// What the program is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// What.
    pub action: Action,
    /// For whom it works.
    pub interface: Interface,
    /// On which session.
    pub session: SessionPlan,
    /// With which options.
    pub options: Options,
    /// Options that were accepted and mean nothing here, for the log.
    pub without_meaning: Vec<String>,
}

/// One thing that the program does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs the agent.
    Run(Prompt),
    /// Leaves words for a session.
    Mail,
    /// Does what a subcommand says.
    Command(Subcommands),
    /// Prints this text.
    Print(String),
}

/// A prompt as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The message to fork at (`@N`).
    pub fork_at: Option<u32>,
    /// The words; `None`: to be read from standard input.
    pub text: Option<String>,
}

/// Reads a command line (without the program's name).
pub fn parse(arguments: Vec<OsString>, names: &Names<'_>) -> Result<Invocation, Error> {
    let interface = interface_of(&arguments);
    let main = grammar::main().args(grammar::foreign());
    let sorted = words::sort(arguments, &main, Subcommands::has_subcommand, names);
    let matches = match matches(main, &sorted) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Ok(Invocation {
                action: Action::Print(error.render().to_string()),
                interface,
                session: SessionPlan::default(),
                options: Options::default(),
                without_meaning: Vec::new(),
            });
        }
        Err(error) => return Err(explain(&error, sorted.subcommand.as_ref())),
    };
    // What stands behind a subcommand is its own: `-p` means something else to `ah work`.
    let interface = match sorted.subcommand {
        Some(_) => interface_of(&sorted.options),
        None => interface,
    };
    let mut without_meaning = foreign_options(&matches);
    let options = Options::from_arg_matches(&matches).map_err(|error| explain(&error, None))?;
    check(&options)?;
    // A command looks at a session that is there, whatever `-p` would do.
    let session = match sorted.subcommand {
        Some(_) => plan(&options, Interface::Native)?,
        None => plan(&options, interface)?,
    };
    let is_json = matches!(
        options.output.output_format,
        Some(OutputFormat::Json | OutputFormat::StreamJson)
    );
    if options.output.verbose && !is_json {
        without_meaning.push("--verbose".to_owned());
    }
    let action = if options.version.version {
        Action::Print(concat!(env!("CARGO_PKG_VERSION"), " (ah)\n").to_owned())
    } else if options.version.name_and_version {
        Action::Print(concat!("ah ", env!("CARGO_PKG_VERSION"), "\n").to_owned())
    } else if sorted.subcommand.is_some() {
        let subcommand = Subcommands::from_arg_matches(&matches);
        Action::Command(subcommand.map_err(|error| explain(&error, None))?)
    } else if options.mail.steer.is_empty() && options.mail.followup.is_empty() {
        Action::Run(prompt(sorted.words)?)
    } else {
        mail(&sorted.words)?
    };
    Ok(Invocation {
        action,
        interface,
        session,
        options,
        without_meaning,
    })
}

/// What the parser finds. All subcommands together take as long to describe as the program takes to start, so they are
/// described where one was typed, and where something is to be said of the whole: help, or advice.
fn matches(main: Command, sorted: &Sorted) -> Result<ArgMatches, clap::Error> {
    let line = sorted.line();
    if sorted.subcommand.is_none()
        && let Ok(matches) = main.try_get_matches_from(&line)
    {
        return Ok(matches);
    }
    let whole = command().args(grammar::foreign());
    whole.try_get_matches_from(line)
}

/// The options of other agents that were given, and are accepted without a meaning here.
fn foreign_options(matches: &ArgMatches) -> Vec<String> {
    let given =
        |(name, _): &&(&str, bool)| matches.value_source(name) == Some(ValueSource::CommandLine);
    let accepted = WITHOUT_MEANING.iter().filter(given);
    accepted.map(|(name, _)| format!("--{name}")).collect()
}

fn mail(words: &[OsString]) -> Result<Action, Error> {
    let Some(word) = words.first() else {
        return Ok(Action::Mail);
    };
    let word = word.to_string_lossy();
    let error = Error::usage(format!("unexpected `{word}` after a message for a session"));
    Err(error.hint("put the whole message in quotes"))
}

/// Decides the interface from what was typed, so that even a command line that cannot be read ends as it should.
pub fn interface_of(arguments: &[OsString]) -> Interface {
    let mut arguments = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .take_while(|argument| *argument != "--")
        .peekable();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, arguments.peek().copied()),
        };
        let is_drop_in = match words::kebab_case(name).as_str() {
            "-p" | "--print" => true,
            "--output-format" => matches!(value, Some("json" | "stream-json")),
            "--input-format" => value == Some("stream-json"),
            _ => false,
        };
        if is_drop_in {
            return Interface::AgentSdk;
        }
    }
    Interface::Native
}

fn check(options: &Options) -> Result<(), Error> {
    let output = &options.output;
    check_formats(output)?;
    if options.sandbox.no_sandbox && options.sandbox.hosts.is_some() {
        return Err(
            Error::usage("hosts are allowed to what runs in the sandbox")
                .hint("leave out --no-sandbox; with it every host can be reached"),
        );
    }
    let chosen = options.safety.permission_mode;
    if options.safety.dangerously_skip_permissions
        && chosen.is_some_and(|mode| mode != PermissionMode::BypassPermissions)
    {
        return Err(Error::usage(
            "`--dangerously-skip-permissions` contradicts `--permission-mode`",
        ));
    }
    Ok(())
}

/// The formats that go together, as the official program has them.
fn check_formats(output: &OutputOptions) -> Result<(), Error> {
    let speaks = output.output_format == Some(OutputFormat::StreamJson);
    if speaks && !output.verbose {
        let error = Error::usage("`--output-format stream-json` needs `--verbose`");
        return Err(error.hint("it prints every message; `json` prints the result alone"));
    }
    if output.input_format == Some(InputFormat::StreamJson) && !speaks {
        let error = Error::usage(
            "`--input-format stream-json` needs `--output-format stream-json --verbose`",
        );
        return Err(error.hint("a prompt as plain text comes by standard input as it is"));
    }
    Ok(())
}

/// What the words of a prompt say; a first word `@N` is where to fork.
fn prompt(words: Vec<OsString>) -> Result<Prompt, Error> {
    let mut texts = Vec::with_capacity(words.len());
    for word in words {
        texts.push(word.into_string().map_err(|word| {
            Error::usage(format!(
                "the prompt is not valid UTF-8: `{}`",
                word.to_string_lossy()
            ))
        })?);
    }
    let fork_at = texts
        .first()
        .and_then(|word| word.strip_prefix('@'))
        .filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let fork_at = match fork_at {
        Some(number) => Some(
            number
                .parse()
                .map_err(|_| Error::usage(format!("there is no message @{number}")))?,
        ),
        None => None,
    };
    let text = texts[usize::from(fork_at.is_some())..].join(" ");
    Ok(Prompt {
        fork_at,
        text: Some(text).filter(|text| !text.is_empty()),
    })
}

#[cfg(test)]
mod tests;
