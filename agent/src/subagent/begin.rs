//! Start of a subagent: definition, conversation, tools, permissions and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Branch, CheckInForce, ContentBlock, Context, Limits, MessageId, PermissionMode, Provider,
    Servers, Spent, Store, Task, TaskKind, TaskSink, Thinking, Tool, ToolName, ToolUse,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use super::host::HostBelow;
use super::isolation::OwnPlace;
use super::memory;
use super::registry::{MAX_RUNNING, Slot};
use super::relay::{Relay, RelayState};
use super::work::SubagentRun;
use super::{DEFAULT, MAX_DEPTH, Parent, SubagentKinds, Subagents, is_allowed};
use crate::agents::Agent;
use crate::conflict::told;
use crate::controls::mode_below;
use crate::hooks::{HookEvent, HookMoment};
use crate::prompt::{PromptPart, SystemPrompt};
use crate::team::TeamTool;
use crate::{Audience, Ports, Session, SessionSettings, Toolbox};

/// Default maximum number of model calls.
const MAX_TURNS: u32 = 50;
/// Model aliases of one vendor, which mean nothing to other providers.
const ALIASES: [&str; 3] = ["sonnet", "opus", "haiku"];
/// The vendor of these aliases.
const OF_ALIASES: &str = "anthropic";
/// Alias for the parent's model.
pub const INHERIT: &str = "inherit";
/// Maximum time that the first request waits for own servers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Default system prompt.
const PROMPT: &str = "You do one task for another agent, alone, with the tools that you have. Your last answer is your \
    report: say what you found or did, with the places (file and line) that matter, and what is left open.";

/// Input of the tool.
#[derive(Default, Deserialize)]
pub(super) struct Arguments {
    pub(super) description: String,
    /// Empty for a teammate that goes on with what it was written.
    pub(super) prompt: String,
    /// Name of a teammate; ignored without a team.
    pub(super) name: Option<String>,
    pub(super) subagent_type: Option<String>,
    pub(super) model: Option<String>,
    pub(super) max_turns: Option<u32>,
    pub(super) resume: Option<String>,
    pub(super) run_in_background: Option<bool>,
    pub(super) isolation: Option<IsolationKind>,
}

/// Kind of place that a call wants for its subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum IsolationKind {
    Worktree,
}

/// Whether a model is named by an alias of one vendor, in any case.
pub fn is_model_alias(name: &str) -> bool {
    { ALIASES.iter() }.any(|alias| alias.eq_ignore_ascii_case(name))
}

impl Session {
    /// Returns the state that subagents started now begin with.
    pub(crate) fn as_parent(&self) -> Parent {
        Parent {
            ports: self.ports.clone(),
            settings: self.settings.clone(),
            tools: self.tools.tools().cloned().collect(),
            search: self.tools.search(),
            controls: self.controls.clone(),
            spending: self.spending.clone(),
            origin_prompt: self.origin_prompt(),
        }
    }

    /// Returns a text about all that commands of this session have overwritten of other agents.
    pub(crate) fn conflicts(&self) -> Option<String> {
        told(&self.ports.command_files.as_ref()?.all_conflicts())
    }

    /// Returns the top-level prompt that file changes are attributed to; a rewind to before it also undoes its
    /// subagents' changes.
    pub(crate) fn origin_prompt(&self) -> Option<MessageId> {
        let own = || {
            self.transcript
                .run()
                .first()
                .map(|prompt| prompt.id.clone())
        };
        self.origin_prompt.clone().or_else(own)
    }
}

impl Subagents {
    /// Prepares the session for a call.
    pub(super) async fn begin(
        &self,
        call: &ToolUse,
        context: &Context,
    ) -> Result<SubagentRun, String> {
        let arguments = serde_json::from_value(call.input.to_value())
            .map_err(|error| format!("invalid input: {error}"))?;
        self.begin_with(arguments, call, context).await
    }

