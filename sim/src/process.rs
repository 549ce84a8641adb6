//! The processes of a session: each opens it as a process of `ah` does, and has one run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop,
    ToolConcurrency, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    CheckInForce, Clock, ContentBlock, ExitReason, Limits, MessageId, PermissionMode,
    PermissionUpdate, Permissions, Provider, Rulebook, Sampling, Store as _, StoreError, Thinking,
    Time,
};
use ah_sandbox::sqlite::disk::mount;
use ah_store::{OpenError, Paths, SessionStore, Sessions};
use tempfile::TempDir;

use crate::law::{Fault, Law};
use crate::plan::{Plan, Process};
use crate::plant::PlantedFault;
use crate::store::{self, SimulatedStore};
use crate::world::{Played, World};
use crate::{laws, model, tools, vendor};

/// Longest time that a process may take, in simulated time: one that takes longer does not end.
const TOO_LONG: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Nobody looks.
struct Unseen;

impl Watcher for Unseen {
    fn update(&self, _: SessionUpdate<'_>) {}

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

impl Rulebook for Unseen {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}

/// Plays a plan, and then a process that nothing comes upon.
///
/// # Panics
///
/// If there is no place for the files of a session.
pub fn play(plan: &Plan, plant: Option<PlantedFault>) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }
        .enable_time()
        // Nothing waits in real time.
        .start_paused(true)
        .build()
        .expect("a timer needs nothing");
    let mut folder = folder();
    let paths = Sessions::in_folder(folder.path()).begun_at(Time(0));
    let world = Arc::new(World::new(paths, plant));
    let mut mounted = mount(folder.path(), world.disk.clone());
    let calm = Process {
        seed: plan.processes.len() as u64,
        server: None,
        takes_over: false,
        mail: Vec::new(),
        injection: None,
        disk: None,
    };
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

/// Returns a folder for the files of a session: in memory where there is such a place, since it is no real power that fails here.
fn folder() -> TempDir {
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
    let transcript = open(&paths).and_then(|store| store::now(store.load()));
    let transcript = transcript.map_err(|error| unusable(&error))?;
    let (branch, state) = (transcript.messages(), world.state());
    laws::always(branch, &state)?;
    if reason == ExitReason::EndTurn {
        laws::at_rest(branch, &state, process.injection.is_none())?;
    }
    Ok(Ended::ByItself)
}

/// Runs a process to its end; returns `None` if it is killed before.
async fn attempt(
    world: &Arc<World>,
    process: &Process,
    paths: &Paths,
) -> Result<Option<Result<RunOutcome, StoreError>>, Fault> {
    let store = match open(paths) {
        Ok(store) => Arc::new(store),
        Err(error) => return Ok(Some(Err(error))),
    };
    tokio::select! {
        biased;
        () = world.killed.notified() => Ok(None),
        ended = tokio::time::timeout(TOO_LONG, run(world, store.clone(), process)) => {
            ended.map(Some).map_err(|_| Law::Ended.broken("nothing happens any more"))
        }
    }
}

fn open(paths: &Paths) -> Result<SessionStore, StoreError> {
    SessionStore::open(paths).map_err(|error| match error {
        OpenError::Store(error) => error,
        OpenError::Busy(_) => StoreError {
            action: "cannot open",
            path: paths.database().to_owned(),
            reason: "a process that has ended has the session open".to_owned(),
            hint: None,
        },
    })
}

/// Returns the fault without the file, whose name is another each time.
fn unusable(error: &StoreError) -> Fault {
    Law::Usable.broken(format!("{}: {}", error.action, error.reason))
}

/// Takes over the run that another process has left, if so, or else runs a prompt.
async fn run(
    world: &Arc<World>,
    store: Arc<SessionStore>,
    process: &Process,
) -> Result<RunOutcome, StoreError> {
    let provider: Arc<dyn Provider> = match process.server {
        Some(server) => vendor::connect(world, server),
        None => Arc::new(model::Simulated::new(world.clone())),
    };
    let provider = Arc::new(model::Looked::new(world.clone(), provider));
    let ports = Ports {
        summarizer: provider.clone(),
        provider,
        store: Arc::new(SimulatedStore {
            world: world.clone(),
            store: store.clone(),
            session: store,
        }),
        clock: Arc::new(SharedClock(world.clone())),
        audience: Audience::watching(Arc::new(Unseen)),
        variables: no_variables(),
        agent_id: None,
        rules: Arc::new(Unseen),
        hooks: Hooks::new(Vec::new(), HookSession::default()),
        pictures: ah_agent::unchecked_pictures(),
        refusals: ah_agent::no_refusals(),
        command_files: None,
    };
    let tools = Toolbox::new(tools::Simulated::all(world));
    let stop = Stop::interrupt(world.state().interrupt.clone());
    let (mut session, left) = if process.takes_over {
        let mut session = Session::take_over(ports, tools, settings()).await?;
        let left = session.resume(&stop).await?;
        (session, left)
    } else {
        (Session::open(ports, tools, settings()).await?, None)
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

fn settings() -> SessionSettings {
    SessionSettings {
        setup: None,
        plan_instructions: None,
        tool_aliases: Arc::default(),
        prompt: vec!["You are simulated.".to_owned()].into(),
        limits: Limits::default(),
        timeout_ms: None,
        permissions: Permissions {
            mode: PermissionMode::BypassPermissions,
            ..Permissions::default()
        },
        concurrency: ToolConcurrency::Auto,
        max_messages: None,
        max_result_chars: None,
        answer_form: None,
        must_produce: None,
        check: CheckInForce::default(),
        thinking: Thinking::default(),
        sampling: Sampling::default(),
    }
}
