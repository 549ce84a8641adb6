//! How a subagent begins: which definition, which conversation, what it may use and what it may take.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ah_conversation::{
    Branch, ContentBlock, Context, Limits, PermissionMode, Provider, Servers, Store, Task,
    TaskKind, TaskSink, Thinking, Tool, ToolUse,
};
use serde::Deserialize;
use serde_json::json;

use super::relay::{Relay, State};
use super::work::Work;
use super::{DEFAULT, MAX_AT_WORK, MAX_DEPTH, Parent, SubagentKinds, Subagents, may};
use crate::agents::Agent;
use crate::hooks::{HookEvent, HookMoment};
use crate::session::{Ports, SessionSettings};
use crate::{Frontend, Session, Toolbox};

/// How often a subagent asks the model at most where nobody says otherwise.
const MAX_TURNS: u32 = 50;
/// So many lines of a memory are in the prompt.
const MEMORY_LINES: usize = 200;
/// The file of a memory that is read at the beginning.
const MEMORY_FILE: &str = "MEMORY.md";
/// The names by which one vendor's models are known; elsewhere they name nothing.
const ALIASES: [&str; 3] = ["sonnet", "opus", "haiku"];
/// That vendor.
const OF_ALIASES: &str = "anthropic";
/// The model of whoever starts a subagent.
const INHERIT: &str = "inherit";
/// How long its first request waits for servers of its own.
const PATIENCE: Duration = Duration::from_secs(10);
/// A subagent's prompt where its definition has none.
const PROMPT: &str = "You do one task for another agent, alone, with the tools that you have. Your last answer is your \
    report: say what you found or did, with the places (file and line) that matter, and what is left open.";

#[derive(Deserialize)]
struct Arguments {
    description: String,
    prompt: String,
    subagent_type: Option<String>,
    model: Option<String>,
    max_turns: Option<u32>,
    resume: Option<String>,
    run_in_background: Option<bool>,
}

impl Subagents {
    /// Puts the session together that a call asks for.
    pub(super) async fn begin(&self, call: &ToolUse, context: &Context) -> Result<Work, String> {
        let arguments: Arguments = serde_json::from_value(call.input.to_value())
            .map_err(|fault| format!("invalid input: {fault}"))?;
        let parent = self
            .parent()
            .ok_or("there is no session that could start a subagent")?;
        let agent = self.definition(arguments.subagent_type.as_deref())?;
        if self.depth >= MAX_DEPTH {
            return Err(format!(
                "subagents start no others more than {MAX_DEPTH} levels down: do the task yourself"
            ));
        }
        let id = match &arguments.resume {
            Some(id) => id.clone(),
            None => fresh_id(&parent),
        };
        if self.at_work.is_busy(&id) {
            return Err(format!(
                "the subagent {id} is at work; wait until it has ended"
            ));
        }
        let is_background =
            self.kinds.may_run_beside && arguments.run_in_background.unwrap_or(agent.background);
        let task = Task {
            id: id.clone(),
            call: call.id.clone(),
            description: arguments.description,
            kind: TaskKind::Agent {
                name: agent.name.clone(),
                prompt: arguments.prompt.clone(),
                depth: self.depth + 1,
            },
            is_background,
        };
        let provider = self.provider(&parent, arguments.model.as_deref(), &agent)?;
        let settings = self.settings(&parent, &agent, &*provider, arguments.max_turns)?;
        let store = parent.ports.store.clone().branch(Branch {
            agent_id: id.clone(),
            spawned_by: call.id.clone(),
        });
        let place = self.at_work.enter(&task, context.spool.clone());
        let place = place.ok_or_else(|| {
            format!("{MAX_AT_WORK} subagents are at work already: wait until one has ended")
        })?;
        let relay = relay(&parent, &task, &agent, context);
        let ports = ports(&parent, &agent, &id, provider, store, relay.clone());
        let mut prompt = vec![ContentBlock::text(arguments.prompt)];
        prompt.extend(started(&ports, &agent, settings.permissions.mode).await);
        let mut toolbox = self.toolbox(&parent, &agent, is_background);
        if !is_background && let Some(servers) = self.kinds.own_servers(&agent, &*relay).await {
            toolbox = toolbox.with_servers(servers, PATIENCE);
        }
        let mut session = Session::open(ports, toolbox, settings)
            .await
            .map_err(|fault| fault.to_string())?;
        session.origin_prompt = parent.origin_prompt;
        if agent.permission_mode.is_none() {
            parent.controls.lead(&session.controls);
        }
        if arguments.resume.is_some() && session.transcript().last().is_none() {
            return Err(format!("there is no subagent {id} in this session"));
        }
        Ok(Work {
            session,
            prompt,
            task,
            name: agent.name.clone(),
            relay,
            place,
            at_work: self.at_work.clone(),
            log: context.spool.clone(),
        })
    }

