//! Tools whose effects are written in a ledger that outlives each process.

use std::sync::Arc;

use ah_conversation::{
    Access, Choice, Context, Input, Interaction, Output, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use async_trait::async_trait;
use serde_json::json;

use crate::law::Law;
use crate::laws::{looked, written};
use crate::plant::PlantedFault;
use crate::world::World;

/// A tool that writes a line into the ledger, or only looks.
pub(crate) struct SimulatedTool {
    world: Arc<World>,
    spec: ToolSpec,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// It has an effect that nobody sees.
    Write,
    /// It changes a file.
    Edit,
    Read,
    /// It has a question for the person.
    Ask,
}

impl SimulatedTool {
    /// Returns the tools of a session.
    pub(crate) fn all(world: &Arc<World>) -> Vec<Arc<dyn Tool>> {
        let tool = |name: &str, kind| -> Arc<dyn Tool> {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: Arc::new(json!({"type": "object"})),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: None,
            };
            let world = world.clone();
            Arc::new(Self { world, spec, kind })
        };
        vec![
            tool("write", Kind::Write),
            tool("edit", Kind::Edit),
            tool("read", Kind::Read),
            tool("ask", Kind::Ask),
        ]
    }

    /// Looks for a while, so that calls which run together end in any order; returns what the tool says of it.
    async fn look(&self, call: &ToolUse) -> String {
        let (turns, mixed_up) = {
            let mut state = self.world.state();
            let mixed_up = state.planted(PlantedFault::ResultsMixedUp, 5);
            (state.chance.below(4), mixed_up)
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let mut state = self.world.state();
        let last = state.looked.replace(call.id.clone());
        match last {
            Some(last) if mixed_up => looked(&last),
            _ => looked(&call.id),
        }
    }

    /// Has an effect; returns what the tool says of it.
    fn write(&self, call: &ToolUse) -> String {
        let mut state = self.world.state();
        let times = if state.planted(PlantedFault::EffectTwice, 5) {
            2
        } else {
            1
        };
        for _ in 0..times {
            state.ledger.push(call.id.clone());
        }
        if matches!(self.kind, Kind::Edit) {
            state.workspace.write(call);
        }
        state.tell(format!("effect of {}", call.id));
        if state.planted(PlantedFault::EffectUntold, 5) {
            return "Nothing to do.".to_owned();
        }
        written(&call.id)
    }
}

#[async_trait]
impl Tool for SimulatedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        vec![match self.kind {
            Kind::Write => Access::Unknown,
            Kind::Read => Access::Read("file".into()),
            Kind::Ask => Access::Ask(Interaction::Choices(vec![Choice {
                question: question(input),
                header: "Which".to_owned(),
                options: Vec::new(),
                is_multiple: false,
            }])),
            Kind::Edit => match self.world.state().workspace.file(input) {
                Some(path) => Access::Write(path),
                None => Access::Unknown,
            },
        }]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        self.world.moment().await;
        if matches!(self.kind, Kind::Write | Kind::Edit) {
            let mut state = self.world.state();
            if let Some(fault) = state.permits.fault(call) {
                state.fail(Law::Permitted.broken(fault));
            }
        }
        let text = match self.kind {
            Kind::Write | Kind::Edit => self.write(call),
            Kind::Read => self.look(call).await,
            Kind::Ask => {
                let answer = call.input.get("answers");
                let answer = answer.and_then(|answers| answers.get(question(&call.input)));
                format!("The answer is {}", answer.cloned().unwrap_or_default())
            }
        };
        self.world.moment().await;
        match self.world.state().chance.one_in(6) {
            true => Output::error(text),
            false => Output::text(text),
        }
    }
}

/// Returns the question of a call with this input.
fn question(input: &Input) -> String {
    let about = input.get("about").and_then(|about| about.as_str());
    format!("Which for {}?", about.unwrap_or("nothing"))
}
