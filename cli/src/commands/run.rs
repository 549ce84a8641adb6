//! Runs the agent on a session and returns the exit code.

pub mod keyless;
mod serve;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use ah_agent::{Audience, RunFailure, Stop};
use ah_config::profile::Profile;
use ah_config::{Config, Error, ErrorKind};
use ah_conversation::{ContentBlock, Interface, MailKind};
use ah_engine::assemble::{self, SessionInputs, SessionView, before_session};
use ah_engine::prompt::{expand::expand, mentions, served};
use ah_engine::sessions::place::SessionLocation;
use ah_engine::warn::Warn;
use ah_engine::{Opened, Opening};
use ah_protocol::stream_json::{Source, error_text, is_local};
use ah_terminal::print::events::Events;
use ah_terminal::print::text::{Text, View};
use ah_terminal::print::{Lines, Look, Outlet, Screen, asks, patient};
use ah_terminal::repl::{self, Display, End, PlainStyle};
use ah_terminal::signals::{Signals, leave};
use ah_terminal::{exit, report, tell_notices, warn};

use crate::args::TypedPrompt;
use crate::args::options::{Options, OutputFormat};
use crate::args::session::plan;
use crate::input;

use super::detach;
use super::runtime::runtime;

/// Runs `prompt` on the session that the options choose; returns the exit code.
///
/// # Errors
///
/// If the run cannot start or continue.
pub fn run(prompt: &TypedPrompt, options: &Options, config: &Config) -> Result<u8, Error> {
    let form = conversation(prompt, options, config);
    let config = &patient(config, form.is_some());
    let source = match form {
        Some(_) => None,
        None => Some(input::source(prompt, options, config.interface)?),
    };
    let runtime = runtime()?;
    let code = match (source, form) {
        (Some(source), _) => runtime.block_on(perform(source, prompt.fork_at, options, config)),
        (None, form) => {
            let form = form.unwrap_or(Display::Drawn);
            let main = assemble::as_main(config)?;
            let config = main.as_ref().map_or(config, |main| &main.config);
            let plan = plan(options, config.interface)?;
            let ended = runtime.block_on(repl::perform(form, &plan, prompt.fork_at, config));
            match ended {
                Ok(End::Exit(code)) => Ok(code),
                Ok(End::Left(left)) => detach::hand_over(&left, options, config),
                Err(error) => keyless::told(error, config.interface),
            }
        }
    };
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// Returns the display of a conversation at a terminal, if no prompt is given. A plain loop may read its lines from
/// any input.
fn conversation(prompt: &TypedPrompt, options: &Options, config: &Config) -> Option<Display> {
    let output = &options.output;
    let is_text = matches!(output.output_format, None | Some(OutputFormat::Text));
    let does_nothing_else =
        options.prompt.skill.is_some() || options.prompt.init_only || options.checks_alone();
    let says_nothing = prompt.text.is_none() && !does_nothing_else;
    if !says_nothing || !is_text || !config.interface.asks_person() {
        return None;
    }
    if { config.tools.profile.as_ref() }.is_some_and(|chosen| chosen.value == Profile::PlainRepl) {
        return Some(Display::Plain(PlainStyle::Loop));
    }
    let is_dumb = matches!(config.environment.get("TERM"), None | Some("dumb"));
    let form = match output.plain || is_dumb {
        true => Display::Plain(PlainStyle::Own),
        false => Display::Drawn,
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_terminal.then_some(form)
}

async fn perform(
    source: Source,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
) -> Result<u8, Error> {
    let signals = Signals::listen(leave)
        .map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))?;
    match (source, options.output.output_format) {
        (Source::Prompt(text), None | Some(OutputFormat::Text))
            if config.interface == Interface::AgentSdk && is_local(&text) =>
        {
            serve::perform(Source::Prompt(text), fork_at, options, config, &signals).await
        }
        (Source::Prompt(text), None | Some(OutputFormat::Text | OutputFormat::Events)) => {
            show(text, fork_at, options, config, &signals).await
        }
        (source, _) => serve::perform(source, fork_at, options, config, &signals).await,
    }
}