    /// Prepares the session for a call with these arguments.
    pub(super) async fn begin_with(
        &self,
        arguments: Arguments,
        call: &ToolUse,
        context: &Context,
    ) -> Result<SubagentRun, String> {
        let parent = self.parent().ok_or("no session to start a subagent from")?;
        let agent = self.definition(arguments.subagent_type.as_deref())?;
        if self.depth >= MAX_DEPTH {
            return Err(format!(
                "subagents can be nested at most {MAX_DEPTH} levels deep: do the task yourself"
            ));
        }
        let id = arguments.resume.clone();
        let id = id.unwrap_or_else(|| fresh_id(&parent));
        if self.registry.is_running(&id) {
            return Err(format!(
                "the subagent {id} is still running; wait until it has ended"
            ));
        }
        let task = self.task(&arguments, &agent, call, &id);
        let provider = self.provider(&parent, arguments.model.as_deref(), &agent)?;
        let mut settings = self.settings(&parent, &agent, &*provider, arguments.max_turns);
        let store = parent.ports.store.clone().branch(Branch {
            agent_id: id.clone(),
            spawned_by: call.id.clone(),
        });
        let slot = self.slot(&task, context)?;
        let relay = relay(&parent, &task, &agent, context);
        let is_isolated = agent.is_isolated || arguments.isolation.is_some();
        let seat = self.seat(&arguments, &agent, is_isolated, &relay).await?;
        let place = match is_isolated {
            true => Some(self.own_place(&agent, &id, &mut settings).await?),
            false => None,
        };
        let mut ports = ports(&parent, &agent, provider, store, &relay);
        let mut prompt = Vec::new();
        if !arguments.prompt.is_empty() {
            prompt.push(ContentBlock::text(arguments.prompt));
            prompt.extend(started(&ports, &agent, settings.permissions.mode).await);
        }
        let own = place.as_ref().map_or(&[] as &[_], |place| place.tools());
        let mut of_team = Vec::new();
        if let Some(seat) = &seat {
            let interface = parent.search.1;
            ports.store = seat.store(ports.store);
            of_team = seat.tools(interface, &ports);
            if arguments.resume.is_none() {
                prompt.push(seat.introduction(interface));
            }
        }
        let mut toolbox = self.toolbox(&parent, &agent, own, of_team, task.is_background);
        if !task.is_background
            && let Some(servers) = self.kinds.own_servers(&agent, &ports.audience).await
        {
            toolbox = toolbox.with_servers(servers, PATIENCE);
        }
        let mut session = Session::open(ports, toolbox, settings)
            .await
            .map_err(|error| error.to_string())?;
        let named = own_mode(&agent, &parent);
        parent.controls.lead(&session.controls, named);
        session.origin_prompt = parent.origin_prompt;
        session.spending = parent.spending;
        if arguments.resume.is_some() && session.transcript().last().is_none() {
            return Err(format!("no subagent {id} in this session"));
        }
        Ok(SubagentRun {
            session,
            prompt,
            task,
            name: agent.name.clone(),
            relay,
            slot,
            registry: self.registry.clone(),
            log: context.spool.clone(),
            place,
            seat,
        })
    }

    /// Returns the task of a subagent. A teammate is always in the background.
    fn task(&self, arguments: &Arguments, agent: &Agent, call: &ToolUse, id: &str) -> Task {
        let description = &arguments.description;
        let name = self.team_and_name(arguments).map(|(_, name)| name);
        let is_beside = arguments.run_in_background.unwrap_or(agent.background);
        Task {
            id: id.to_owned(),
            call: call.id.clone(),
            description: match name {
                Some(name) => format!("{name}: {description}"),
                None => description.clone(),
            },
            kind: TaskKind::Agent {
                name: agent.name.clone(),
                prompt: arguments.prompt.clone(),
                depth: self.depth + 1,
            },
            is_background: self.kinds.allow_background && (is_beside || name.is_some()),
        }
    }

