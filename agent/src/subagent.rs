//! Subagents: a tool that runs a session of its own, with its own prompt, tools, model and limits.
//!
//! Its conversation is stored with that of the parent session, and its usage counts there. A session registers itself
//! as the parent before its calls run ([`Subagents::register_parent`]).

mod begin;
mod caller;
mod host;
mod isolation;
mod memory;
mod registry;
mod relay;
mod teammate;
mod work;

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, MessageId, Models, Output, Servers, Tool,
    ToolExtras, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agents::{Agent, Agents, MemoryScope};
use crate::skills::Skills;
use crate::spending::Spending;
use crate::team::{Team, TeamTool};
use crate::tool_search::ToolSearchMode;
use crate::{Controls, Ports, SessionSettings};
pub use begin::{INHERIT, is_model_alias};
pub use isolation::{Isolation, OwnPlace};
pub use memory::MemoryPlace;
pub use registry::MAX_RUNNING;
use registry::SubagentRegistry;
pub use work::without_agent_id;

/// Maximum nesting depth of subagents.
const MAX_DEPTH: usize = 3;
/// Default definition.
const DEFAULT: &str = "general-purpose";

/// Definitions of subagents and the resources they use.
pub struct SubagentKinds {
    /// The definitions.
    pub agents: Agents,
    /// The skills that definitions name.
    pub skills: Arc<Skills>,
    /// The models that definitions name.
    pub models: Arc<dyn Models>,
    /// Returns the project's instructions and the environment; called when the first subagent starts.
    pub context: Box<dyn Fn() -> (String, String) + Send + Sync>,
    /// Folders of subagents' memories; each subagent has a folder below.
    pub memory: Vec<(MemoryScope, MemoryPlace)>,
    /// Whether subagents may run in the background.
    pub allow_background: bool,
    /// Makes places for definitions that want one of their own; `None` if there are none.
    pub isolation: Option<Box<dyn Isolation>>,
    /// Creates an empty set of MCP servers, for a definition's own servers.
    pub servers: Option<Box<dyn Fn() -> Arc<dyn Servers> + Send + Sync>>,
}

/// The tool that starts subagents.
pub struct Subagents {
    spec: ToolSpec,
    kinds: Arc<SubagentKinds>,
    /// Subagents that may be started; empty for all.
    allowed: Vec<String>,
    /// Nesting depth of the calling session.
    depth: usize,
    registry: Arc<SubagentRegistry>,
    /// The team that the session leads; `None` if it has none.
    team: Option<Arc<Team>>,
    parent: Mutex<Option<Parent>>,
}

/// State of a session that its subagents start with.
#[derive(Clone)]
pub(crate) struct Parent {
    ports: Ports,
    settings: SessionSettings,
    tools: Vec<Arc<dyn Tool>>,
    /// When its tools of servers are searched.
    search: (ToolSearchMode, Interface),
    controls: Controls,
    /// What the agents of its run have spent.
    spending: Spending,
    /// Top-level prompt that it works for.
    origin_prompt: Option<MessageId>,
}

impl Subagents {
    /// Name of the tool.
    pub const OWN_NAME: &str = "agent";
    /// Name of the tool in the Agent SDKs.
    pub const SDK_NAME: &str = "Agent";

    /// Creates the tool under the name `name`; it may start the subagents in `allowed`, or all if that is empty.
    pub fn new(kinds: SubagentKinds, name: &str, allowed: Vec<String>) -> Self {
        Self::with(Arc::new(kinds), name, allowed, 0, Arc::default())
    }

