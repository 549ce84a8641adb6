//! The `script` tool: the model calls several tools from one piece of Lua, and only what that returns enters the
//! conversation.
//!
//! The piece reaches nothing but tools: there are no files, programs, connections or modules in its state. Its calls are
//! those of a conversation in which it answers in the place of a model ([`Caller`](ah_conversation::Caller)), so they are
//! decided about, recorded and shown like all others.

mod answering;
mod limits;
mod state;
mod step;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments;
use crate::naming::describe;
use answering::Answering;

/// The `script` tool.
pub struct Script {
    spec: ToolSpec,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Lua 5.4
    code: String,
}

impl Script {
    /// Returns the tool.
    pub fn new(interface: Interface) -> Self {
        let name = interface.tool_name("script");
        let description = describe(interface, include_str!("script/script.md"));
        Self {
            spec: ToolSpec {
                key: Some(DisplayKey::Text("code".to_owned())),
                truncation: Truncation::DEFAULT,
                ..arguments::spec(&name, &description, arguments::schema::<Arguments>())
            },
        }
    }
}

#[async_trait]
impl Tool for Script {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// No access by itself: each call of the script is decided when it comes.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let arguments: Arguments = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
        };
        let Some(caller) = &context.caller else {
            return Output::error("scripts cannot call tools here: call them yourself");
        };
        let answering = match Answering::start(call, &arguments.code, context.output.clone()) {
            Ok(answering) => answering,
            Err(error) => return Output::error(format!("cannot run the script: {error}")),
        };
        let early = { caller.converse(call, arguments.code, answering.clone()) }.await;
        answering.output(early).await
    }
}
