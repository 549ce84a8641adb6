//! The processes of a session: each opens it as a process of `ah` does, and has one run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{panic, thread};

use ah_agent::Stop;
use ah_conversation::{ContentBlock, ExitReason, Message, Store as _, StoreError, Time};
use ah_sandbox::sqlite::disk::mount;
use ah_store::{Notice, OpenError, Paths, SessionStore, Sessions};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::disk::SimulatedDisk;
use crate::law::{Fault, Law, unusable};
use crate::opening::{opened, ports};
use crate::plan::{Act, Plan, Process};
use crate::plant::PlantedFault;
use crate::play::{Playable, Played, simpler};
use crate::store::{self, SimulatedStore};
use crate::world::{Story, World};
use crate::{acts, laws, program};

/// Longest time that a process may take, in simulated time: one that takes longer does not end.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes of the stack on which a session is played.
const STACK: usize = 64 << 20;

/// Plays a plan, and then a process that nothing comes upon.
///
/// # Panics
///
/// If there is no place for the files of a session.
fn play(plan: &Plan, plant: Option<PlantedFault>) -> Played {
    let mut folder = folder();
    let paths = Sessions::in_folder(folder.path()).begun_at(Time(0));
    let workspace = self::folder();
    let around = (Arc::new(SimulatedDisk::new(plant)), Story::default());
    let world = Arc::new(World::new(paths, workspace.path(), around, plant));
    let mut mounted = mount(folder.path(), world.disk.clone());
    let calm = Process::calm(plan.processes.len() as u64);
    for process in plan.processes.iter().chain([&calm]) {
        let next = self::folder();
        match live(&world, process, next.path()) {
            Ok(Ended::Killed(paths)) => {
                world.moved(paths);
                drop(mounted);
                mounted = mount(next.path(), world.disk.clone());
                folder = next;
            }
            Ok(Ended::ByItself) => {}
            Err(fault) => world.state().fail(fault),
        }
        if world.state().fault.is_some() {
            break;
        }
    }
    drop((mounted, folder));
    world.played()
}