    fn with(
        kinds: Arc<SubagentKinds>,
        name: &str,
        allowed: Vec<String>,
        depth: usize,
        registry: Arc<SubagentRegistry>,
    ) -> Self {
        let mut description = include_str!("subagent/tool.md").trim_end().to_owned();
        for agent in kinds
            .agents
            .iter()
            .filter(|agent| is_allowed(&allowed, agent))
        {
            description.push_str(&format!("\n- {}: {}", agent.name, agent.description));
        }
        let spec = ToolSpec {
            name: name.to_owned(),
            description,
            input_schema: Arc::new(schema(name, kinds.isolation.is_some())),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("description".to_owned())),
        };
        Self {
            spec,
            kinds,
            allowed,
            depth,
            registry,
            team: None,
            parent: Mutex::new(None),
        }
    }

    /// Gives the session a team: subagents that are given a name stay, and can be written to.
    #[must_use]
    pub fn with_team(mut self) -> Self {
        self.team = Some(Arc::default());
        let mut schema = Value::clone(&self.spec.input_schema);
        schema["properties"]["name"] = json!({
            "type": "string",
            "description": "Makes it a teammate, which stays and can be written to by this name",
        });
        self.spec.input_schema = Arc::new(schema);
        self
    }

    /// Returns the team, if the session has one.
    pub(crate) fn team(&self) -> Option<&Arc<Team>> {
        self.team.as_ref()
    }

    /// Returns the tools of the team's lead; none without a team.
    pub fn team_tools(self: &Arc<Self>, interface: Interface) -> Vec<Arc<dyn Tool>> {
        let team = self.team.iter();
        team.flat_map(|team| TeamTool::of_lead(interface, team, self.clone()))
            .collect()
    }

    /// Returns the tool for a subagent that may itself start `allowed`.
    fn below(&self, allowed: Vec<String>) -> Self {
        let (kinds, registry) = (self.kinds.clone(), self.registry.clone());
        Self::with(kinds, &self.spec.name, allowed, self.depth + 1, registry)
    }

    /// Returns the definitions.
    pub fn agents(&self) -> &Agents {
        &self.kinds.agents
    }

    /// Registers the session whose calls are about to run, until the guard is dropped, so that an ended session is
    /// not kept alive.
    pub(crate) fn register_parent(self: &Arc<Self>, parent: Parent) -> ParentGuard {
        *self.parent.lock() = Some(parent);
        ParentGuard(self.clone())
    }

    /// Stops all running subagents, if this is the main session's tool.
    pub(crate) fn close(&self) {
        if self.depth == 0 {
            self.registry.abort();
        }
    }

    fn parent(&self) -> Option<Parent> {
        self.parent.lock().clone()
    }
}

/// Unregisters the session when dropped.
pub(crate) struct ParentGuard(Arc<Subagents>);

impl Drop for ParentGuard {
    fn drop(&mut self) {
        *self.0.parent.lock() = None;
    }
}

/// Whether a list of allowed subagents contains this one.
fn is_allowed(allowed: &[String], agent: &Agent) -> bool {
    allowed.is_empty()
        || allowed
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&agent.name))
}

/// Returns the schema of the input of the tool with this name; `has_places` if it can isolate subagents.
fn schema(name: &str, has_places: bool) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "description": { "type": "string" },
            "prompt": { "type": "string" },
            "subagent_type": { "type": "string" },
            "model": { "type": "string" },
            "max_turns": { "type": "integer" },
            "resume": { "type": "string", "description": "Id of a subagent to continue" },
            "run_in_background": { "type": "boolean" },
        },
        "required": ["description", "prompt"],
    });
    if has_places {
        schema["properties"]["isolation"] = json!({
            "type": "string",
            "enum": ["worktree"],
            "description": "A git worktree of its own",
        });
    }
    if name == Subagents::OWN_NAME {
        // Still accepted; definitions say it better.
        schema["properties"]
            .as_object_mut()
            .and_then(|properties| properties.shift_remove("max_turns"));
    }
    schema
}

#[async_trait]
impl Tool for Subagents {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// No access by itself: each call of the subagent is decided when it comes.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            tasks: Some(self.registry.clone()),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        match self.begin(call, context).await {
            Ok(run) => run.start().await,
            Err(error) => Output::error(error),
        }
    }
}
