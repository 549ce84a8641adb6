//! The command line, parsed.
//!
//! [`options`] and [`subcommands`] define the command line as typed; [`Invocation`] is its meaning. Nothing here reads
//! a file or the environment.

pub mod bench;
pub mod fleet;
mod grammar;
mod help;
mod interface;
pub mod json;
pub mod options;
mod overrides;
mod parse_error;
pub mod plugin;
pub mod serve;
pub mod session;
pub mod shim;
pub mod subcommands;
mod words;
pub mod work;

use std::ffi::OsString;

use ah_conversation::{Interface, PermissionMode};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _, Subcommand as _};

use ah_config::Error;
use ah_engine::identity::STANDS_IN_FOR;
use ah_engine::sessions::plan::SessionPlan;
use grammar::WITHOUT_MEANING;
pub use grammar::command;
pub use interface::interface_of;
use options::{InputFormat, Options, OutputFormat, OutputOptions};
use parse_error::explain;
use session::plan;
use subcommands::Subcommands;
pub use words::KnownNames;
use words::Sorted;

/// Version of this program, with the commit if it was built to be kept: `0.1.0+9a4c8caf1`.
pub const VERSION: &str = env!("AH_VERSION");
/// Similarity, from 0 to 1, from which a word is taken for a mistyped subcommand.
const NEAR: f32 = 0.75;

/// A parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The action.
    pub action: Action,
    /// The interface to present.
    pub interface: Interface,
    /// The session to use.
    pub session: SessionPlan,
    /// The options.
    pub options: Options,
    /// Options that were accepted but have no effect here, for the log.
    pub without_meaning: Vec<String>,
    /// What the user should know.
    pub warning: Option<String>,
}

/// An action of the program.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs the agent.
    Run(TypedPrompt),
    /// Queues messages for a session.
    Mail,
    /// Runs a subcommand.
    Command(Subcommands),
    /// Prints this text.
    Print(String),
}

/// A typed prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypedPrompt {
    /// The message to fork at (`@N`).
    pub fork_at: Option<u32>,
    /// The text; `None` to read standard input.
    pub text: Option<String>,
}

/// Parses a command line (without the program's name).
pub fn parse(arguments: Vec<OsString>, names: &KnownNames<'_>) -> Result<Invocation, Error> {
    let interface = interface_of(&arguments);
    let main = grammar::main().args(grammar::foreign());
    let is_print = interface::is_print(&arguments);
    let is_subcommand = |word: &str, before: &[OsString], behind: &[OsString]| match interface {
        Interface::Native => is_named(word),
        Interface::AgentSdk => {
            (!is_print && grammar::SHARED_SUBCOMMANDS.contains(&word))
                || (word == "work" && interface::is_option_of_work(before, behind))
        }
    };
    let mut sorted = words::sort(arguments, &main, is_subcommand, names, interface);
    if interface == Interface::Native {
        sorted.turn_help_to_option(is_named);
    }
    if sorted.subcommand.is_none() && sorted.options.iter().any(|option| option == "-h") {
        return Ok(printed(help::SHORT.to_owned(), interface));
    }
    let warning = match interface.stands_in() {
        true => sorted.drop_foreign_nothing(),
        false => None,
    };
    let matches = match matches(main, &sorted) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Ok(printed(error.render().to_string(), interface));
        }
        Err(error) => return Err(explain(&error, sorted.subcommand.as_ref())),
    };
    if interface == Interface::Native && sorted.subcommand.is_none() && !sorted.is_prompt {
        no_subcommand(&sorted.words)?;
    }
    // Options behind a subcommand are its own: `-p` means something else to `ah work`.
    let interface = match sorted.subcommand {
        Some(_) => interface_of(&sorted.options),
        None => interface,
    };
    sorted.check_session()?;
    let mut without_meaning = foreign_options(&matches);
    let mut options = Options::from_arg_matches(&matches).map_err(|error| explain(&error, None))?;
    options.given = sorted.options;
    check(&options)?;
    // A subcommand uses an existing session, whatever `-p` would do.
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
        Action::Print(format!("{STANDS_IN_FOR} (ah {VERSION})\n"))
    } else if options.version.name_and_version {
        Action::Print(format!("ah {VERSION}\n"))
    } else if sorted.subcommand.is_some() {
        let subcommand = Subcommands::from_arg_matches(&matches);
        Action::Command(subcommand.map_err(|error| explain(&error, None))?)
    } else if options.mail.steer.is_empty() && options.mail.followup.is_empty() {
        Action::Run(prompt(sorted.words, interface)?)
    } else {
        mail(&sorted.words)?
    };
    if let Action::Command(Subcommands::Attach { plain, .. }) = &action {
        options.output.plain |= *plain;
    }
    Ok(Invocation {
        action,
        interface,
        session,
        options,
        without_meaning,
        warning,
    })
}

