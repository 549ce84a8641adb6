//! Subagents: a tool whose run is a session of its own, with its own prompt, tools, model and limits.
//!
//! Its conversation is kept with that of the session which asked for it, and what it took counts there. A session says
//! before its calls run what its subagents begin with ([`Subagents::know`]).

mod at_work;
mod begin;
mod relay;
mod work;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{
    Access, Context, Cost, DisplayKey, Input, MessageId, Models, Output, Servers, Tasks, Tool,
    ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::json;

use crate::agents::{Agent, Agents, MemoryScope};
use crate::session::{Ports, SessionSettings};
use crate::skills::Skills;
use crate::{Controls, Session};
use at_work::AtWork;

/// How many subagents work at once at most.
pub const MAX_AT_WORK: usize = 10;
/// How deep subagents may start others.
const MAX_DEPTH: usize = 3;
/// The one that is meant where none is named.
const DEFAULT: &str = "general-purpose";

/// What kinds of subagents there are, and what all of them are made with.
pub struct SubagentKinds {
    /// The definitions.
    pub agents: Agents,
    /// The skills that definitions name.
    pub skills: Arc<Skills>,
    /// The models that definitions name.
    pub models: Arc<dyn Models>,
    /// The project's instructions, and where and when the session runs; read when the first subagent begins.
    pub surroundings: Box<dyn Fn() -> (String, String) + Send + Sync>,
    /// The folders in which what subagents have learned is kept, a folder for each below.
    pub memory: Vec<(MemoryScope, PathBuf)>,
    /// Whether subagents may run beside the conversation.
    pub may_run_beside: bool,
    /// Gives an empty set of MCP servers, for those that a definition has of its own.
    pub servers: Option<Box<dyn Fn() -> Arc<dyn Servers> + Send + Sync>>,
}

/// Starts subagents: the tool, and what goes on.
pub struct Subagents {
    spec: ToolSpec,
    kinds: Arc<SubagentKinds>,
    /// Those that may be started; none named: all.
    allowed: Vec<String>,
    /// How many conversations whoever asks is below the first one.
    depth: usize,
    at_work: Arc<AtWork>,
    parent: Mutex<Option<Parent>>,
}

/// What a session gives to the subagents that it starts.
#[derive(Clone)]
pub(crate) struct Parent {
    ports: Ports,
    settings: SessionSettings,
    tools: Vec<Arc<dyn Tool>>,
    controls: Controls,
    /// Tokens and money of its run so far.
    spent: (u64, Cost),
    /// The prompt of a person that it works for.
    origin_prompt: Option<MessageId>,
}

impl Session {
    /// What a subagent begins with that is started now.
    pub(crate) fn as_parent(&self) -> Parent {
        Parent {
            ports: self.ports.clone(),
            settings: self.settings.clone(),
            tools: self.tools.tools().cloned().collect(),
            controls: self.controls.clone(),
            spent: (self.transcript.spent().total(), self.transcript.cost()),
            origin_prompt: self.origin_prompt(),
        }
    }

    /// The prompt on whose account files change: who goes back to before it takes back what subagents did for it as well.
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
    /// What the tool is called.
    pub const OWN_NAME: &str = "agent";
    /// The name that the official Agent SDKs' hosts know.
    pub const SDK_NAME: &str = "Agent";

    /// Starts subagents of these kinds, under the tool's name `name`: those that `allowed` names, or all where it names
    /// none.
    pub fn new(kinds: SubagentKinds, name: &str, allowed: Vec<String>) -> Self {
        Self::with(Arc::new(kinds), name, allowed, 0, Arc::default())
    }

    fn with(
        kinds: Arc<SubagentKinds>,
        name: &str,
        allowed: Vec<String>,
        depth: usize,
        at_work: Arc<AtWork>,
    ) -> Self {
        let mut description = include_str!("subagent/tool.md").trim_end().to_owned();
        for agent in kinds.agents.iter().filter(|agent| may(&allowed, agent)) {
            description.push_str(&format!("\n- {}: {}", agent.name, agent.description));
        }
        let spec = ToolSpec {
            name: name.to_owned(),
            description,
            input_schema: Arc::new(schema()),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("description".to_owned())),
        };
        Self {
            spec,
            kinds,
            allowed,
            depth,
            at_work,
            parent: Mutex::new(None),
        }
    }

    /// The same for a subagent that may itself start `allowed`.
    fn below(&self, allowed: Vec<String>) -> Self {
        let (kinds, at_work) = (self.kinds.clone(), self.at_work.clone());
        Self::with(kinds, &self.spec.name, allowed, self.depth + 1, at_work)
    }

    /// The definitions.
    pub fn agents(&self) -> &Agents {
        &self.kinds.agents
    }

    /// Takes note of the session whose calls are about to run, as long as what this gives lives: a session that has
    /// ended is held by nobody.
    pub(crate) fn know(self: &Arc<Self>, parent: Parent) -> Known {
        *self.parent.lock().unwrap_or_else(PoisonError::into_inner) = Some(parent);
        Known(self.clone())
    }

    /// Ends what is at work, with the session above all.
    pub(crate) fn close(&self) {
        if self.depth == 0 {
            self.at_work.abort();
        }
    }

    fn parent(&self) -> Option<Parent> {
        let parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
        parent.clone()
    }
}

/// Forgets the session when it is dropped.
pub(crate) struct Known(Arc<Subagents>);

impl Drop for Known {
    fn drop(&mut self) {
        *self.0.parent.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Whether a list of those that may be started has this one.
fn may(allowed: &[String], agent: &Agent) -> bool {
    allowed.is_empty() || { allowed.iter() }.any(|name| name.eq_ignore_ascii_case(&agent.name))
}

fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "description": { "type": "string", "description": "The task in three to five words" },
            "prompt": { "type": "string", "description": "The task, with all that is needed for it" },
            "subagent_type": { "type": "string", "description": "The kind of subagent (default general-purpose)" },
            "model": { "type": "string", "description": "Another model: sonnet, opus, haiku, inherit or a full name" },
            "max_turns": { "type": "integer", "description": "How often it may ask the model" },
            "resume": { "type": "string", "description": "The id of an earlier subagent that goes on" },
            "run_in_background": { "type": "boolean", "description": "Go on without waiting for it" },
        },
        "required": ["description", "prompt"],
    })
}

#[async_trait]
impl Tool for Subagents {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Nothing by itself: each call of the subagent is judged when it comes.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        match self.begin(call, context).await {
            Ok(work) => work.perform().await,
            Err(fault) => Output::error(fault),
        }
    }

    fn tasks(&self) -> Option<Arc<dyn Tasks>> {
        Some(self.at_work.clone())
    }
}
