//! The tools that enter and leave mode `plan`. Permitting the call changes the mode; the tools only tell the model.

use ah_conversation::{
    Access, Context, Input, Interaction, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::arguments;

const ENTERED: &str = "You are in mode `plan` now: find out what the work needs and change nothing. Once the plan is clear, \
                       ask for its approval.";

/// The `exit_plan_mode` tool: asks for approval of a plan.
pub struct ExitPlan {
    spec: ToolSpec,
}

/// The `enter_plan_mode` tool: asks to make a plan first.
pub struct EnterPlan {
    spec: ToolSpec,
}

fn spec(name: &str, description: &str, properties: &Value) -> ToolSpec {
    let schema = json!({ "type": "object", "properties": properties, "required": [] });
    arguments::spec(name, description, schema)
}

impl ExitPlan {
    /// Returns the tool.
    pub fn new(interface: Interface) -> Self {
        let prompt = json!({
            "type": "object",
            "properties": { "tool": { "type": "string" }, "prompt": { "type": "string" } },
        });
        let properties = json!({
            "plan": { "type": "string", "description": "The plan, in Markdown: short, and in the order of the work" },
            "allowedPrompts": {
                "type": "array", "items": prompt, "description": "No longer used; leave it out",
            },
        });
        let name = interface.tool_name("exit_plan_mode");
        Self {
            spec: spec(&name, include_str!("plan/exit.md"), &properties),
        }
    }
}

impl EnterPlan {
    /// Returns the tool.
    pub fn new(interface: Interface) -> Self {
        let name = interface.tool_name("enter_plan_mode");
        Self {
            spec: spec(&name, include_str!("plan/enter.md"), &json!({})),
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

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        // It is in the input as the host may have changed it.
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

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        Output::text(ENTERED).with_details(json!({ "message": ENTERED }))
    }
}