/// Returns the invocation that prints a text.
fn printed(text: String, interface: Interface) -> Invocation {
    Invocation {
        action: Action::Print(text),
        interface,
        session: SessionPlan::default(),
        options: Options::default(),
        without_meaning: Vec::new(),
        warning: None,
    }
}

/// Returns whether a word is the name of a subcommand. The parser knows the second name, but does not list it.
fn is_named(word: &str) -> bool {
    Subcommands::has_subcommand(word) || word == "plugins"
}

/// Returns the parser's matches. Describing all subcommands takes as long as starting the program, so they are
/// described only if one was typed, or for help and error messages.
fn matches(main: Command, sorted: &Sorted) -> Result<ArgMatches, clap::Error> {
    let line = sorted.line();
    if sorted.subcommand.is_none()
        && let Ok(matches) = main.try_get_matches_from(&line)
    {
        return Ok(matches);
    }
    let whole = command().args(grammar::foreign());
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    let whole = match sorted.subcommand.is_some() && line.iter().any(is_help) {
        true => help::of_one(whole),
        false => whole,
    };
    whole.try_get_matches_from(line)
}

/// Fails if the words are meant for a subcommand that does not exist: a model that is paid for would read them.
fn no_subcommand(words: &[OsString]) -> Result<(), Error> {
    let Some(first) = words.first().and_then(|word| word.to_str()) else {
        return Ok(());
    };
    let is_alone = words.len() == 1;
    let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let as_prompt = format!("to send it as a prompt: ah -- {}", line.join(" "));
    let foreign = grammar::FOREIGN_SUBCOMMANDS.iter();
    let mut foreign = foreign.filter(|(_, most, _)| words.len() <= *most);
    if let Some((name, _, instead)) = foreign.find(|(name, ..)| *name == first) {
        let error = Error::usage(format!("ah has no subcommand `{name}`"));
        return Err(error.hint(format!("{instead}; {as_prompt}")));
    }
    if !is_alone || !first.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
        return Ok(());
    }
    let near = ah_diff::nearest(first, grammar::SUBCOMMANDS, 1, NEAR);
    match near.first() {
        Some(near) => Err(Error::usage(format!("ah has no subcommand `{first}`"))
            .hint(format!("did you mean `ah {near}`? {as_prompt}"))),
        None => Ok(()),
    }
}

/// Returns the given options of other agents that have no effect here.
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

fn check(options: &Options) -> Result<(), Error> {
    let output = &options.output;
    check_formats(output)?;
    if options.sandbox.no_sandbox && options.sandbox.hosts.is_some() {
        return Err(
            Error::usage("--allow-host and --allow-http need the sandbox")
                .hint("omit --no-sandbox; without a sandbox every host is reachable"),
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

/// Checks that the formats can be combined, as in the official program.
fn check_formats(output: &OutputOptions) -> Result<(), Error> {
    let speaks = output.output_format == Some(OutputFormat::StreamJson);
    if speaks && !output.verbose {
        let error = Error::usage("`--output-format stream-json` needs `--verbose`");
        return Err(error.hint("it prints every message; `json` prints only the result"));
    }
    if output.input_format == Some(InputFormat::StreamJson) && !speaks {
        let error = Error::usage(
            "`--input-format stream-json` needs `--output-format stream-json --verbose`",
        );
        return Err(error.hint("omit it to read a plain-text prompt from standard input"));
    }
    Ok(())
}

/// Parses the words of a prompt; in the native interface, a first word `@N` is the message to fork at.
fn prompt(words: Vec<OsString>, interface: Interface) -> Result<TypedPrompt, Error> {
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
        .filter(|_| interface == Interface::Native)
        .and_then(|word| word.strip_prefix('@'))
        .filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let fork_at = match fork_at {
        Some(number) => Some(
            number
                .parse()
                .map_err(|_| Error::usage(format!("message not found: @{number}")))?,
        ),
        None => None,
    };
    let text = texts[usize::from(fork_at.is_some())..].join(" ");
    Ok(TypedPrompt {
        fork_at,
        text: Some(text).filter(|text| !text.is_empty()),
    })
}

#[cfg(test)]
mod tests;
