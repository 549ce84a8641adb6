//! The program `ah`: parses the command line, runs the command and shows its output.
//!
//! Steps of a command: [`args`] (parsing) → `ah_config` (resolution with files and environment) → [`commands`], one
//! file each. Everything that another program could use too is in the crates below: `ah_engine`, and `ah_terminal` for
//! output.

pub mod args;
pub mod commands;
pub mod input;
mod log;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use ah_config::overlay::{Overlay, Unpacked};
use ah_config::trust::{Memory, Reason, Trust};
use ah_config::{Config, Error, environment, found_file};
use ah_conversation::Environment;
use ah_terminal::exit::{of_error, output_error};
use ah_terminal::print::is_attended;
use ah_terminal::{glyphs, note, report, trust, warn};
use args::subcommands::Subcommands;
use args::{Action, Invocation, KnownNames, interface_of};

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    ah_engine::enter();
    #[cfg(feature = "otel")]
    ah_engine::watch_sessions(ah_trace::watcher);
    ah_fleet::worker::end_with_worker();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let interface = interface_of(&arguments);
    let done = parse(arguments)
        .map_err(|error| (error, interface))
        .and_then(|invocation| {
            let interface = invocation.interface;
            run(invocation).map_err(|error| (error, interface))
        });
    ExitCode::from(done.unwrap_or_else(|(error, interface)| {
        report(&error);
        of_error(&error, interface)
    }))
}

fn parse(arguments: Vec<OsString>) -> Result<Invocation, Error> {
    let names = KnownNames {
        is_tool: &commands::is_tool,
        is_session: &commands::is_session,
    };
    args::parse(arguments, &names)
}

/// Runs the command; returns the exit code.
fn run(mut invocation: Invocation) -> Result<u8, Error> {
    if let Action::Print(text) = &invocation.action {
        let written = std::io::stdout().write_all(text.as_bytes());
        written.map_err(|error| output_error(&error))?;
        return Ok(0);
    }
    invocation.warning.iter().for_each(|warning| warn(warning));
    let is_there = invocation.options.output.handed_over;
    let folder = invocation.options.settings.cd.as_deref();
    let environment = environment::read(folder.filter(|_| !is_there))?;
    if let Some(agents) = &mut invocation.options.prompt.agents {
        read_agents(agents, environment.cwd())?;
    }
    let options = &invocation.options;
    glyphs::choose(&environment);
    // A run in the background has a process of its own, which enters the worktree.
    let is_elsewhere = options.output.detach && !options.output.detached_process;
    if let (Some(name), Action::Run(_), false) =
        (&options.resume.worktree, &invocation.action, is_elsewhere)
    {
        // Whether the project is trusted; its settings are those of the worktree, which come later.
        let overlay = Overlay::of_process().unwrap_or_default();
        let overrides = options.overrides()?;
        let outside = Config::survey(overrides, invocation.interface, environment, &overlay)?;
        let name = match is_there {
            // It has got its name meanwhile.
            true => outside.environment.cwd().file_name().unwrap_or_default(),
            false => name.as_ref(),
        };
        let used = commands::worktree::enter(&name.to_string_lossy(), &outside)?;
        let environment = environment::read(Some(&used.path()))?;
        let done = run_in(invocation, environment);
        commands::worktree::leave(used);
        return done;
    }
    run_in(invocation, environment)
}

/// Replaces the value of `--agents` by the text of the file that it names, unless it is JSON itself.
fn read_agents(agents: &mut String, cwd: &Path) -> Result<(), Error> {
    let path = cwd.join(&*agents);
    if !agents.trim_start().starts_with('{') && path.is_file() {
        *agents = found_file::named(&path).map_err(|error| {
            let path = path.display();
            Error::usage(format!("--agents: cannot read `{path}`: {error}"))
        })?;
    }
    Ok(())
}

