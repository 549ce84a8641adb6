//! The tool with which the model calls a skill.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation, is_same_tool,
};
use async_trait::async_trait;
use serde_json::json;

use super::Skills;

/// Its own name.
const NAME: &str = "skill";

/// The tool with which the model calls a skill.
pub struct SkillTool {
    spec: ToolSpec,
    skills: Arc<Skills>,
}

impl SkillTool {
    /// Returns the name that the tool has among `tools`, if it is there.
    pub fn name_among(tools: &[ToolSpec]) -> Option<&str> {
        let mut names = tools.iter().map(|tool| tool.name.as_str());
        names.find(|name| is_same_tool(name, NAME))
    }

    /// Creates the tool; `None` if no skill is listed for the model.
    pub fn new(skills: Arc<Skills>, interface: Interface) -> Option<Self> {
        skills.iter().find(|skill| skill.is_listed)?;
        let argument = interface.pick("name", "skill");
        let mut properties = serde_json::Map::new();
        properties.insert(argument.to_owned(), json!({ "type": "string" }));
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": [argument],
        });
        let spec = ToolSpec {
            name: interface.tool_name(NAME),
            description: include_str!("tool.md").trim_end().to_owned(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation {
                bytes: 50_000,
                lines: None,
            },
            key: Some(DisplayKey::Text(argument.to_owned())),
        };
        Some(Self { spec, skills })
    }
}

#[async_trait]
impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let input = &call.input;
        let name = input
            .text("name")
            .or_else(|| input.text("skill"))
            .unwrap_or_default();
        let listed = |name: &str| self.skills.get(name).filter(|skill| skill.is_listed);
        match listed(name).or_else(|| listed(name.trim_start_matches('/'))) {
            Some(skill) => Output::text(skill.prompt("")).with_details(json!({
                "path": skill.location,
                "skill_name": skill.name,
                "line_count": skill.body.lines().count(),
            })),
            None => {
                let listed = self.skills.iter().filter(|skill| skill.is_listed);
                let known: Vec<_> = listed.map(|skill| skill.name.as_str()).collect();
                Output::error(format!(
                    "there is no skill `{name}`; the skills are {}",
                    known.join(", ")
                ))
            }
        }
    }
}