    /// Takes a slot for a subagent.
    fn slot(&self, task: &Task, context: &Context) -> Result<Slot, String> {
        let slot = self.registry.enter(task, context.spool.clone());
        slot.ok_or_else(|| {
            format!("{MAX_RUNNING} subagents are already running: wait until one has ended")
        })
    }

    /// Returns a place of its own for the subagent `id`, and moves its settings there.
    async fn own_place(
        &self,
        agent: &Agent,
        id: &str,
        settings: &mut SessionSettings,
    ) -> Result<Box<dyn OwnPlace>, String> {
        let isolation = self.kinds.isolation.as_ref();
        let isolation = isolation.ok_or("there are no worktrees for subagents here")?;
        let place = isolation.enter().await?;
        let tasks = place.tools().iter().filter_map(|tool| tool.extras().tasks);
        self.registry.set_own(id, tasks);
        settings.prompt = self.kinds.prompt(agent, place.context()).into();
        let places = &mut settings.permissions.places;
        place.folder().clone_into(&mut places.cwd);
        place.folder().clone_into(&mut places.project);
        Ok(place)
    }

    fn definition(&self, name: Option<&str>) -> Result<Arc<Agent>, String> {
        let name = name.unwrap_or(DEFAULT);
        let is_allowed = |agent: &&Arc<Agent>| is_allowed(&self.allowed, agent);
        let found = self.kinds.agents.get(name).filter(is_allowed).cloned();
        found.ok_or_else(|| {
            let known: Vec<_> = self
                .kinds
                .agents
                .iter()
                .filter(is_allowed)
                .map(|agent| agent.name.as_str())
                .collect();
            format!(
                "Agent type '{name}' not found. Available agents: {}",
                known.join(", ")
            )
        })
    }

    /// Returns the provider: the call's model takes precedence over the definition's.
    fn provider(
        &self,
        parent: &Parent,
        wanted: Option<&str>,
        agent: &Agent,
    ) -> Result<Arc<dyn Provider>, String> {
        let own = &parent.ports.provider;
        let name = wanted.or(agent.model.as_deref()).unwrap_or(INHERIT);
        let names_nothing = is_model_alias(name) && own.model().provider != OF_ALIASES;
        if name == INHERIT || names_nothing {
            return Ok(own.clone());
        }
        let connected = self.kinds.models.connect(Some(name));
        connected.map_err(|error| format!("cannot use the model `{name}`: {error}"))
    }

    /// Inherits the parent's settings and shares its budget; its definition overrides.
    fn settings(
        &self,
        parent: &Parent,
        agent: &Agent,
        provider: &dyn Provider,
        max_turns: Option<u32>,
    ) -> SessionSettings {
        let from = &parent.settings;
        let now = parent.ports.clock.now();
        let model = provider.model();
        let mut permissions = from.permissions.clone();
        tell_ignored_mode(agent, parent);
        let own = own_mode(agent, parent);
        let mode = mode_below(permissions.mode, own);
        if own == Some(mode) {
            permissions.change_mode(mode);
            // Whoever is defined to plan only reads.
            permissions.plan_asks = false;
        }
        permissions
            .directories
            .extend(memory::folder(&self.kinds.memory, agent).map(|place| place.path()));
        SessionSettings {
            prompt: self.kinds.prompt(agent, (self.kinds.context)()).into(),
            limits: Limits {
                max_turns: max_turns.or(agent.max_turns).or(Some(MAX_TURNS)),
                max_tokens: from.limits.max_tokens,
                max_context_tokens: from.limits.max_context_tokens,
                compact_at: from.limits.compact_at,
                max_budget: from.limits.max_budget,
                spent_beside: Spent::default(),
                deadline: None,
                context_window: model.context_window,
                reserved_output: model.max_output,
                allows_repetition: false,
                ends_chants: from.limits.ends_chants,
            },
            timeout_ms: from.limits.deadline.map(|deadline| deadline.since(now)),
            permissions,
            must_produce: None,
            check: CheckInForce::default(),
            thinking: Thinking {
                effort: agent.effort.or(from.thinking.effort),
                ..from.thinking
            },
            ..from.clone()
        }
    }

