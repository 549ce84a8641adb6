//! Tasks in a queue: each is a run of its own, `ah bench DIR --task NAME`, by whichever worker takes it.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{Clock as _, Environment, SessionId, StoreError};
use ah_ids::SystemClock;
use ah_store::fleet::{Fleet, NewRun, RunRow};

use super::report::{TaskResult, Verdict};
use super::task::Task;
use crate::args::bench::BenchOptions;
use crate::commands::fleet::store;

/// Folder with the sessions as which tasks are queued, beside their results.
const QUEUED: &str = ".queued";
/// Most tasks that are looked at between two pauses.
const LOOKED_AT: usize = 100;
/// How often a run is attempted whose worker dies.
const ATTEMPTS: u32 = 5;

/// Queues the tasks that are not queued yet, and returns their results when all have ended. If it is interrupted, they
/// go on, and the same call waits for them again.
///
/// # Errors
///
/// If the store fails, or a result cannot be read or written.
pub(super) async fn results(
    config: &Config,
    tasks: Vec<Task>,
    options: &BenchOptions,
) -> Result<Vec<TaskResult>, Error> {
    let fleet = store::open(config, &options.store).await?;
    let mut open = VecDeque::new();
    for task in tasks {
        let id = match queued_as(&task) {
            Some(id) if is_open(newest(&*fleet, &id).await?.as_ref()) => id,
            _ => enqueue(&config.environment, &*fleet, &task, options).await?,
        };
        open.push_back((task, id));
    }
    ah_terminal::note(&format!(
        "{} tasks are queued for `ah worker --commands`",
        open.len()
    ));
    let mut results = Vec::new();
    while !open.is_empty() {
        for _ in 0..open.len().min(LOOKED_AT) {
            let Some((task, id)) = open.pop_front() else {
                break;
            };
            let run = newest(&*fleet, &id).await?;
            if is_open(run.as_ref()) {
                open.push_back((task, id));
                continue;
            }
            let result = task.result(&options.run)?;
            let result = result.unwrap_or_else(|| TaskResult {
                task: task.name().to_owned(),
                verdict: Verdict::Broken,
                error: run.and_then(|run| run.error),
                options: options.run.clone(),
                ..TaskResult::default()
            });
            ah_terminal::note(&result.line());
            results.push(result);
        }
        if !open.is_empty() {
            fleet.wait(fleet.timing().beat).await;
        }
    }
    Ok(results)
}

async fn newest(fleet: &dyn Fleet, session: &SessionId) -> Result<Option<RunRow>, StoreError> {
    Ok(fleet.runs(Some(session), 1).await?.pop())
}

fn is_open(run: Option<&RunRow>) -> bool {
    run.is_some_and(|run| !run.state.is_over())
}

async fn enqueue(
    environment: &Environment,
    fleet: &dyn Fleet,
    task: &Task,
    options: &BenchOptions,
) -> Result<SessionId, Error> {
    let clock = SystemClock::default();
    let session = SessionId::from(clock.message_id().as_str());
    // First, so that a run that was queued is always known.
    queue_as(task, &session)?;
    fleet
        .enqueue(&NewRun {
            session: session.clone(),
            message: clock.message_id(),
            prompt: format!("ah bench: {}", task.name()),
            command: command(task, options),
            folder: environment.cwd().to_owned(),
            model: None,
            priority: 0,
            delay: Duration::ZERO,
            attempts: ATTEMPTS,
            answer_within: None,
        })
        .await?;
    Ok(session)
}

fn queued_path(task: &Task) -> PathBuf {
    task.output().join(QUEUED).join(task.name())
}

/// Returns the session as which a task was queued last.
fn queued_as(task: &Task) -> Option<SessionId> {
    let id = fs::read_to_string(queued_path(task)).ok()?;
    Some(SessionId::from(id.trim()))
}

/// Writes down the session as which a task is queued, and removes its result.
fn queue_as(task: &Task, session: &SessionId) -> Result<(), Error> {
    let path = queued_path(task);
    let written = fs::create_dir_all(task.output().join(QUEUED))
        .and_then(|()| fs::write(&path, session.as_str()))
        .and_then(|()| match fs::remove_file(task.result_path()) {
            Err(error) if error.kind() == NotFound => Ok(()),
            removed => removed,
        });
    written.map_err(|error| Error::failure(format!("cannot write `{}`: {error}", path.display())))
}

/// Returns the command line that runs a task, wherever it is.
fn command(task: &Task, options: &BenchOptions) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut words = vec!["bench".to_owned(), text(task.all())];
    words.extend(["--task".to_owned(), task.name().to_owned()]);
    words.extend(["--output".to_owned(), text(task.output())]);
    for host in &options.allow_host {
        words.extend(["--allow-host".to_owned(), host.clone()]);
    }
    if options.no_sandbox {
        words.push("--no-sandbox".to_owned());
    }
    words.push("--".to_owned());
    words.extend(options.run.iter().cloned());
    words
}
