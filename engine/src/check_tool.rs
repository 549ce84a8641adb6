//! The `check` tool: the model has the check of its run (`--until`) run while it works, and not only when it ends its turn.
//!
//! It is there for sessions that begin with a check; the check can be another one later, or none (`/goal`). How it runs is left to the port [`Check`].

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Access, CheckInForce, Context, Input, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::json;

/// The tool.
pub struct CheckTool {
    spec: ToolSpec,
    check: CheckInForce,
    project: PathBuf,
}

impl CheckTool {
    /// Returns the tool for a check of the project.
    pub fn new(check: CheckInForce, project: PathBuf) -> Self {
        let description = "Runs the command that is run when you end your turn, on a copy of the project, and returns why it does \
                           not pass. A check that has passed is not rerun until a file changes.";
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Self {
            spec: ToolSpec {
                name: "check".to_owned(),
                description: description.to_owned(),
                input_schema: Arc::new(none),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: None,
            },
            check,
            project,
        }
    }
}

#[async_trait]
impl Tool for CheckTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// It waits for those that write the files.
    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Read(self.project.clone())]
    }

    fn is_for_scripts(&self) -> bool {
        false
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        let Some(check) = self.check.get() else {
            return Output::text("There is no check any more: the user has ended it.".to_owned());
        };
        let run = check.run().await;
        let (command, took) = (check.command(), run.duration_ms);
        match run.is_passed {
            true => Output::text(format!(
                "`{command}` passed: {}, after {took} ms.",
                run.ending
            )),
            false => Output::text(format!(
                "`{command}` did not pass: {}, after {took} ms.{}",
                run.ending,
                run.account()
            )),
        }
    }
}
