//! `ah enqueue`, `ah worker` and what else there is for sessions that workers run.

mod answer;
mod enqueue;
mod limit;
mod moving;
mod show;
pub(super) mod store;

use std::net::SocketAddr;
use std::sync::Arc;

use ah_config::{Config, Error, Resolver};
use ah_conversation::{Interface, MailKind};
use ah_fleet::worker::{self, Threads, WorkerRequest};
use ah_store::fleet::Wish;
use ah_terminal::print::question::described;
use ah_terminal::signals::{Signals, leave};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::store::{found, open, url};
use super::output::print;
use super::runtime::runtime;
use super::sessions;
use crate::args::fleet::{FleetAction, FleetCommands, Queued, Store};
use crate::args::options::Options;

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
        FleetCommands::Enqueue(wanted) => enqueue::enqueue(config, options, wanted).await,
        FleetCommands::Worker {
            concurrency,
            until_idle,
            model,
            metrics,
            commands,
            store,
        } => {
            let mut overrides = options.overrides()?;
            overrides.model = model.or(overrides.model);
            let request = WorkerRequest {
                fleet: open(config, &store).await?,
                concurrency: concurrency.into(),
                until_idle,
                runs_commands: commands,
                around: Arc::new(Threads(Resolver::new(overrides, Interface::Native, config))),
                stop: &CancellationToken::new(),
                probes: match metrics {
                    Some(address) => Some(bound(address).await?),
                    None => None,
                },
                described,
                warn: Arc::new(ah_terminal::warn),
            };
            work(request).await
        }
        FleetCommands::Watch(queued) => {
            let (fleet, id) = found(config, &queued).await?;
            show::watch(&config.environment, &*fleet, &id).await
        }
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
        FleetCommands::Answer {
            session,
            number,
            answers,
            store,
        } => {
            let (fleet, id) = found(config, &Queued { session, store }).await?;
            match number {
                Some(number) => answer::answer(&*fleet, &id, number, &answers).await,
                None => answer::list(&config.environment, &*fleet, &id).await,
            }
        }
        FleetCommands::Move(wanted) => moving::perform(config, options, &wanted).await,
        FleetCommands::Interrupt(queued) => wish(config, &queued, Wish::Interrupt).await,
        FleetCommands::Cancel(queued) => wish(config, &queued, Wish::Cancel).await,
        FleetCommands::Fleet {
            action: Some(action),
            store,
            ..
        } => act(config, action, &store).await,
        FleetCommands::Fleet { store, json, .. } => {
            show::list(&*open(config, &store).await?, json.json).await
        }
    }
}

async fn act(config: &Config, action: FleetAction, store: &Store) -> Result<u8, Error> {
    match action {
        FleetAction::Migrate { graphile } => {
            let url = url(store, &config.environment).ok_or_else(|| {
                Error::usage("there is nothing to prepare for the sessions of a folder")
                    .hint("name a database: `ah fleet migrate --store postgres://ROLE@HOST/DB`")
            })?;
            let version = worker::migrate(url, graphile).await?;
            print(&format!("the tables have version {version}\n"))
        }
        FleetAction::Gc { older_than } => {
            let fleet = open(config, store).await?;
            let collected = fleet.collect(sessions::days_ago(older_than)).await?;
            print(&sessions::removed(&collected, "content"))
        }
        limit @ FleetAction::Limit { .. } => {
            limit::limit(&*open(config, store).await?, limit).await
        }
        FleetAction::Schedules => enqueue::schedules(&*open(config, store).await?).await,
        FleetAction::Unschedule { number } => {
            enqueue::unschedule(&*open(config, store).await?, number).await
        }
    }
}

async fn bound(address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.map_err(|error| Error::failure(format!("cannot use {address}: {error}")))?;
    let at = listener.local_addr();
    let at = at.map_err(|error| Error::failure(error.to_string()))?;
    ah_terminal::note(&format!("metrics: http://{at}/metrics"));
    Ok(listener)
}

async fn work(request: WorkerRequest<'_>) -> Result<u8, Error> {
    let signals = Signals::listen(leave)
        .map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))?;
    let stop = signals.token();
    if !request.until_idle {
        let at_once = request.concurrency;
        ah_terminal::note(&format!(
            "waiting for runs, {at_once} at once; `ah enqueue TASK` queues one, Ctrl-C ends the worker"
        ));
    }
    let count = worker::work(WorkerRequest { stop, ..request }).await?;
    ah_terminal::note(&format!("runs that ended here: {count}"));
    Ok(0)
}

async fn wish(config: &Config, queued: &Queued, wish: Wish) -> Result<u8, Error> {
    let (fleet, id) = found(config, queued).await?;
    match fleet.wish(&id, wish).await? {
        0 => Err(Error::failure(format!("session {id} is idle"))),
        _ => Ok(0),
    }
}
