//! `ah work`: assembles the work on an issue and shows its progress.

mod bench;
pub(super) mod demo;
mod environment;
mod events;
mod failure;
mod hub;
mod init;
mod models;
mod repository;
mod status;

use super::runtime::runtime;
use ah_config::{Config, Error};
use ah_conversation::{Environment, ExitReason, Interface};
use ah_terminal::exit;
use ah_terminal::exit::FAILURE;
use ah_terminal::signals::{Signals, leave};
use ah_work::artifact;
use ah_work::phase::{PhaseOutcome, WorkStatus};
use ah_work::run::{Work, WorkResult};

use crate::args::options::Options;
use crate::args::work::{WorkAction, WorkOptions};
use failure::failure;
use repository::Repository;

/// Runs a subcommand of `ah work`; returns the exit code.
///
/// # Errors
///
/// If there is no repository, or the work fails.
pub fn run(
    config: &Config,
    options: &Options,
    wanted: &WorkOptions,
    action: Option<&WorkAction>,
) -> Result<u8, Error> {
    in_runtime(perform(config, options, wanted, action))
}

/// Runs the work until it is done or interrupted; dropping it ends its processes.
fn in_runtime(work: impl Future<Output = Result<u8, Error>>) -> Result<u8, Error> {
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let signals = Signals::listen(leave)
            .map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))?;
        tokio::select! {
            code = work => code,
            () = signals.token().cancelled() => Ok(interrupted(&signals)),
        }
    });
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// Reports the interrupt; returns the exit code.
fn interrupted(signals: &Signals) -> u8 {
    ah_terminal::report(&Error::failure("interrupted").hint("run the same command to continue"));
    let interrupt = signals.interrupt();
    exit::code(Interface::Native, &ExitReason::Interrupted, interrupt)
}

async fn perform(
    config: &Config,
    options: &Options,
    wanted: &WorkOptions,
    action: Option<&WorkAction>,
) -> Result<u8, Error> {
    let repository = Repository::find(&config.environment).await?;
    match action {
        Some(WorkAction::Status(form)) => return status::run(&repository.top, *form),
        Some(
            action @ (WorkAction::Start { .. }
            | WorkAction::Run
            | WorkAction::Log(_)
            | WorkAction::Reset),
        ) => return bench::run(&repository, config, options, wanted, action).await,
        _ => {}
    }
    let work = repository.work(config, options, wanted).await?;
    if let Some(WorkAction::Init) = action {
        return init::run(&work, &config.environment, wanted.dry_run).await;
    }
    if wanted.dry_run {
        return dry_run(&work).await;
    }
    require_writer(&work, &config.environment).await?;
    let ended = match action.and_then(WorkAction::phase) {
        Some(phase) => work.run_phase(phase).await,
        None => work.run().await,
    };
    let folder = artifact::FOLDER;
    match ended.map_err(|error| failure(&error))? {
        WorkResult::Over(WorkStatus::NoIssues) => {
            ah_terminal::note("No open issue with label `todo`.");
            Ok(0)
        }
        WorkResult::Over(WorkStatus::PrLimit) => {
            let most = work.settings.max_prs();
            ah_terminal::note(&format!(
                "More than {most} pull requests are open; no new work is started."
            ));
            Ok(0)
        }
        WorkResult::Over(status) => {
            ah_terminal::note(&format!("{}: see {folder}/ for details", status.as_str()));
            Ok(if status == WorkStatus::Success {
                0
            } else {
                FAILURE
            })
        }
        WorkResult::Phase(outcome) => {
            ah_terminal::note(&format!("{outcome}: see {folder}/"));
            Ok(match outcome {
                PhaseOutcome::Done
                | PhaseOutcome::Partial
                | PhaseOutcome::Conflicts
                | PhaseOutcome::Skipped
                | PhaseOutcome::Judged(_) => 0,
                PhaseOutcome::Bailed | PhaseOutcome::Failed => FAILURE,
            })
        }
    }
}

/// Refuses to work for somebody who may not push, in a workflow that a comment or a review has started.
async fn require_writer(work: &Work, environment: &Environment) -> Result<(), Error> {
    let event = environment.get("GITHUB_EVENT_NAME").unwrap_or_default();
    if !matches!(event, "issue_comment" | "pull_request_review") {
        return Ok(());
    }
    let actor = environment.get("GITHUB_ACTOR").unwrap_or_default();
    let may_push = work.hub.may_push(actor).await;
    let may_push =
        may_push.map_err(|error| Error::failure(error.to_string()).maybe_hint(error.hint))?;
    if may_push {
        return Ok(());
    }
    Err(Error::failure(format!(
        "`{}` may not push to this repository, so it cannot start work on it",
        ah_terminal::line::preview(actor, 40)
    )))
}

async fn dry_run(work: &Work) -> Result<u8, Error> {
    let text = match work.look().await.map_err(|error| failure(&error))? {
        Ok(issue) => format!(
            "#{} {}\n",
            issue.number,
            ah_terminal::line::preview(&issue.title, 80)
        ),
        Err(status) => format!("{}\n", status.as_str()),
    };
    crate::commands::output::print(&text)
}
