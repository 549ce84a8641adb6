//! The session of a process: opened as a process of `ah` opens it, with ports between it and what is real.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, Session, SessionSettings, SessionUpdate, Stop, Toolbox, Watcher,
    no_variables,
};
use ah_conversation::{
    Clock, EventKind, Limits, MessageId, PatternRoots, PermissionMode, PermissionUpdate,
    Permissions, Provider, Rulebook, StoreError, Time, Tool,
};

use crate::plan::{Act, Process};
use crate::plant::PlantedFault;
use crate::store::SimulatedStore;
use crate::world::World;
use crate::{acts, agents, hooks, model, remote, tools, vendor};

/// Time for which a first request waits for a server.
const PATIENCE: Duration = Duration::from_secs(10);

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
pub(crate) struct Screen(pub(crate) Arc<World>);

impl Watcher for Screen {
    fn update(&self, update: SessionUpdate<'_>) {
        let mut state = self.0.state();
        match update {
            SessionUpdate::Subagent(task, below) => {
                if let SessionUpdate::Stored(message) = below {
                    let above = (task.call.clone(), task.id.clone());
                    let calls = message.tool_uses();
                    { &mut state.below }.extend(calls.map(|call| (call.id.clone(), above.clone())));
                    if !state.agents.contains(&task.id) {
                        state.agents.push(task.id.clone());
                    }
                }
                drop(state);
                self.update(*below);
            }
            SessionUpdate::Happened(EventKind::AgentStart { .. }) => state.spent = 0,
            SessionUpdate::Stored(message) => {
                let mut message = message.clone();
                state.spent += message.usage().total();
                if state.planted(PlantedFault::NotShown, 4) {
                    return;
                }
                if state.planted(PlantedFault::ShownOtherwise, 4) {
                    message.content.clear();
                }
                state.shown.push(Arc::new(message));
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

/// Opens the session of a process, and does what is to be done before its prompt.
pub(crate) async fn opened(
    world: &Arc<World>,
    store: &SimulatedStore,
    ports: Ports,
    process: &Process,
    stop: &Stop,
) -> Result<Session, StoreError> {
    let mut tools = tools::SimulatedTool::all(world);
    let agents = process.around.agents.then(agents::tool);
    tools.extend(agents.clone().map(|agents| agents as Arc<dyn Tool>));
    let mut tools = Toolbox::new(tools);
    if let Some(agents) = agents {
        tools = tools.with_subagents(agents);
    }
    if process.around.servers {
        tools = tools.with_servers(remote::start(world), PATIENCE);
    }
    let settings = settings(world, process);
    if process.act == Act::TakeOver {
        return Session::take_over(ports, tools, settings).await;
    }
    let mut session = Session::open(ports, tools, settings).await?;
    acts::perform(world, process.act, store, &mut session, stop).await?;
    Ok(session)
}

/// Returns what a session of a process works with.
pub(crate) fn ports(world: &Arc<World>, store: Arc<SimulatedStore>, process: &Process) -> Ports {
    let provider: Arc<dyn Provider> = match process.server {
        Some(server) => vendor::connect(world, server),
        None => Arc::new(model::SimulatedModel::new(world.clone())),
    };
    let provider = Arc::new(model::WatchedModel::new(world.clone(), provider));
    let audience = Audience::watching(Arc::new(Screen(world.clone())));
    let hooks = match process.around.hooks {
        true => hooks::all(world),
        false => Vec::new(),
    };
    Ports {
        hooks: Hooks::new(hooks, HookSession::default()),
        ..ports_of(world, store, provider, audience)
    }
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

pub(crate) fn settings(world: &World, process: &Process) -> SessionSettings {
    let is_forgotten = world.state().planted(PlantedFault::BudgetForgotten, 1);
    SessionSettings {
        prompt: vec!["You are simulated.".to_owned()].into(),
        permissions: Permissions {
            mode: match process.around.host {
                true => PermissionMode::Default,
                false => PermissionMode::BypassPermissions,
            },
            places: PatternRoots {
                cwd: world.state().workspace.folder().to_owned(),
                ..PatternRoots::default()
            },
            ..Permissions::default()
        },
        limits: Limits {
            max_tokens: process.around.tokens.filter(|_| !is_forgotten),
            ..Limits::default()
        },
        ..SessionSettings::default()
    }
}
