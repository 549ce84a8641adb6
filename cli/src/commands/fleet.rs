//! `ah enqueue`, `ah worker` and what else there is for sessions that workers run.

use std::sync::Arc;
use std::time::Duration;

use ah::worker::{self, WorkerRequest};
use ah_config::overlay::Overlay;
use ah_config::{Config, Error};
use ah_conversation::{Clock as _, ContentBlock, MailKind, Message, Role, SessionId, neutralise};
use ah_store::SystemClock;
use ah_store::fleet::{Fleet, NewRun, RunRow, Timing, Wish};
use ah_terminal::signals::{Signals, leave};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::output::{print, print_json};
use super::runtime::runtime;
use crate::args::fleet::{Enqueuing, FleetAction, FleetCommands, Queued, Store};
use crate::args::options::Options;

/// Most runs that are listed.
const LISTED: u32 = 200;

/// Runs a subcommand; returns the exit code.
///
/// # Errors
///
/// If the store cannot be used, or there is no such session.
pub fn run(config: &Config, options: &Options, command: FleetCommands) -> Result<u8, Error> {
    let runtime = runtime()?;
    let code = runtime.block_on(perform(config, options, command));
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

async fn perform(config: &Config, options: &Options, command: FleetCommands) -> Result<u8, Error> {
    match command {
        FleetCommands::Enqueue(wanted) => enqueue(config, wanted).await,
        FleetCommands::Worker {
            concurrency,
            until_idle,
            model,
            store,
        } => {
            let mut overrides = options.overrides()?;
            overrides.model = model.or(overrides.model);
            let request = WorkerRequest {
                fleet: open(config, &store).await?,
                concurrency: concurrency.into(),
                until_idle,
                overrides,
                config,
                overlay: Overlay::of_process().unwrap_or_default(),
                stop: &CancellationToken::new(),
                warn: Arc::new(ah_terminal::warn),
            };
            work(request).await
        }
        FleetCommands::Watch(queued) => watch(config, &queued).await,
        FleetCommands::Steer {
            session,
            text,
            followup,
            store,
        } => {
            let kind = match followup {
                true => MailKind::FollowUp,
                false => MailKind::Steer,
            };
            if text.trim().is_empty() {
                return Err(Error::usage("the message is empty"));
            }
            let (fleet, id) = found(config, &Queued { session, store }).await?;
            fleet.send(&id, kind, &text).await?;
            ah_terminal::note(&format!("queued for session {id}"));
            Ok(0)
        }
        FleetCommands::Interrupt(queued) => wish(config, &queued, Wish::Interrupt).await,
        FleetCommands::Cancel(queued) => wish(config, &queued, Wish::Cancel).await,
        FleetCommands::Fleet {
            action: Some(FleetAction::Migrate),
            store,
            ..
        } => {
            let url = url(&store, config).ok_or_else(|| {
                Error::usage("there is nothing to prepare for the sessions of a folder")
                    .hint("name a database: `ah fleet migrate --store postgres://ROLE@HOST/DB`")
            })?;
            let version = worker::migrate(url).await?;
            print(&format!("the tables have version {version}\n"))
        }
        FleetCommands::Fleet { store, json, .. } => list(config, &store, json.json).await,
    }
}

fn url<'a>(store: &'a Store, config: &'a Config) -> Option<&'a str> {
    let given = store.store.as_deref();
    let kept = config.environment.get("AH_STORE");
    given.or(kept).filter(|url| !url.is_empty())
}

async fn open(config: &Config, store: &Store) -> Result<Arc<dyn Fleet>, Error> {
    let timing = match config.environment.get("AH_FLEET_DEAD") {
        None | Some("") => Timing::default(),
        Some(seconds) => match seconds.parse() {
            Ok(seconds) if (0.1..=3600.0).contains(&seconds) => {
                Timing::of(Duration::from_secs_f64(seconds))
            }
            _ => {
                return Err(Error::usage("AH_FLEET_DEAD is not a number of seconds")
                    .hint("it may be 0.1 to 3600"));
            }
        },
    };
    worker::fleet(url(store, config), config, timing).await
}

async fn found(config: &Config, queued: &Queued) -> Result<(Arc<dyn Fleet>, SessionId), Error> {
    let fleet = open(config, &queued.store).await?;
    let wanted = queued.session.to_ascii_uppercase();
    let mut ids = fleet.find(&wanted).await?;
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok((fleet, id)),
        (Some(_), false) => Err(Error::failure(format!(
            "several sessions begin with `{}`",
            queued.session
        ))),
        (None, _) => Err(Error::failure(format!(
            "no queued session begins with `{}`",
            queued.session
        ))
        .hint("`ah fleet` lists them")),
    }
}