/// Runs one prompt for a person, or for a program that reads our events.
async fn show(
    text: String,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
    signals: &Signals,
) -> Result<u8, Error> {
    let (text, config) = assemble::goal::in_prompt(text, config.clone())?;
    let mut opening = Opening::as_main(config)?;
    let (config, probe, skills) = (&opening.config, &opening.probe, &opening.skills);
    let given = config.run.prompt.skill.as_deref();
    if let Some(refusal) = unknown(&text, given, config) {
        return Err(Error::usage(refusal).hint("to send it as it is, begin with a space"));
    }
    let told: Warn = Arc::new(warn);
    let hooks = || before_session(config, probe.status(), &told);
    let expanded = expand(&text, given, skills, config, probe, &hooks).await?;
    let (applied, more) = expanded.applied_to(config);
    opening.config = applied.into_owned();
    let config = &opening.config;
    let all = opening.warnings.iter().chain(&expanded.warnings);
    all.chain(&more).for_each(|warning| warn(warning));
    let before = opening.first_words.as_ref();
    let before = before.map(|words| format!("{words}\n\n"));
    let before = before.unwrap_or_default();
    let blocks = mentions::said(&expanded, &before, Vec::new(), config)?.blocks;
    let text = format!("{before}{}", expanded.text);
    let outlet = Outlet::new(signals.token().clone());
    let format = options.output.output_format.unwrap_or_default();
    let asks = asks(config, false).filter(|_| format == OutputFormat::Text);
    let inputs = SessionInputs {
        active: expanded.skill.as_deref(),
        has_person: asks.is_some(),
        ..opening.inputs(told)
    };
    let look = Look::of_process(options.output.plain, &config.environment);
    let screen = Screen::of_process(look, outlet.clone());
    let audience = |session: SessionView| {
        match format {
            OutputFormat::Events => Audience::watching(Arc::new(Events::new(screen))),
            // The JSON formats have their own watchers.
            OutputFormat::Text | OutputFormat::Json | OutputFormat::StreamJson => {
                Audience::of(Arc::new(Text::new(View::of(session, config, asks), screen)))
            }
        }
    };
    let plan = plan(options, config.interface)?;
    let is_busy =
        |it: &Error| it.kind == ErrorKind::SessionBusy && !super::place::is_aimed(&config.check);
    let opened = match opening.open(&plan, fork_at, inputs, audience).await {
        // What is queued is answered at the end of the session, not at the message that was meant, and without a check of ours.
        Err(error) if is_busy(&error) && fork_at.is_none() && plan.at.is_none() => {
            return wait_there(&text, error, options, config);
        }
        Err(error) => return keyless::told(error, config.interface),
        Ok(opened) => opened,
    };
    let warnings = &opened.warnings;
    warnings.iter().for_each(|warning| warn(warning));
    if options.prompt.init_only {
        let mut session = opened.session;
        session.begin().await;
        session.close("other").await?;
        return Ok(0);
    }
    let servers = opened.session.tools().servers();
    let blocks = served::with(servers, &expanded, blocks, config).await?;
    finish(opened, blocks, &outlet, config, signals).await
}

/// Returns why a person's prompt is sent to no model: it looks like a command that does not exist.
fn unknown(text: &str, skill: Option<&str>, config: &Config) -> Option<String> {
    let is_own = config.interface == Interface::Native && skill.is_none();
    let is_served = served::is_meant(text, &config.mcp_servers);
    repl::unknown_command(text, config).filter(|_| is_own && !is_served)
}

/// Runs the session and reports its end; returns the exit code.
async fn finish(
    opened: Opened,
    prompt: Vec<ContentBlock>,
    outlet: &Outlet,
    config: &Config,
    signals: &Signals,
) -> Result<u8, Error> {
    let (mut session, store) = (opened.session, opened.store);
    tell_notices(&store).await;
    let stop = Stop::interrupt(signals.token().clone());
    let outcome = session.run_or_check(prompt, &stop).await;
    // Any write may detect damage.
    tell_notices(&store).await;
    let mut outcome = outcome?;
    // A program waits for what the model has started.
    while config.interface == Interface::AgentSdk
        && session.await_task(config.task_patience, &stop).await
        && let Some(last) = session.run_reports(&stop).await?
    {
        outcome = last;
    }
    let model = session.model().name.clone();
    session.close("other").await?;
    if let Some(answer) = &outcome.structured {
        // A closed output is reported below.
        let _ = Lines.write_all(format!("{answer}\n").as_bytes());
    }
    if let Some(error) = outlet.error() {
        return Err(exit::output_error(error));
    }
    if let (Some(RunFailure::Provider(error)), Interface::AgentSdk) =
        (&outcome.failure, config.interface)
    {
        // Where the original prints it: programs look for its words there.
        let text = error_text(error, &model);
        let _ = Lines.write_all(format!("{text}\n").as_bytes());
    } else if let Some(failure) = &outcome.failure {
        report(&Error::failure(failure.to_string()).maybe_hint(failure.hint()));
    }
    Ok(exit::code(
        config.interface,
        &outcome.reason,
        signals.interrupt(),
    ))
}

/// Queues a person's prompt if another process holds the session; a program gets the error.
fn wait_there(text: &str, busy: Error, options: &Options, config: &Config) -> Result<u8, Error> {
    if !config.interface.asks_person() {
        return Err(busy);
    }
    let plan = plan(options, config.interface)?;
    let location = SessionLocation::find(&plan, config)?;
    super::place::queue(location.paths())?.send(MailKind::FollowUp, text)?;
    warn(&format!(
        "{}; the prompt is queued: it is answered there after the current run, or with the next prompt",
        busy.message
    ));
    Ok(0)
}