    /// Returns the parent's tools allowed by the definition; the tool that starts subagents only if it is listed.
    /// Background subagents have no MCP tools. `own` are tools in the place of those of the same names, `more` a
    /// teammate's; the lead's are nobody else's.
    fn toolbox(
        &self,
        parent: &Parent,
        agent: &Agent,
        own: &[Arc<dyn Tool>],
        more: Vec<Arc<dyn Tool>>,
        is_background: bool,
    ) -> Toolbox {
        let is_own = |tool: &&Arc<dyn Tool>| tool.spec().name == self.spec.name;
        let (mode, interface) = parent.search;
        let of_team = TeamTool::names(interface);
        let is_left_out = |name: &str| {
            is_background && ToolName(name).is_of_server()
                || self.team.is_some() && of_team.iter().any(|of_team| of_team == name)
        };
        let tools = parent
            .tools
            .iter()
            .filter(|tool| !is_own(tool))
            .filter(|tool| {
                let name = &tool.spec().name;
                agent.has_tool(name) && !is_left_out(name)
            })
            .map(|tool| {
                let mut own = own.iter();
                let same = own.find(|own| own.spec().name == tool.spec().name);
                same.unwrap_or(tool).clone()
            })
            .chain(more);
        let toolbox = match agent.may_start() {
            Some(allowed) => {
                let below = Arc::new(self.below(allowed));
                let tools = tools.chain([below.clone() as Arc<dyn Tool>]);
                Toolbox::new(tools).with_subagents(below)
            }
            None => Toolbox::new(tools),
        };
        toolbox.with_search(mode, interface)
    }
}

impl SubagentKinds {
    /// Returns the system prompt of an agent in two blocks: the stable part, and the part that varies.
    fn prompt(&self, agent: &Agent, context: (String, String)) -> SystemPrompt {
        SystemPrompt::of(&self.parts_in(agent, context))
    }

    /// Returns the parts of the system prompt of an agent, in two blocks: the stable part, and the part that varies.
    pub fn parts(&self, agent: &Agent) -> Vec<Vec<PromptPart>> {
        self.parts_in(agent, (self.context)())
    }

    /// Returns the same parts with these instructions and this environment.
    fn parts_in(
        &self,
        agent: &Agent,
        (instructions, environment): (String, String),
    ) -> Vec<Vec<PromptPart>> {
        let prompt = match agent.prompt.trim() {
            "" => PROMPT,
            prompt => prompt,
        };
        let instructions = if agent.omits_instructions {
            ""
        } else {
            instructions.as_str()
        };
        let skills = agent
            .skills
            .iter()
            .filter_map(|name| self.skills.get(name))
            .map(|skill| skill.prompt(""))
            .collect::<Vec<_>>()
            .join("\n\n");
        let memory = memory::folder(&self.memory, agent).map(|place| place.told());
        let blocks: [Vec<(&str, &str)>; 2] = [
            vec![("--agent", prompt), ("instructions", instructions)],
            vec![
                ("environment", &environment),
                ("skills", &skills),
                ("memory", memory.as_deref().unwrap_or_default()),
                ("--agent", agent.reminder.as_deref().unwrap_or_default()),
            ],
        ];
        let part = |(source, text): (&str, &str)| PromptPart {
            source: source.to_owned(),
            text: text.trim().to_owned(),
        };
        let block = |parts: Vec<(&str, &str)>| {
            let parts = parts.into_iter().map(part);
            parts.filter(|part| !part.text.is_empty()).collect()
        };
        blocks
            .into_iter()
            .map(block)
            .filter(|block: &Vec<_>| !block.is_empty())
            .collect()
    }

