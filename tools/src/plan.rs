//! The tools that lead into mode `plan` and out of it. Whoever allows the call agrees to what it asks, and that changes
//! the mode; what is left for the tools is to tell the model.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Interaction, Interface, Output, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::{Value, json};

const ENTERED: &str = "You are in mode `plan` now: find out what the work needs and change nothing. Once the plan is clear, \
                       ask for its approval.";

/// The `exit_plan_mode` tool: asks for the approval of a plan.
pub struct ExitPlan {
    spec: ToolSpec,
}

/// The `enter_plan_mode` tool: asks to plan first.
pub struct EnterPlan {
    spec: ToolSpec,
}

fn spec(name: &str, description: &str, properties: &Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.trim_end().to_owned(),
        input_schema: Arc::new(
            json!({ "type": "object", "properties": properties, "required": [] }),
        ),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    }
}

impl ExitPlan {
    /// The tool.
    pub fn new(interface: Interface) -> Self {
        let prompt = json!({
            "type": "object",
            "properties": { "tool": { "type": "string" }, "prompt": { "type": "string" } },
        });
        let properties = json!({
            "plan": { "type": "string", "description": "The plan, in Markdown: short, and in the order of the work" },
            "allowedPrompts": {
                "type": "array", "items": prompt, "description": "Not used any more; leave it out",
            },
        });
        let name = interface.pick("exit_plan_mode", "ExitPlanMode");
        Self {
            spec: spec(name, include_str!("plan/exit.md"), &properties),
        }
    }
}

impl EnterPlan {
    /// The tool.
    pub fn new(interface: Interface) -> Self {
        let name = interface.pick("enter_plan_mode", "EnterPlanMode");
        Self {
            spec: spec(name, include_str!("plan/enter.md"), &json!({})),
        }
    }
}

#[async_trait]
impl Tool for ExitPlan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let plan = input.text("plan").map(str::to_owned);
        vec![Access::Ask(Interaction::Plan(plan))]
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        // The host may have changed it.
        let plan = call.input.text("plan");
        let text = match plan {
            Some(plan) => format!("The plan is approved; begin with the work. It reads:\n\n{plan}"),
            None => "The plan is approved; begin with the work.".to_owned(),
        };
        Output::text(text).with_details(json!({ "plan": plan, "isAgent": false }))
    }
}

#[async_trait]
impl Tool for EnterPlan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Ask(Interaction::ToPlan)]
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        Output::text(ENTERED).with_details(json!({ "message": ENTERED }))
    }
}