async fn enqueue(config: &Config, wanted: Enqueuing) -> Result<u8, Error> {
    let clock = SystemClock::default();
    if wanted.task.trim().is_empty() {
        return Err(Error::usage("the task is empty"));
    }
    let (fleet, session) = match wanted.session {
        Some(session) => {
            let store = wanted.store;
            found(config, &Queued { session, store }).await?
        }
        None => {
            let id = clock.message_id();
            (
                open(config, &wanted.store).await?,
                SessionId::from(id.as_str()),
            )
        }
    };
    let cwd = config.environment.cwd();
    let run = NewRun {
        message: clock.message_id(),
        prompt: wanted.task,
        folder: wanted
            .folder
            .map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder)),
        model: wanted.model,
        priority: wanted.priority,
        delay: Duration::from_secs(wanted.delay),
        attempts: wanted.attempts,
        session,
    };
    fleet.enqueue(&run).await?;
    print(&format!("{}\n", run.session))
}

async fn work(request: WorkerRequest<'_>) -> Result<u8, Error> {
    let signals = Signals::listen(leave)
        .map_err(|error| Error::failure(format!("cannot listen to signals: {error}")))?;
    let stop = signals.token();
    let count = worker::work(WorkerRequest { stop, ..request }).await?;
    ah_terminal::note(&format!("runs that ended here: {count}"));
    Ok(0)
}

async fn wish(config: &Config, queued: &Queued, wish: Wish) -> Result<u8, Error> {
    let (fleet, id) = found(config, queued).await?;
    match fleet.wish(&id, wish).await? {
        0 => Err(Error::failure(format!("session {id} is at rest"))),
        _ => Ok(0),
    }
}

/// Prints the messages of a session until no run of it is open.
async fn watch(config: &Config, queued: &Queued) -> Result<u8, Error> {
    let (fleet, id) = found(config, queued).await?;
    let mut place = 0;
    loop {
        // First, so that what the last run said is not missed.
        let runs = fleet.runs(Some(&id), LISTED).await?;
        let is_over = runs.iter().all(|run| run.state.is_over());
        loop {
            let (messages, next) = fleet.messages(&id, place).await?;
            for message in &messages {
                print(&said(message, config))?;
            }
            if next == place {
                break;
            }
            place = next;
        }
        if is_over {
            let failed = runs.first().and_then(|run| run.error.as_deref());
            if let Some(error) = failed.filter(|_| runs[0].state.word() == "failed") {
                return Err(Error::failure(error));
            }
            return Ok(0);
        }
        fleet.wait(fleet.timing().beat).await;
    }
}

/// Returns a message as lines: who says it, its text, and the calls in one line each.
fn said(message: &Message, config: &Config) -> String {
    let mut lines = String::new();
    for block in &message.content {
        let line = match block {
            ContentBlock::Text { text } if message.role == Role::User => format!("> {text}"),
            ContentBlock::Text { text } => text.clone(),
            ContentBlock::ToolUse(call) => {
                let input = serde_json::to_string(&call.input).unwrap_or_default();
                let input: String = input.chars().take(200).collect();
                format!("* {} {input}", call.name)
            }
            ContentBlock::ToolResult(result) if result.is_error => {
                format!("! {}", result.text().lines().next().unwrap_or_default())
            }
            _ => continue,
        };
        lines.push_str(&config.environment.redact(&line));
        lines.push('\n');
    }
    lines
}

async fn list(config: &Config, store: &Store, is_json: bool) -> Result<u8, Error> {
    let fleet = open(config, store).await?;
    let runs = fleet.runs(None, LISTED).await?;
    if is_json {
        let counts = fleet.counts().await?;
        let counts = counts
            .iter()
            .map(|(state, count)| (state.word().to_owned(), json!(count)));
        let runs: Vec<_> = runs.iter().map(to_json).collect();
        return print_json(&json!({ "counts": Value::Object(counts.collect()), "runs": runs }));
    }
    if runs.is_empty() {
        return print("nothing was queued; `ah enqueue TASK` queues a run\n");
    }
    let lines = runs.iter().map(|run| {
        let error = run.error.as_deref().unwrap_or_default();
        let error = error.lines().next().unwrap_or_default();
        let worker = run.worker.as_deref().unwrap_or_default();
        let line = format!(
            "{:>6}  {}  {:<9}  {}  {worker}  {error}",
            run.id,
            run.session,
            run.state.word(),
            run.attempt
        );
        format!("{}\n", neutralise(line.trim_end()))
    });
    print(&lines.collect::<String>())
}

fn to_json(run: &RunRow) -> Value {
    json!({
        "id": run.id,
        "session": run.session,
        "state": run.state.word(),
        "attempt": run.attempt,
        "worker": run.worker,
        "queued_at": run.queued_at.seconds(),
        "error": run.error,
        "cost_usd": run.cost.map(|cost| cost as f64 / 1e12),
    })
}
