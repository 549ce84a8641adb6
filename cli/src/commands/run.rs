//! Runs the agent on a session: takes the session, does the run and ends with its exit code.

mod instructions;
mod session;
pub(super) mod signals;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use ah_agent::{Outcome, Session, Stop};
use ah_conversation::{Clock as _, ContentBlock, MailKind, Model, Origin, SessionId};
use ah_store::{Holder, OpenError, SystemClock, uuid_of};
use tokio::runtime::Builder;

use crate::args::options::{Options, OutputFormat};
use crate::args::session::SessionPlan;
use crate::args::{Manner, Prompt};
use crate::assemble::{self, Extras};
use crate::config::Config;
use crate::error::{CliError, TRY_AGAIN};
use crate::print::Outlet;
use crate::print::json::{Subject, result};
use crate::{exit, extensions, input};
pub use instructions::{system_prompt, timeout_ms};
pub use session::Place;
use signals::Signals;

/// Runs `prompt` on the session that the options choose; gives the exit code.
///
/// # Errors
///
/// Where the run cannot begin, or could not go on.
pub fn run(prompt: &Prompt, options: &Options, config: &Config) -> Result<u8, CliError> {
    let text = match (&prompt.text, &options.prompt.skill) {
        // A skill is a task by itself, so nobody is asked for one.
        (None, Some(_)) if std::io::stdin().is_terminal() => None,
        (text, _) => input::prompt(text.as_deref(), config.manner)?,
    };
    let text = match (text, &options.prompt.skill) {
        (Some(text), _) => text,
        (None, Some(_)) => String::new(),
        (None, None) => {
            let error = CliError::usage("there is no prompt");
            return Err(error.hint("ah \"what to do\", or pipe the prompt in"));
        }
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failure(format!("cannot start: {error}")))?;
    let code = runtime.block_on(perform(text, prompt.fork_at, options, config));
    // What a tool has started may still be on its way out.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

async fn perform(
    text: String,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
) -> Result<u8, CliError> {
    let signals = Signals::listen(leave)
        .map_err(|error| CliError::failure(format!("cannot listen to signals: {error}")))?;
    let (skills, warnings) = extensions::skills(config);
    let skills = Arc::new(skills);
    let given = options.prompt.skill.as_deref();
    let expanded = extensions::expand(&text, given, &skills, config).await?;
    warnings
        .iter()
        .chain(&expanded.warnings)
        .for_each(|warning| crate::warn(warning));
    let config = &expanded.applied_to(config);
    let text = expanded.text;
    // A model that cannot be asked must not leave an empty session behind, so it comes first.
    let model = assemble::model(config, options)?;
    let plan = SessionPlan::of(options, config.manner)?;
    let place = Place::find(&plan, config)?;
    let store = match place.open() {
        Ok(store) => Arc::new(store),
        Err(OpenError::Busy(holder)) => return busy(&place, &text, config.manner, &holder),
        Err(OpenError::Store(error)) => return Err(error.into()),
    };
    place.prepare(&store, &plan, fork_at).await?;
    let asked = model.model().clone();
    let outlet = Outlet::new(signals.token().clone());
    let extras = Extras {
        skills: &skills,
        active: expanded.skill.as_deref(),
        outlet: outlet.clone(),
        host: None,
    };
    let (ports, tools, settings) =
        assemble::session(model, &store, options, config, extras).await?;
    let mut session = Session::open(ports, tools, settings).await?;
    tell_notices(&store).await;
    let stop = Stop::interrupt(signals.token().clone());
    let outcome = session.run(vec![ContentBlock::Text { text }], &stop).await;
    // Damage may show at any write.
    tell_notices(&store).await;
    let outcome = outcome?;
    if options.output.output_format == Some(OutputFormat::Json) {
        print_result(&outcome, &session, &store, options, config, &asked)?;
    }
    session.close("other").await?;
    if let Some(fault) = outlet.fault() {
        return Err(fault.into());
    }
    let code = exit::code(config.manner, &outcome.reason, signals.interrupt());
    match &outcome.failure {
        None => Ok(code),
        Some(failure) => Err(CliError {
            message: failure.to_string(),
            hint: failure.hint(),
            code,
        }),
    }
}

async fn tell_notices(store: &ah_store::Session) {
    for notice in store.take_notices().await {
        crate::warn(&notice.to_string());
    }
}

fn print_result(
    outcome: &Outcome,
    session: &Session,
    store: &ah_store::Session,
    options: &Options,
    config: &Config,
    model: &Model,
) -> Result<(), CliError> {
    let last = session.transcript().last();
    let subject = Subject {
        session: store.uuid(),
        uuid: &fresh_uuid(),
        model,
        catalog: &config.catalog()?,
        max_turns: options.limits.max_turns,
        max_budget_usd: options.limits.max_budget_usd,
        while_speaking: last.is_none_or(|last| last.origin != Origin::Results),
    };
    writeln!(std::io::stdout(), "{}", result(outcome, &subject))?;
    Ok(())
}

/// A UUID that nothing else has.
fn fresh_uuid() -> String {
    let id = SystemClock::default().message_id();
    uuid_of(&SessionId::from(id.as_str()))
}

/// Another process holds the session: a person's prompt waits there, a program is told.
fn busy(place: &Place, text: &str, manner: Manner, holder: &Holder) -> Result<u8, CliError> {
    let holder = match holder.pid {
        Some(pid) => format!("the session is held by process {pid}"),
        None => "the session is held by another process".to_owned(),
    };
    match manner {
        Manner::Own => {
            super::place::queue(place.paths())?.send(MailKind::FollowUp, text)?;
            crate::warn(&format!(
                "{holder}; the prompt waits there until the present one is answered"
            ));
            Ok(0)
        }
        Manner::DropIn => Err(CliError::failure(holder)
            .hint("`ah --followup MESSAGE` leaves words with it")
            .code(TRY_AGAIN)),
    }
}

/// The second Ctrl-C: children end first, then the program, at once.
fn leave(code: u8) {
    ah_process::finish_all();
    std::process::exit(code.into());
}
