//! The processes of a session: each opens it as a process of `ah` does, and has one run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop,
    ToolConcurrency, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    CheckInForce, Clock, ContentBlock, ExitReason, Limits, MessageId, PermissionMode,
    PermissionUpdate, Permissions, Rulebook, Sampling, Store as _, StoreError, Thinking, Time,
};
use ah_store::{OpenError, Paths, SessionStore, Sessions};
use tempfile::TempDir;

use crate::law::{Fault, Law};
use crate::plan::{Plan, Process};
use crate::plant::PlantedFault;
use crate::store::SimulatedStore;
use crate::world::{Played, World};
use crate::{laws, model, tools};

/// Longest time that a process may take, in real time: one that takes longer does not end. They take milliseconds.
const TOO_LONG: Duration = Duration::from_secs(30);

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
        .build()
        .expect("a timer needs nothing");
    let mut folder = folder();
    let paths = Sessions::in_folder(folder.path()).begun_at(Time(0));
    let world = Arc::new(World::new(paths, plant));
    let calm = Process {
        seed: plan.processes.len() as u64,
        takes_over: false,
        mail: Vec::new(),
        injection: None,
    };
    for process in plan.processes.iter().chain([&calm]) {
        let next = self::folder();
        match runtime.block_on(live(&world, process, next.path())) {
            Ok(Ended::Killed(paths)) => {
                world.moved(paths);
                folder = next;
            }
            Ok(Ended::ByItself) => {}
            Err(fault) => world.state().fail(fault),
        }
        if world.state().fault.is_some() {
            break;
        }
    }
    drop(folder);
    world.played()
}

/// Returns a folder for the files of a session: in memory where there is such a place, since no power fails here.
fn folder() -> TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("there is a place for files")
}

/// How a process has ended.
enum Ended {
    /// Its files are as it had them, at this place.
    Killed(Paths),
    ByItself,
}

/// Runs a process to its end, and looks at what it has left: in `rest` if it is killed.
async fn live(world: &Arc<World>, process: &Process, rest: &Path) -> Result<Ended, Fault> {
    world.begin(process);
    process.mail.iter().for_each(|kind| world.queue(*kind));
    let paths = world.paths();
    let store = Arc::new(open(&paths)?);
    let ended = tokio::select! {
        biased;
        () = world.killed.notified() => None,
        ended = tokio::time::timeout(TOO_LONG, run(world, store.clone(), process.takes_over)) => {
            Some(ended.map_err(|_| Law::Ended.broken("nothing happens any more"))?)
        }
    };
    let Some(ended) = ended else {
        // The writer has done all that it was told. What closes the files comes too late for the copy.
        store.load().await.map_err(|error| unusable(&error))?;
        copy(paths.folder(), rest).map_err(|error| not_copied(&error))?;
        let copied = Sessions::in_folder(rest)
            .newest()
            .map_err(|error| unusable(&error))?;
        return Ok(Ended::Killed(copied.unwrap_or(paths)));
    };
    drop(store);
    let outcome = ended.map_err(|error| unusable(&error))?;
    world
        .state()
        .tell(format!("it ends: {}", outcome.reason.as_str()));
    let transcript = open(&paths)?
        .load()
        .await
        .map_err(|error| unusable(&error))?;
    let (branch, state) = (transcript.messages(), world.state());
    laws::always(branch, &state)?;
    if outcome.reason == ExitReason::EndTurn {
        laws::at_rest(branch, &state, process.injection.is_none())?;
    }
    Ok(Ended::ByItself)
}

fn open(paths: &Paths) -> Result<SessionStore, Fault> {
    SessionStore::open(paths).map_err(|error| match error {
        OpenError::Store(error) => unusable(&error),
        OpenError::Busy(_) => Law::Usable.broken("a process that has ended has the session open"),
    })
}

/// Returns the fault without the file, whose name is another each time.
fn unusable(error: &StoreError) -> Fault {
    Law::Usable.broken(format!("{}: {}", error.action, error.reason))
}

fn not_copied(error: &io::Error) -> Fault {
    Law::Usable.broken(format!("cannot copy: {error}"))
}

/// Copies the files of a session.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&copied)?;
            copy(&entry.path(), &copied)?;
        } else {
            fs::copy(entry.path(), copied)?;
        }
    }
    Ok(())
}

/// Takes over the run that another process has left, if so, or else runs a prompt.
async fn run(
    world: &Arc<World>,
    store: Arc<SessionStore>,
    takes_over: bool,
) -> Result<RunOutcome, StoreError> {
    let provider = Arc::new(model::Simulated::new(world.clone()));
    let ports = Ports {
        summarizer: provider.clone(),
        provider,
        store: Arc::new(SimulatedStore {
            world: world.clone(),
            store,
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
    let (mut session, left) = if takes_over {
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