    fn definition(&self, name: Option<&str>) -> Result<Arc<Agent>, String> {
        let name = name.unwrap_or(DEFAULT);
        let found = self.kinds.agents.get(name);
        let found = found.filter(|agent| may(&self.allowed, agent)).cloned();
        found.ok_or_else(|| {
            let known = self.kinds.agents.iter();
            let known = known.filter(|agent| may(&self.allowed, agent));
            let known: Vec<_> = known.map(|agent| agent.name.as_str()).collect();
            format!(
                "Agent type '{name}' not found. Available agents: {}",
                known.join(", ")
            )
        })
    }

    /// The model that it asks: what the call says counts more than the definition.
    fn provider(
        &self,
        parent: &Parent,
        wanted: Option<&str>,
        agent: &Agent,
    ) -> Result<Arc<dyn Provider>, String> {
        let own = &parent.ports.provider;
        let name = wanted.or(agent.model.as_deref()).unwrap_or(INHERIT);
        let names_nothing = ALIASES.contains(&name) && own.model().provider != OF_ALIASES;
        if name == INHERIT || names_nothing {
            return Ok(own.clone());
        }
        let connected = self.kinds.models.connect(Some(name));
        connected.map_err(|fault| format!("the model `{name}` cannot be asked: {fault}"))
    }

    /// How it works: as whoever starts it, but for what its definition says; of what that may take, the rest.
    fn settings(
        &self,
        parent: &Parent,
        agent: &Agent,
        provider: &dyn Provider,
        max_turns: Option<u32>,
    ) -> Result<SessionSettings, String> {
        let from = &parent.settings;
        let now = parent.ports.clock.now();
        let (tokens, cost) = parent.spent;
        let left = |most: Option<u64>| most.map(|most| most.saturating_sub(tokens));
        let max_budget = from.limits.max_budget;
        let max_budget =
            max_budget.map(|most| ah_conversation::Cost(most.0.saturating_sub(cost.0)));
        let model = provider.model();
        let mut permissions = from.permissions.clone();
        if let Some(mode) = agent.permission_mode
            && permissions.mode != PermissionMode::BypassPermissions
        {
            if mode == PermissionMode::BypassPermissions && !permissions.may_bypass {
                return Err(format!(
                    "the definition of `{}` wants mode `bypassPermissions`, to which nobody has agreed",
                    agent.name
                ));
            }
            permissions.change_mode(mode);
        }
        permissions
            .directories
            .extend(self.kinds.memory_folder(agent));
        Ok(SessionSettings {
            system: self.kinds.system(agent).into(),
            limits: Limits {
                max_turns: max_turns.or(agent.max_turns).or(Some(MAX_TURNS)),
                max_tokens: left(from.limits.max_tokens),
                max_context_tokens: from.limits.max_context_tokens,
                max_budget,
                deadline: None,
                context_window: model.context_window,
                reserved_output: model.max_output,
            },
            timeout_ms: from.limits.deadline.map(|deadline| deadline.since(now)),
            permissions,
            must_produce: None,
            thinking: Thinking {
                effort: agent.effort.or(from.thinking.effort),
                ..from.thinking
            },
            ..from.clone()
        })
    }

    /// Its tools: those of whoever starts it that its definition has; to start others only where that says so. Beside
    /// the conversation there are none of servers.
    fn toolbox(&self, parent: &Parent, agent: &Agent, is_background: bool) -> Toolbox {
        let is_own = |tool: &&Arc<dyn Tool>| tool.spec().name == self.spec.name;
        let is_left_out = |name: &str| is_background && name.starts_with("mcp__");
        let tools = parent.tools.iter().filter(|tool| !is_own(tool));
        let tools = tools.filter(|tool| {
            let name = &tool.spec().name;
            agent.has_tool(name) && !is_left_out(name)
        });
        let tools = tools.cloned();
        match agent.may_start() {
            Some(allowed) => {
                let below = Arc::new(self.below(allowed));
                let tools = tools.chain([below.clone() as Arc<dyn Tool>]);
                Toolbox::new(tools).with_subagents(below)
            }
            None => Toolbox::new(tools),
        }
    }
}

