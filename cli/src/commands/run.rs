//! Runs the agent on a session: takes the session, does the run and ends with its exit code.

mod instructions;
mod serve;
mod session;
pub(crate) mod signals;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use ah_agent::{Session, Stop};
use ah_conversation::{Interface, MailKind};
use ah_protocol::stream_json::Source;
use ah_store::{Holder, OpenError};
use tokio::runtime::Builder;

use crate::args::Prompt;
use crate::args::options::{InputFormat, Options, OutputFormat, Profile};
use crate::args::session::SessionPlan;
use crate::assemble::{self, Own, Shown, Stage};
use crate::config::Config;
use crate::confinement::Attempt;
use crate::error::{CliError, TRY_AGAIN};
use crate::print::Outlet;
use crate::repl::{Form, Words};
use crate::{exit, extensions, input, pictures, repl};
pub use instructions::{surroundings, system_prompt, timeout_ms};
pub(crate) use serve::{Engaging, engage};
pub use session::Place;
use signals::Signals;

/// Runs `prompt` on the session that the options choose; gives the exit code.
///
/// # Errors
///
/// Where the run cannot begin, or could not go on.
pub fn run(prompt: &Prompt, options: &Options, config: &Config) -> Result<u8, CliError> {
    let form = conversation(prompt, options, config);
    let source = match form {
        Some(_) => None,
        None => Some(source(prompt, options, config)?),
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failure(format!("cannot start: {error}")))?;
    let code = match (source, form) {
        (Some(source), _) => runtime.block_on(perform(source, prompt.fork_at, options, config)),
        (None, form) => {
            let form = form.unwrap_or(Form::Drawn);
            let main = assemble::as_main(options, config)?;
            let (options, config) = match &main {
                Some(main) => (&main.options, &main.config),
                None => (options, config),
            };
            runtime.block_on(repl::perform(form, prompt.fork_at, options, config))
        }
    };
    // What a tool has started may still be on its way out.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// How a conversation is had, where somebody sits at a terminal who has not said anything yet. A plain loop reads its
/// lines from wherever they come.
fn conversation(prompt: &Prompt, options: &Options, config: &Config) -> Option<Form> {
    let output = &options.output;
    let is_text = matches!(output.output_format, None | Some(OutputFormat::Text));
    let says_nothing = prompt.text.is_none() && options.prompt.skill.is_none();
    if !says_nothing || !is_text || config.interface != Interface::Native {
        return None;
    }
    if options.tools.profile == Some(Profile::PlainRepl) {
        return Some(Form::Plain(Words::Loop));
    }
    let is_dumb = matches!(config.environment.get("TERM"), None | Some("dumb"));
    let form = match output.plain || is_dumb {
        true => Form::Plain(Words::Own),
        false => Form::Drawn,
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_terminal.then_some(form)
}

/// Where the prompts come from.
fn source(prompt: &Prompt, options: &Options, config: &Config) -> Result<Source, CliError> {
    if options.output.input_format == Some(InputFormat::StreamJson) {
        return Ok(Source::Lines(Box::new(std::io::stdin())));
    }
    let text = match (&prompt.text, &options.prompt.skill) {
        // A skill is a task by itself, so nobody is asked for one.
        (None, Some(_)) if std::io::stdin().is_terminal() => None,
        (text, _) => input::prompt(text.as_deref(), config.interface)?,
    };
    match (text, &options.prompt.skill) {
        (Some(text), _) => Ok(Source::Prompt(text)),
        (None, Some(_)) => Ok(Source::Prompt(String::new())),
        (None, None) => {
            let error = CliError::usage("there is no prompt");
            Err(error.hint("ah \"what to do\", or pipe the prompt in"))
        }
    }
}

async fn perform(
    source: Source,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
) -> Result<u8, CliError> {
    let signals = Signals::listen(leave)
        .map_err(|error| CliError::failure(format!("cannot listen to signals: {error}")))?;
    match (source, options.output.output_format) {
        (Source::Prompt(text), None | Some(OutputFormat::Text | OutputFormat::Events)) => {
            show(text, fork_at, options, config, &signals).await
        }
        (source, _) => serve::perform(source, fork_at, options, config, &signals).await,
    }
}

/// Runs one prompt for a person, or for a program of ours.
async fn show(
    text: String,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
    signals: &Signals,
) -> Result<u8, CliError> {
    let main = assemble::as_main(options, config)?;
    let (options, config) = match &main {
        Some(main) => (&main.options, &main.config),
        None => (options, config),
    };
    let first_words = main.as_ref().and_then(|main| main.first_words.as_deref());
    let attempt = Attempt::begin(options, config)?;
    let (skills, warnings) = extensions::skills(config);
    let skills = Arc::new(skills);
    let given = options.prompt.skill.as_deref();
    let expanded = extensions::expand(&text, given, &skills, config, &attempt).await?;
    warnings
        .iter()
        .chain(&expanded.warnings)
        .for_each(|warning| crate::warn(warning));
    let config = &expanded.applied_to(config);
    let text = match first_words {
        Some(words) => format!("{words}\n\n{}", expanded.text),
        None => expanded.text,
    };
    let blocks = pictures::blocks(text.clone(), Vec::new(), &config.environment)
        .map_err(CliError::failure)?;
    let outlet = Outlet::new(signals.token().clone());
    let shown = Shown {
        skills: &skills,
        active: expanded.skill.as_deref(),
        standing: attempt.standing(),
        outlet: outlet.clone(),
        host: None,
        stage: Stage::Streams,
        hooks: Vec::new(),
        own: Own::default(),
    };
    let plan = SessionPlan::of(options, config.interface)?;
    let opened = open(&plan, options, config, fork_at, shown).await;
    let Opened { mut session, store } = match opened {
        Err(error) if error.code == TRY_AGAIN => {
            return wait_there(&text, error, options, config);
        }
        opened => opened?,
    };
    tell_notices(&store).await;
    let stop = Stop::interrupt(signals.token().clone());
    let outcome = session.run(blocks, &stop).await;
    // Damage may show at any write.
    tell_notices(&store).await;
    let outcome = outcome?;
    session.close("other").await?;
    if let Some(answer) = &outcome.structured {
        // What is closed is told below.
        let _ = writeln!(std::io::stdout(), "{answer}");
    }
    if let Some(fault) = outlet.fault() {
        return Err(fault.into());
    }
    let code = exit::code(config.interface, &outcome.reason, signals.interrupt());
    match &outcome.failure {
        None => Ok(code),
        Some(failure) => Err(CliError {
            message: failure.to_string(),
            hint: failure.hint(),
            code,
        }),
    }
}

/// A session that was put together, and its store.
pub(crate) struct Opened {
    /// The session.
    pub(crate) session: Session,
    /// Where it is kept.
    pub(crate) store: Arc<ah_store::SessionStore>,
}

/// Opens the session that `plan` chooses, and puts all together that it needs.
pub(crate) async fn open(
    plan: &SessionPlan,
    options: &Options,
    config: &Config,
    fork_at: Option<u32>,
    shown: Shown<'_>,
) -> Result<Opened, CliError> {
    // A model that cannot be asked must not leave an empty session behind, so it comes first.
    let model = match &shown.own.provider {
        Some(own) => own.clone(),
        None => assemble::model(config, options)?,
    };
    let place = Place::find(plan, config)?;
    let store = match place.open() {
        Ok(store) => Arc::new(store),
        Err(OpenError::Busy(holder)) => return Err(busy(&holder)),
        Err(OpenError::Store(error)) => return Err(error.into()),
    };
    place.prepare(&store, plan, fork_at).await?;
    let (ports, tools, settings) = assemble::session(model, &store, options, config, shown).await?;
    let session = Session::open(ports, tools, settings).await?;
    Ok(Opened { session, store })
}

pub(crate) async fn tell_notices(store: &ah_store::SessionStore) {
    for notice in store.take_notices().await {
        crate::warn(&notice.to_string());
    }
}

/// Another process holds the session.
fn busy(holder: &Holder) -> CliError {
    let holder = match holder.pid {
        Some(pid) => format!("the session is held by process {pid}"),
        None => "the session is held by another process".to_owned(),
    };
    CliError::failure(holder)
        .hint("`ah --followup MESSAGE` leaves words with it")
        .code(TRY_AGAIN)
}

/// Where another process holds the session, a person's prompt waits there; a program is told.
fn wait_there(
    text: &str,
    busy: CliError,
    options: &Options,
    config: &Config,
) -> Result<u8, CliError> {
    if config.interface == Interface::AgentSdk {
        return Err(busy);
    }
    let plan = SessionPlan::of(options, config.interface)?;
    let place = Place::find(&plan, config)?;
    super::place::queue(place.paths())?.send(MailKind::FollowUp, text)?;
    crate::warn(&format!(
        "{}; the prompt waits there until the present one is answered",
        busy.message
    ));
    Ok(0)
}

/// The second Ctrl-C: children end first, then the program, at once.
pub(crate) fn leave(code: u8) {
    ah_process::finish_all();
    std::process::exit(code.into());
}
