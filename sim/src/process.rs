//! The processes of a session: each opens it as a process of `ah` does, and has one run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop, Toolbox,
    Watcher, no_variables,
};
use ah_conversation::{
    Clock, ContentBlock, EventKind, ExitReason, Message, MessageId, PatternRoots, PermissionMode,
    PermissionUpdate, Permissions, Provider, Rulebook, Store as _, StoreError, Time,
};
use ah_sandbox::sqlite::disk::mount;
use ah_store::{Notice, OpenError, Paths, SessionStore, Sessions, Tree};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::disk::SimulatedDisk;
use crate::law::{Fault, Law, unusable};
use crate::plan::{Act, Plan, Process};
use crate::plant::PlantedFault;
use crate::play::{Playable, Played, simpler};
use crate::store::{self, SimulatedStore};
use crate::world::{Story, World};
use crate::{acts, laws, model, tools, vendor};

/// Longest time that a process may take, in simulated time: one that takes longer does not end.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// The clock of all processes.
struct SharedClock(Arc<World>);

impl Clock for SharedClock {
    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn message_id(&self) -> MessageId {
        let id = self.0.clock.message_id();
        let mut state = self.0.state();
        let last = state.acknowledged.last().cloned();
        match last {
            Some(last) if state.planted(PlantedFault::IdUsedTwice, 4) => last,
            _ => id,
        }
    }
}

/// Notes what it is shown.
pub(crate) struct Screen(Arc<World>);

