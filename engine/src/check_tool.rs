//! The `check` tool: the model has the check of its run (`--until`) run while it works, and not only when it ends its turn.
//!
//! It is there for sessions that begin with a check. How it runs is left to the port [`Check`].

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Access, Check, Context, Input, Output, Tool, ToolSpec, ToolUse, Truncation};
use async_trait::async_trait;
use serde_json::json;

/// The tool.
pub struct CheckTool {
    spec: ToolSpec,
    check: Arc<dyn Check>,
    project: PathBuf,
}

impl CheckTool {
    /// Returns the tool for a check of the project.
    pub fn new(check: Arc<dyn Check>, project: PathBuf) -> Self {
        let description = format!(
            "Runs `{}` as it is run when you end your turn, on a copy of the project, and returns why it does not pass. What has \
             passed is not run again before a file changes.",
            check.command()
        );
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Self {
            spec: ToolSpec {
                name: "check".to_owned(),
                description,
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
        let run = self.check.run().await;
        let took = run.duration_ms;
        match run.is_passed {
            true => Output::text(format!("It passed: {}, after {took} ms.", run.ending)),
            false => Output::text(format!(
                "It did not pass: {}, after {took} ms.{}",
                run.ending,
                run.account()
            )),
        }
    }
}
