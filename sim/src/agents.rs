//! Subagents: sessions below a call, with the same model, the same tools and a part of the same budget.

use std::sync::Arc;

use ah_agent::agents::{Agent, Agents};
use ah_agent::skills::Skills;
use ah_agent::{SubagentKinds, Subagents};
use ah_conversation::{Model, Models, Provider, ProviderError};
use serde_json::{Value, json};

use crate::world::State;

/// Name of the subagents, which may start others.
const NAME: &str = "general-purpose";
/// Most turns of a subagent.
const TURNS: usize = 6;

/// Returns the tool that starts subagents.
pub(crate) fn tool() -> Arc<Subagents> {
    let definition = json!({
        "description": "does a task",
        "tools": ["Agent", "write", "edit", "read"],
    });
    let mut agents = Agents::default();
    agents.add(Agent::from_json(NAME, &definition).expect("it is a definition"));
    let kinds = SubagentKinds {
        agents,
        skills: Arc::new(Skills::default()),
        models: Arc::new(OneModel),
        context: Box::new(Default::default),
        memory: Vec::new(),
        allow_background: true,
        isolation: None,
        servers: None,
    };
    Arc::new(Subagents::new(kinds, Subagents::OWN_NAME, Vec::new()))
}

/// Returns the input of a call that starts a subagent, or goes on with one.
pub(crate) fn input(state: &mut State) -> Value {
    let mut input = json!({
        "description": "a task",
        "prompt": "Do it.",
        "max_turns": 1 + state.chance.below(TURNS),
        "run_in_background": state.chance.one_in(3),
    });
    if let Some(id) = state.known_agent() {
        input["resume"] = json!(id);
    }
    input
}

/// No other model is asked for.
pub(crate) struct OneModel;

impl Models for OneModel {
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        panic!("{name:?} is not asked for")
    }

    fn describe(&self, provider: &str, name: &str) -> Model {
        Model::new(provider, name, 200_000, 8_000)
    }
}