    /// Starts the definition's own servers; `audience` is told of errors.
    async fn own_servers(&self, agent: &Agent, audience: &Audience) -> Option<Arc<dyn Servers>> {
        let own: BTreeMap<_, _> = agent
            .servers
            .iter()
            .flatten()
            .filter_map(|server| Some((server.name.clone(), server.own.clone()?)))
            .collect();
        let empty = self.servers.as_ref().filter(|_| !own.is_empty())?;
        let servers = empty();
        for (name, error) in servers.set(own).await.errors {
            audience.notice(&format!("cannot use the MCP server `{name}`: {error}"));
        }
        Some(servers)
    }
}

/// Returns an id unique within the session.
pub(super) fn fresh_id(parent: &Parent) -> String {
    let ulid = parent.ports.clock.message_id().as_str().to_lowercase();
    // The leading timestamp carries no information here.
    let start = ulid.len().saturating_sub(16);
    format!("a{}", &ulid[start..])
}

fn relay(parent: &Parent, task: &Task, agent: &Agent, context: &Context) -> Arc<Relay> {
    let state = if task.is_background {
        RelayState::with_log(&context.spool)
    } else {
        RelayState::default()
    };
    Arc::new(Relay {
        outer: parent.ports.audience.clone(),
        task: task.clone(),
        name: agent.name.clone(),
        sink: TaskSink::clone(&context.tasks),
        clock: parent.ports.clock.clone(),
        started: parent.ports.clock.now(),
        state: Mutex::new(state),
    })
}

fn ports(
    parent: &Parent,
    agent: &Agent,
    provider: Arc<dyn Provider>,
    store: Arc<dyn Store>,
    relay: &Arc<Relay>,
) -> Ports {
    let from = &parent.ports;
    // If the parent's model summarises its own conversation, so does this one.
    let summarizer = if Arc::ptr_eq(&from.summarizer, &from.provider) {
        provider.clone()
    } else {
        from.summarizer.clone()
    };
    let id = &relay.task.id;
    let host = HostBelow {
        outer: from.audience.host.clone(),
        controls: parent.controls.clone(),
        agent: Some((id.clone(), agent.name.clone())),
        // The user is busy with the main conversation while it runs in the background.
        asks: !relay.task.is_background,
    };
    Ports {
        provider,
        summarizer,
        store,
        audience: Audience::watching(relay.clone())
            .with_host(Arc::new(host))
            .with_editor(from.audience.editor.clone()),
        agent_id: Some(id.clone()),
        hooks: from.hooks.of_agent(id, &agent.name, &agent.hooks),
        command_files: from.command_files.as_ref().map(|files| files.of_agent(id)),
        ..from.clone()
    }
}

/// Returns the mode of the definition, unless it would give more rights than the session may have.
fn own_mode(agent: &Agent, parent: &Parent) -> Option<PermissionMode> {
    let may_bypass = parent.settings.permissions.may_bypass;
    let is_open = |mode: &PermissionMode| match mode {
        PermissionMode::BypassPermissions => may_bypass,
        PermissionMode::Sandboxed => false,
        _ => true,
    };
    agent.permission_mode.filter(is_open)
}

/// Tells the user that the definition's mode is not in force.
fn tell_ignored_mode(agent: &Agent, parent: &Parent) {
    if let Some(mode) = agent.permission_mode
        && own_mode(agent, parent).is_none()
        && mode != parent.settings.permissions.mode
    {
        parent.ports.audience.notice(&format!(
            "the subagent `{}` runs in the mode of the session: its definition names `{}`, which is not enabled in this session",
            agent.name,
            mode.as_str()
        ));
    }
}

/// Calls the SubagentStart hooks; returns their context for the subagent.
async fn started(ports: &Ports, agent: &Agent, mode: PermissionMode) -> Option<ContentBlock> {
    let moment = HookMoment {
        event: HookEvent::SubagentStart,
        kind: &agent.name,
        mode: Some(mode),
        call: None,
        more: json!({}),
    };
    let verdict = ports.hooks.ask(moment, &ports.audience).await;
    let context = verdict.context.join("\n");
    (!context.is_empty()).then(|| ContentBlock::text(format!("[HOOK] {context}")))
}
