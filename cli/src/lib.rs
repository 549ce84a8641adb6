//! The program `ah`: reads the command line, puts the engine together and shows what it does.
//!
//! This is the only crate that reads the environment, names concrete types and touches the terminal. The way of a
//! command: [`args`] (what was typed) → [`config`] (what holds, with files and environment) → `commands`.
//!
//! Other programs begin at [`library`].

pub mod args;
pub mod assemble;
pub mod commands;
pub mod config;
pub mod confinement;
pub mod embedded;
pub mod environment;
pub mod error;
pub mod exit;
pub mod extensions;
mod found_file;
pub mod input;
mod key_command;
pub mod library;
mod log;
pub mod overlay;
mod own_folder;
mod pictures;
pub mod print;
mod repl;
pub mod trust;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use ah_conversation::{Environment, Interface};
use args::subcommands::Subcommands;
use args::{Action, Invocation, Names};
use config::Config;
use error::CliError;
use overlay::{Overlay, Unpacked};
use print::neutralise;
use trust::Memory;

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    library::enter();
    match run(std::env::args_os().skip(1).collect()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(error.code)
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<u8, CliError> {
    let names = Names {
        is_tool: &commands::is_tool,
        is_session: &commands::is_session,
    };
    let invocation = args::parse(arguments, &names)?;
    if let Action::Print(text) = &invocation.action {
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(0);
    }
    let interface = invocation.interface;
    perform(invocation).map_err(|error| error.for_interface(interface))
}

fn perform(invocation: Invocation) -> Result<u8, CliError> {
    let (plan, options) = (&invocation.session, &invocation.options);
    let environment = environment::read(options.settings.cd.as_deref())?;
    let overlay = Overlay::of_process().unwrap_or_else(|fault| {
        // The program itself is whole, and may be what the damage is to be mended with.
        report(&commands::embed::damaged(&fault));
        Overlay::default()
    });
    let mut config = match invocation.action {
        // The one lists what is wrong with the settings itself, the other plays in a folder of its own.
        Action::Command(Subcommands::Doctor(_) | Subcommands::Demo { .. }) => {
            Config::survey(options, invocation.interface, environment, &overlay)?
        }
        _ => {
            let config = resolve(&invocation, environment, &overlay)?;
            config.warnings.iter().for_each(|warning| warn(warning));
            if concerns_project(&invocation.action)
                && let Some(notice) = config.trust.notice()
            {
                note(&notice);
            }
            config
        }
    };
    // The writers to the terminal look at the process alone, and the variable may come from a file.
    if config.environment.get("NO_COLOR").is_some() {
        anstream::ColorChoice::Never.write_global();
    }
    // What is unpacked goes when this ends.
    let _unpacked = match concerns_project(&invocation.action) {
        true => unpack(&mut config),
        false => None,
    };
    log::start(&options.settings, &config.environment)?;
    for option in &invocation.without_meaning {
        tracing::debug!(option, "accepted, and without meaning here");
    }
    match invocation.action {
        Action::Run(prompt) => commands::run::run(&prompt, options, &config),
        Action::Mail => commands::mail::run(&config, plan, &options.mail),
        Action::Command(command) => commands::perform(command, &config, plan, options),
        Action::Print(_) => Ok(0),
    }
}

/// Puts embedded programs where they can run.
fn unpack(config: &mut Config) -> Option<Unpacked> {
    match Unpacked::of(&config.embedded) {
        Ok(unpacked) => {
            config.unpacked = unpacked.as_ref().map(|it| it.folder().to_owned());
            unpacked
        }
        Err(error) => {
            warn(&format!(
                "the embedded programs cannot be unpacked, so they are left out: {error}"
            ));
            None
        }
    }
}

/// Resolves what holds. On a terminal the user is asked first whether they trust a project that has code.
fn resolve(
    invocation: &Invocation,
    environment: Environment,
    overlay: &Overlay,
) -> Result<Config, CliError> {
    let Invocation {
        options, interface, ..
    } = invocation;
    let config = Config::resolve(options, *interface, environment.clone(), overlay)?;
    let is_run = matches!(invocation.action, Action::Run(_));
    let may_ask = is_run && *interface == Interface::Native;
    let is_terminal = || std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !may_ask || !config.trust.is_open() || !is_terminal() {
        return Ok(config);
    }
    let (mut memory, _) = Memory::read(config.home.as_deref());
    let (mut input, mut output) = (std::io::stdin().lock(), anstream::stderr().lock());
    match trust::ask(&config.trust, &mut memory, &mut input, &mut output) {
        Ok(true) => {
            let mut options = options.clone();
            options.safety.trust = true;
            Config::resolve(&options, *interface, environment, overlay)
        }
        Ok(false) => Ok(config),
        Err(error) => Err(CliError::failure(format!(
            "cannot ask on the terminal: {error}"
        ))),
    }
}

/// Whether what a project's files say matters to what is done.
fn concerns_project(action: &Action) -> bool {
    match action {
        Action::Run(_) => true,
        Action::Command(command) => command.shows_settings(),
        Action::Mail | Action::Print(_) => false,
    }
}

/// Tells why the program stops. Where even standard error is closed, the exit code has to say it all.
fn report(error: &CliError) {
    let mut stderr = anstream::stderr().lock();
    if !error.message.is_empty() {
        let _ = writeln!(stderr, "error: {}", neutralise(&error.message));
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(stderr, "hint: {}", neutralise(hint));
    }
}

/// Tells the user something that the program goes on in spite of.
fn warn(text: &str) {
    print::tell(&format!("warning: {}", neutralise(text)));
}

/// Tells the user something.
fn note(text: &str) {
    print::tell(&neutralise(text));
}