impl SubagentKinds {
    /// The system prompt of an agent: what is the same whenever it is started, and what varies.
    pub fn system(&self, agent: &Agent) -> Vec<String> {
        let prompt = match agent.prompt.trim() {
            "" => PROMPT,
            prompt => prompt,
        };
        let (instructions, environment) = (self.surroundings)();
        let instructions = match agent.omits_instructions {
            true => "",
            false => instructions.as_str(),
        };
        let skills = agent.skills.iter().filter_map(|name| self.skills.get(name));
        let skills: Vec<_> = skills.map(|skill| skill.prompt("")).collect();
        let skills = skills.join("\n\n");
        let memory = self.memory_folder(agent).map(|folder| memory(&folder));
        let blocks: [Vec<&str>; 2] = [
            vec![prompt, instructions],
            vec![
                &environment,
                &skills,
                memory.as_deref().unwrap_or_default(),
                agent.reminder.as_deref().unwrap_or_default(),
            ],
        ];
        let blocks = blocks.into_iter().map(|parts| {
            let parts = parts.into_iter().map(str::trim);
            let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
            parts.join("\n\n")
        });
        blocks.filter(|block| !block.is_empty()).collect()
    }

    /// The servers that only this one has, just started; what is wrong with some is told to `frontend`.
    async fn own_servers(
        &self,
        agent: &Agent,
        frontend: &dyn Frontend,
    ) -> Option<Arc<dyn Servers>> {
        let own = agent.servers.iter().flatten();
        let own = own.filter_map(|server| Some((server.name.clone(), server.own.clone()?)));
        let own: BTreeMap<_, _> = own.collect();
        let empty = self.servers.as_ref().filter(|_| !own.is_empty())?;
        let servers = empty();
        for (name, fault) in servers.set(own).await.errors {
            frontend.notice(&format!("the MCP server `{name}` is left out: {fault}"));
        }
        Some(servers)
    }

    fn memory_folder(&self, agent: &Agent) -> Option<PathBuf> {
        let wanted = agent.memory?;
        let mut folders = self.memory.iter();
        let (_, folder) = folders.find(|(scope, _)| *scope == wanted)?;
        // A name is one folder, whatever it is made of.
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let name: String = { agent.name.chars() }
            .map(|c| if is_plain(c) { c } else { '-' })
            .collect();
        Some(folder.join(name))
    }
}

/// An id that no subagent of the session has.
fn fresh_id(parent: &Parent) -> String {
    let id = parent.ports.clock.message_id();
    let id = id.as_str().to_lowercase();
    // The time at the beginning says nothing here.
    let start = id.len().saturating_sub(16);
    format!("a{}", &id[start..])
}

fn relay(parent: &Parent, task: &Task, agent: &Agent, context: &Context) -> Arc<Relay> {
    let state = match task.is_background {
        true => State::writing(&context.spool),
        false => State::default(),
    };
    Arc::new(Relay {
        outer: parent.ports.frontend.clone(),
        task: task.clone(),
        name: agent.name.clone(),
        sink: TaskSink::clone(&context.tasks),
        clock: parent.ports.clock.clone(),
        started: parent.ports.clock.now(),
        controls: parent.controls.clone(),
        state: Mutex::new(state),
    })
}

fn ports(
    parent: &Parent,
    agent: &Agent,
    id: &str,
    provider: Arc<dyn Provider>,
    store: Arc<dyn Store>,
    frontend: Arc<dyn Frontend>,
) -> Ports {
    let from = &parent.ports;
    // A model that summarises its own conversation does so here as well.
    let summarizer = match Arc::ptr_eq(&from.summarizer, &from.provider) {
        true => provider.clone(),
        false => from.summarizer.clone(),
    };
    Ports {
        provider,
        summarizer,
        store,
        frontend,
        hooks: from.hooks.of_agent(id, agent),
        ..from.clone()
    }
}

/// Tells hooks that it begins; gives what they want it to be told.
async fn started(ports: &Ports, agent: &Agent, mode: PermissionMode) -> Option<ContentBlock> {
    let moment = HookMoment {
        event: HookEvent::SubagentStart,
        kind: &agent.name,
        mode,
        call: None,
        more: json!({}),
    };
    let verdict = ports.hooks.ask(moment, &*ports.frontend).await;
    let context = verdict.context.join("\n");
    (!context.is_empty()).then(|| ContentBlock::text(format!("[HOOK] {context}")))
}

/// What is said of a memory, and what stands in it.
fn memory(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join(MEMORY_FILE)).unwrap_or_default();
    let lines: Vec<_> = said.lines().take(MEMORY_LINES).collect();
    let kept = match lines.is_empty() {
        true => "It is empty so far.".to_owned(),
        false => format!("It says:\n\n{}", lines.join("\n")),
    };
    format!(
        "# Memory\n\nWhat is worth knowing the next time you keep in `{}`: the file {MEMORY_FILE} there is shown to you \
         when you begin, so keep it short and let it name others. {kept}",
        folder.display()
    )
}
