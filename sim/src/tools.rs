//! Tools whose effects are written in a ledger that outlives each process.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Output, Tool, ToolExtras, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::json;

use crate::laws::written;
use crate::plant::Plant;
use crate::world::World;

/// A tool that writes a line into the ledger, or only looks.
pub(crate) struct Simulated {
    world: Arc<World>,
    spec: ToolSpec,
    access: Access,
}

impl Simulated {
    /// Returns the tools of a session.
    pub(crate) fn all(world: &Arc<World>) -> Vec<Arc<dyn Tool>> {
        let tool = |name: &str, access| -> Arc<dyn Tool> {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: Arc::new(json!({"type": "object"})),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: None,
            };
            let world = world.clone();
            Arc::new(Self {
                world,
                spec,
                access,
            })
        };
        vec![
            tool("write", Access::Unknown),
            tool("read", Access::Read("file".into())),
        ]
    }

    /// Has an effect; returns what the tool says of it.
    fn write(&self, call: &ToolUse) -> String {
        let mut state = self.world.state();
        let times = if state.planted(Plant::EffectTwice, 5) {
            2
        } else {
            1
        };
        for _ in 0..times {
            state.ledger.push(call.id.clone());
        }
        state.tell(format!("effect of {}", call.id));
        if state.planted(Plant::EffectUntold, 5) {
            return "Nothing to do.".to_owned();
        }
        written(&call.id)
    }
}

#[async_trait]
impl Tool for Simulated {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![self.access.clone()]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        self.world.moment().await;
        let text = match self.access {
            Access::Unknown => self.write(call),
            _ => "Looked.".to_owned(),
        };
        self.world.moment().await;
        match self.world.state().chance.one_in(6) {
            true => Output::error(text),
            false => Output::text(text),
        }
    }
}
