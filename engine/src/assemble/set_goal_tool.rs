//! The `SetGoal` tool of the profile `sdk`: the model proposes the check that says when its work is done, and the user agrees to it
//! or does not.
//!
//! It exists where a host names it, and never sets a check without a question, whatever its input says: the model does not choose
//! what judges it. A check that is in force can only be changed by the user.

use std::sync::Arc;

use ah_config::Config;
use ah_conversation::{
    Access, CheckInForce, Choice, ChoiceOption, Context, DisplayKey, Input, Interaction, Output,
    PermissionMode, Tool, ToolExtras, ToolSpec, ToolUse, Truncation,
};
use ah_store::SessionStore;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;

use super::goal::check_of;
use super::recorded_check::RecordedTo;
use crate::confinement::SandboxStatus;

/// Name of the tool.
pub const NAME: &str = "SetGoal";
/// Argument with the command of the check.
const CONDITION: &str = "condition";
/// The answer that agrees.
const YES: &str = "Yes";

/// The tool.
pub struct SetGoalTool {
    spec: ToolSpec,
    check: CheckInForce,
    config: Config,
    sandbox: SandboxStatus,
    recorded_to: RecordedTo,
    store: Arc<SessionStore>,
}

impl SetGoalTool {
    /// Returns the tool for a session with this configuration, and this check in force.
    pub fn new(
        check: CheckInForce,
        config: Config,
        sandbox: &SandboxStatus,
        recorded_to: &RecordedTo,
        store: Arc<SessionStore>,
    ) -> Self {
        let description = "Proposes a goal to the user, who is asked: a shell command, run on a copy of the project each time you end \
                           your turn. You go on until it exits with 0.";
        let input_schema = json!({
            "type": "object",
            "properties": {
                CONDITION: {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 500,
                    "description": "The command, in one line, such as `make test`",
                },
                "ask_user": {"type": "boolean", "description": "The user is always asked"},
                "answers": {"type": "object", "description": "The user's; leave it out"},
            },
            "required": [CONDITION],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: NAME.to_owned(),
                description: description.to_owned(),
                input_schema: Arc::new(input_schema),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: Some(DisplayKey::Text(CONDITION.to_owned())),
            },
            check,
            config,
            sandbox: sandbox.clone(),
            recorded_to: recorded_to.clone(),
            store,
        }
    }
}

#[async_trait]
impl Tool for SetGoalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let condition = input.text(CONDITION).unwrap_or_default();
        let option = |label: &str, description: &str| ChoiceOption {
            label: label.to_owned(),
            description: description.to_owned(),
        };
        vec![Access::Ask(Interaction::Choices(vec![Choice {
            question: format!("Work until `{condition}` passes?"),
            header: "Goal".to_owned(),
            options: vec![
                option(
                    YES,
                    "it is run on a copy of the project; tests count as they are now, with what the model has changed so far",
                ),
                option("No", "runs end when the model ends its turn"),
            ],
            is_multiple: false,
        }]))]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        // Hosts of the SDKs only allow the call or do not.
        let answers = call.input.to_value()["answers"].take();
        let answers = answers.as_object().into_iter().flatten();
        if let Some((_, other)) = { answers }.find(|(_, answer)| *answer != YES) {
            return Output::error(format!("The user does not agree: {other}"));
        }
        let condition = call.input.text(CONDITION).unwrap_or_default();
        if condition.contains(['\n', '\r']) {
            return Output::error("The command has to be one line.");
        }
        let done = |sealed: String| {
            let text = format!("When you end your turn, `{condition}` is run.{sealed}");
            Output::text(text).with_details(json!({"condition": condition, "askUser": true}))
        };
        if let Some(check) = self.check.get() {
            let command = check.command();
            if command == condition {
                // A worker that has died may have set it, and the call begins again.
                return done(String::new());
            }
            return Output::error(format!(
                "Your work has to pass `{command}` already. Only the user can change that."
            ));
        }
        let told = Mutex::new(String::new());
        let tell = |text: &str| {
            let mut told = told.lock();
            told.push_str(&format!("\n{text}"));
        };
        let config = self.config.clone();
        // The user was asked about this very command.
        let agreed = (Some(condition), PermissionMode::BypassPermissions);
        let (sandbox, recorded_to) = (&self.sandbox, &self.recorded_to);
        let check = check_of(agreed, config, sandbox, recorded_to, &self.store, &tell).await;
        match check {
            Ok(check) => self.check.set(Some(check)),
            Err(error) => return Output::error(error.in_one_line()),
        }
        let sealed = told.into_inner();
        done(sealed)
    }
}