impl Watcher for Screen {
    fn update(&self, update: SessionUpdate<'_>) {
        let mut state = self.0.state();
        match update {
            SessionUpdate::Stored(message) => {
                let mut message = message.clone();
                if state.planted(PlantedFault::NotShown, 4) {
                    return;
                }
                if state.planted(PlantedFault::ShownOtherwise, 4) {
                    message.content.clear();
                }
                state.shown.push(Arc::new(message));
            }
            SessionUpdate::Asking { .. } => state.is_summary = false,
            SessionUpdate::Happened(EventKind::CompactionTriggered { .. }) => {
                state.is_summary = true;
            }
            _ => {}
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

impl Rulebook for Screen {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}

/// Plays a plan, and then a process that nothing comes upon.
///
/// # Panics
///
/// If there is no place for the files of a session.
fn play(plan: &Plan, plant: Option<PlantedFault>) -> Played {
    let runtime = runtime();
    let mut folder = folder();
    let paths = Sessions::in_folder(folder.path()).begun_at(Time(0));
    let workspace = self::folder();
    let around = (Arc::new(SimulatedDisk::new(plant)), Story::default());
    let world = Arc::new(World::new(paths, workspace.path(), around, plant));
    let mut mounted = mount(folder.path(), world.disk.clone());
    let calm = Process::calm(plan.processes.len() as u64);
    for process in plan.processes.iter().chain([&calm]) {
        let next = self::folder();
        match runtime.block_on(live(&world, process, next.path())) {
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
        play(self, plant)
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
async fn live(world: &Arc<World>, process: &Process, rest: &Path) -> Result<Ended, Fault> {
    world.begin(process, rest);
    process.mail.iter().for_each(|kind| world.queue(*kind));
    if process.act == Act::Fork && !world.disk.is_off() {
        acts::fork(world)?;
    }
    let paths = world.paths();
    let ended = match world.disk.is_off() {
        true => None,
        false => attempt(world, process, &paths).await?,
    };
    world.hear();
    let Some(ended) = ended.filter(|_| !world.disk.is_off()) else {
        let name = paths.database().file_name().unwrap_or_default();
        return Ok(Ended::Killed(Paths::of(rest.join(name))));
    };
    world.disk.calm();
    let reason = match ended {
        Ok(outcome) => outcome.reason,
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
    if reason == ExitReason::EndTurn {
        laws::at_rest(&all, &state, process.injection.is_none())?;
    } else if *process == Process::calm(process.seed) {
        return Err(Law::Ended.broken("a run that nothing comes upon has not ended as it should"));
    }
    Ok(Ended::ByItself)
}

/// Returns all messages of a session that nobody has open.
pub(crate) fn stored(paths: &Paths) -> Result<Vec<Message>, Fault> {
    let all = open(paths).and_then(|store| {
        store::now(store.load())?;
        store::now(store.read(Tree::messages))
    });
    all.map_err(|error| unusable(&error))
}

/// Runs a process to its end; returns `None` if it is killed before.
async fn attempt(
    world: &Arc<World>,
    process: &Process,
    paths: &Paths,
) -> Result<Option<Result<RunOutcome, StoreError>>, Fault> {
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
) -> Result<RunOutcome, StoreError> {
    let simulated = Arc::new(SimulatedStore {
        world: world.clone(),
        store: store.clone(),
        session: store,
    });
    let ports = ports(world, simulated.clone(), process);
    let tools = Toolbox::new(tools::SimulatedTool::all(world));
    let stop = Stop::interrupt(world.state().interrupt.clone());
    let settings = settings(world);
    let (mut session, left) = if process.act == Act::TakeOver {
        let mut session = Session::take_over(ports, tools, settings).await?;
        let left = session.resume(&stop).await?;
        (session, left)
    } else {
        let mut session = Session::open(ports, tools, settings).await?;
        acts::perform(world, process.act, &simulated, &mut session, &stop).await?;
        (session, None)
    };
    let outcome = match left {
        Some(outcome) => outcome,
        None => {
            let prompt = vec![ContentBlock::text("Go on.")];
            session.run(prompt, &stop).await?
        }
    };
    session.close("other").await?;
    Ok(outcome)
}

/// Returns what a session of a process works with.
pub(crate) fn ports(world: &Arc<World>, store: Arc<SimulatedStore>, process: &Process) -> Ports {
    let provider: Arc<dyn Provider> = match process.server {
        Some(server) => vendor::connect(world, server),
        None => Arc::new(model::SimulatedModel::new(world.clone())),
    };
    let provider = Arc::new(model::WatchedModel::new(world.clone(), provider));
    let audience = Audience::watching(Arc::new(Screen(world.clone())));
    ports_of(world, store, provider, audience)
}

/// Returns what a session works with that asks this model, and has this audience.
pub(crate) fn ports_of(
    world: &Arc<World>,
    store: Arc<SimulatedStore>,
    provider: Arc<dyn Provider>,
    audience: Audience,
) -> Ports {
    Ports {
        summarizer: provider.clone(),
        provider,
        store,
        clock: Arc::new(SharedClock(world.clone())),
        audience,
        variables: no_variables(),
        agent_id: None,
        rules: Arc::new(Screen(world.clone())),
        hooks: Hooks::new(Vec::new(), HookSession::default()),
        pictures: ah_agent::unchecked_pictures(),
        refusals: ah_agent::no_refusals(),
        command_files: None,
    }
}

/// Returns a model that needs no server, and an audience that also notes what it is shown.
pub(crate) fn watched(world: &Arc<World>, audience: Audience) -> (Arc<dyn Provider>, Audience) {
    let model = Arc::new(model::SimulatedModel::new(world.clone()));
    let model = Arc::new(model::WatchedModel::new(world.clone(), model));
    (model, audience.with_first(Arc::new(Screen(world.clone()))))
}

pub(crate) fn settings(world: &World) -> SessionSettings {
    SessionSettings {
        prompt: vec!["You are simulated.".to_owned()].into(),
        permissions: Permissions {
            mode: PermissionMode::BypassPermissions,
            places: PatternRoots {
                cwd: world.state().workspace.folder().to_owned(),
                ..PatternRoots::default()
            },
            ..Permissions::default()
        },
        ..SessionSettings::default()
    }
}
