//! The processes of a session: each opens it as a process of `ah` does, and has one run.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop,
    ToolConcurrency, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    CheckInForce, Clock, ContentBlock, ExitReason, Limits, Message, MessageId, PermissionMode,
    PermissionUpdate, Permissions, Rulebook, Sampling, Store as _, StoreError, Thinking, Time,
};
use ah_store::{Paths, SessionStore, Sessions};

use crate::disk::Disk;
use crate::plan::{Life, Plan};
use crate::plant::Plant;
use crate::world::{Played, World};
use crate::{laws, model, tools};

/// Longest time that a process may take, in real time: one that takes longer does not end. They take milliseconds.
const TOO_LONG: Duration = Duration::from_secs(30);

/// The clock of all processes.
struct Shared(Arc<World>);

impl Clock for Shared {
    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn message_id(&self) -> MessageId {
        let id = self.0.clock.message_id();
        let mut state = self.0.state();
        let last = state.acknowledged.last().cloned();
        match last {
            Some(last) if state.planted(Plant::IdUsedTwice, 4) => last,
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
pub fn play(plan: &Plan, plant: Option<Plant>) -> Played {
    let world = Arc::new(World::new(plant));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    match (runtime, folder()) {
        (Ok(runtime), Ok(folder)) => {
            let calm = Life {
                seed: 0,
                takes_over: false,
                mail: Vec::new(),
                blow: None,
            };
            let paths = Sessions::in_folder(folder.path()).begun_at(world.clock.now());
            for life in plan.lives.iter().chain([&calm]) {
                let lived = runtime.block_on(live(&world, &paths, life));
                if let Err(fault) = lived {
                    world.state().fail(fault);
                }
                if world.state().fault.is_some() {
                    break;
                }
            }
        }
        (Err(error), _) | (_, Err(error)) => world.state().fail(error.to_string()),
    }
    world.played()
}

/// Returns a folder for the session: in memory where there is such a place, since no power fails here.
fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Runs a process to its end, and looks at what it has left.
async fn live(world: &Arc<World>, paths: &Paths, life: &Life) -> Result<(), String> {
    let open = || SessionStore::open(paths).map_err(|error| format!("cannot be opened: {error:?}"));
    let store = Arc::new(open()?);
    world.begin(life, &store);
    for kind in &life.mail {
        world.queue(&store, *kind).await;
    }
    let ended = tokio::select! {
        biased;
        () = world.killed.notified() => None,
        ended = tokio::time::timeout(TOO_LONG, run(world, store.clone(), life.takes_over)) => {
            Some(ended.map_err(|_| "a run does not end".to_owned())?)
        }
    };
    world.end();
    drop(store);
    let outcome = ended
        .transpose()
        .map_err(|error| format!("a store fails: {error}"))?;
    if let Some(outcome) = &outcome {
        world
            .state()
            .tell(format!("it ends: {}", outcome.reason.as_str()));
    }
    let branch = open()?.load().await.map_err(|error| error.to_string())?;
    let branch: &[Arc<Message>] = branch.messages();
    let state = world.state();
    laws::always(branch, &state)?;
    match outcome {
        Some(outcome) if outcome.reason == ExitReason::EndTurn => {
            laws::at_rest(branch, &state, life.blow.is_none())
        }
        _ => Ok(()),
    }
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
        store: Arc::new(Disk {
            world: world.clone(),
            store,
        }),
        clock: Arc::new(Shared(world.clone())),
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