/// Runs the command in the working directory of `environment`; returns the exit code.
fn run_in(invocation: Invocation, environment: Environment) -> Result<u8, Error> {
    let (plan, options) = (&invocation.session, &invocation.options);
    let overlay = Overlay::of_process().unwrap_or_else(|error| {
        // The program itself is intact, and may be needed for the repair.
        report(&commands::embed::damaged(&error));
        Overlay::default()
    });
    let mut config = match invocation.action {
        // `doctor` lists the errors itself; `demo` runs in its own folder.
        Action::Command(Subcommands::Doctor(_) | Subcommands::Demo { .. }) => Config::survey(
            options.overrides()?,
            invocation.interface,
            environment,
            &overlay,
        )?,
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
    // From here on the keys are only in this process's memory.
    ah_sandbox::conceal(&|name| config.environment.is_secret(name));
    // The terminal output looks only at the process environment, but the variable may come from a file.
    if config.environment.get("NO_COLOR").is_some() {
        anstream::ColorChoice::Never.write_global();
    }
    // The copies are removed on drop.
    let _unpacked = if concerns_project(&invocation.action) {
        unpack(&mut config)
    } else {
        None
    };
    log::start(&options.settings, &config.environment)?;
    for option in &invocation.without_meaning {
        tracing::debug!(option, "accepted without effect");
    }
    match invocation.action {
        Action::Run(prompt) => commands::begin(&prompt, options, &config),
        Action::Mail => commands::mail::run(&config, plan, &options.mail),
        Action::Command(command) => commands::perform(command, &config, plan, options),
        Action::Print(_) => Ok(0),
    }
}

/// Copies embedded programs to disk, where they can run.
fn unpack(config: &mut Config) -> Option<Unpacked> {
    match Unpacked::of(&config.embedded) {
        Ok(unpacked) => {
            config.unpacked = unpacked.as_ref().map(|it| it.folder().to_owned());
            unpacked
        }
        Err(error) => {
            warn(&format!(
                "cannot unpack the embedded programs, which are left out: {error}"
            ));
            None
        }
    }
}

/// Resolves the configuration. On a terminal the user is first asked whether to trust a project with code.
fn resolve(
    invocation: &Invocation,
    environment: Environment,
    overlay: &Overlay,
) -> Result<Config, Error> {
    let mut overrides = invocation.options.overrides()?;
    let interface = invocation.interface;
    let config = Config::resolve(overrides.clone(), interface, environment.clone(), overlay)?;
    let is_run = matches!(invocation.action, Action::Run(_));
    let may_ask = is_run && interface.asks_person();
    let is_conversation = matches!(&invocation.action, Action::Run(prompt) if prompt.text.is_none())
        && invocation.options.prompt.skill.is_none()
        && std::io::stdout().is_terminal();
    if !may_ask || !(is_attended(false) || is_attended(is_conversation)) {
        return Ok(config);
    }
    let is_trusted =
        config.trust.is_open() && ask_for_trust(config.home.as_deref(), &config.trust)?;
    if is_trusted {
        overrides.trust = Some(Reason::Option);
    }
    let again = (overrides.clone(), environment.clone());
    let config = if is_trusted {
        let mut trusted = Config::resolve(overrides, interface, environment, overlay)?;
        // Some warnings are about what happened then, and come only once.
        let mut warnings = config.warnings;
        warnings.retain(|warning| !trusted.warnings.contains(warning));
        trusted.warnings.splice(0..0, warnings);
        trusted
    } else {
        config
    };
    if !is_attended(false) {
        // What else is asked, and told with it, is written on standard error.
        return Ok(config);
    }
    commands::mcp::ask_about_hosts(&config, |_| true)?;
    if is_conversation
        && commands::login::is_needed(&config)
        && commands::login::offer(&config, &invocation.options.output)?
    {
        return Config::resolve(again.0, interface, again.1, overlay);
    }
    Ok(config)
}

/// Asks whether to trust the project; returns the answer.
fn ask_for_trust(home: Option<&Path>, trust: &Trust) -> Result<bool, Error> {
    let (mut memory, _) = Memory::read(home);
    let mut input = std::io::stdin().lock();
    let mut output: Box<dyn std::io::Write> = match is_attended(false) {
        true => Box::new(glyphs::err()),
        false => Box::new(glyphs::out()),
    };
    let answer = trust::ask(trust, &mut memory, &mut input, &mut output);
    answer.map_err(|error| Error::failure(format!("cannot ask on the terminal: {error}")))
}

/// Returns whether the action depends on the project's files.
fn concerns_project(action: &Action) -> bool {
    match action {
        Action::Run(_) => true,
        Action::Command(command) => command.shows_settings(),
        Action::Mail | Action::Print(_) => false,
    }
}