impl Playable for Plan {
    fn play(&self, plant: Option<PlantedFault>) -> Played {
        // In builds for tests, the futures of nested agents do not fit into the stack of a test.
        let roomy = thread::Builder::new().stack_size(STACK);
        thread::scope(|scope| {
            let playing = roomy.spawn_scoped(scope, || play(self, plant));
            let played = playing.expect("there is room for a thread").join();
            played.unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    fn simpler(&self) -> Vec<Self> {
        let plans = simpler(&self.processes, |process| process);
        plans.map(|processes| Self { processes }).collect()
    }

    fn parts(&self) -> usize {
        self.processes.len()
    }
}

/// Returns a runtime of one thread, in which nothing waits in real time.
pub(crate) fn runtime() -> Runtime {
    let builder = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    builder.expect("a timer needs nothing")
}

/// Returns a folder for the files of a session: in memory where there is such a place, since it is no real power that fails here.
pub(crate) fn folder() -> TempDir {
    ah_sandbox::sqlite::guard();
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("there is a place for files")
}

/// How a process has ended.
enum Ended {
    /// Its files are as it had them, or as the power cut has left them, at this place.
    Killed(Paths),
    ByItself,
}

/// Runs a process to its end, and looks at what it has left: in `rest` if it is killed.
fn live(world: &Arc<World>, process: &Process, rest: &Path) -> Result<Ended, Fault> {
    world.begin(process, rest);
    process.mail.iter().for_each(|kind| world.queue(*kind));
    if process.act == Act::Fork && !world.disk.is_off() {
        acts::fork(world)?;
    }
    let paths = world.paths();
    let ended = match world.disk.is_off() {
        true => None,
        // With its runtime ends what it has not waited for.
        false => runtime().block_on(attempt(world, process, &paths))?,
    };
    world.hear();
    let Some(ended) = ended.filter(|_| !world.disk.is_off()) else {
        let name = paths.database().file_name().unwrap_or_default();
        return Ok(Ended::Killed(Paths::of(rest.join(name))));
    };
    world.disk.calm();
    let reason = match ended {
        Ok(reason) => reason,
        Err(_) if world.disk.has_failed() => {
            world
                .state()
                .tell("it ends: the disk has failed".to_owned());
            ExitReason::Interrupted
        }
        Err(error) => return Err(unusable(&error)),
    };
    world.state().tell(format!("it ends: {}", reason.as_str()));
    let all = stored(&paths)?;
    let state = world.state();
    laws::always(&all, &state)?;
    laws::shown(&all, &state)?;
    let is_told = !state.hang_up.is_cancelled() && !world.disk.has_failed();
    if process.around.host && is_told {
        laws::told(&all, &state)?;
    }
    // A way back alone writes no line.
    if process.around.host && is_told && state.acknowledged.len() > state.acknowledged_before {
        laws::transcribed(&current(&paths)?, &program::transcript(&paths, &state))?;
    }
    if reason == ExitReason::EndTurn {
        let mail_is_due = process.injection.is_none() && !process.around.hooks;
        laws::at_rest(&all, &state, mail_is_due)?;
    } else if *process == Process::calm(process.seed) {
        return Err(Law::Ended.broken("a run that nothing comes upon has not ended as it should"));
    }
    Ok(Ended::ByItself)
}

/// Returns all messages of a session that nobody has open, with those of its subagents.
pub(crate) fn stored(paths: &Paths) -> Result<Vec<Message>, Fault> {
    let all = open(paths).and_then(|store| {
        store::now(store.load())?;
        store::now(store.read(|tree| {
            let heads = tree.heads()?.into_iter();
            let messages = heads.map(|head| tree.message(&head.message.id));
            messages.filter_map(Result::transpose).collect()
        }))
    });
    all.map_err(|error| unusable(&error))
}

/// Returns the messages with which a session goes on: those before a summary, or what is as good as one, are not among them.
fn current(paths: &Paths) -> Result<Vec<Arc<Message>>, Fault> {
    let current = open(paths).and_then(|store| store::now(store.load()));
    let current = current.map_err(|error| unusable(&error))?;
    Ok(current.messages().to_vec())
}

/// Runs a process to its end; returns `None` if it is killed before.
async fn attempt(
    world: &Arc<World>,
    process: &Process,
    paths: &Paths,
) -> Result<Option<Result<ExitReason, StoreError>>, Fault> {
    let key = world.state().workspace.key();
    let opened = open(paths).and_then(|store| {
        store::now(store.seal_with(key))?;
        Ok(store)
    });
    let store = match opened {
        Ok(store) => Arc::new(store),
        Err(error) => return Ok(Some(Err(error))),
    };
    let is_damage = |notice: &Notice| matches!(notice, Notice::Salvaged { .. });
    if store::now(store.take_notices()).iter().any(is_damage) {
        return Err(Law::Usable.broken("the session is damaged"));
    }
    tokio::select! {
        biased;
        () = world.killed.notified() => Ok(None),
        ended = tokio::time::timeout(TOO_LONG, run(world, store.clone(), process)) => {
            ended.map(Some).map_err(|_| Law::Ended.broken("nothing happens any more"))
        }
    }
}

fn open(paths: &Paths) -> Result<SessionStore, StoreError> {
    SessionStore::open(paths).map_err(refused)
}

/// Returns the failure to open a session that nobody should have open.
pub(crate) fn refused(error: OpenError) -> StoreError {
    match error {
        OpenError::Store(error) => error,
        OpenError::Busy(_) => StoreError {
            action: "cannot open",
            path: PathBuf::new(),
            reason: "a process that has ended has the session open".to_owned(),
            hint: None,
        },
    }
}

/// Takes over the run that another process has left, if so, or else runs a prompt.
async fn run(
    world: &Arc<World>,
    store: Arc<SessionStore>,
    process: &Process,
) -> Result<ExitReason, StoreError> {
    let simulated = Arc::new(SimulatedStore::of(world, store));
    if process.around.host {
        return program::hosted(world, simulated, process).await;
    }
    let ports = ports(world, simulated.clone(), process);
    let stop = Stop::interrupt(world.state().interrupt.clone());
    let mut session = opened(world, &simulated, ports, process, &stop).await?;
    let left = match process.act {
        Act::TakeOver => session.resume(&stop).await?,
        _ => None,
    };
    let outcome = match left {
        Some(outcome) => outcome,
        None => {
            let prompt = vec![ContentBlock::text("Go on.")];
            session.run(prompt, &stop).await?
        }
    };
    session.close("other").await?;
    Ok(outcome.reason)
}
