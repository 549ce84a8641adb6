//! Tokens and cost per model, including models that tools call themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, JsonText, Message, Response, ToolResult, Usage};

/// Key in the details of a tool result for the usage of models that the tool called.
const SPENT: &str = "spent";
/// Key in the details of the result of a subagent, whose requests are messages of its own conversation.
const AGENT: &str = "agentId";

/// Usage of one model within a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Name of the provider.
    pub provider: String,
    /// Name of the model.
    pub model: String,
    /// Tokens used.
    pub usage: Usage,
    /// Cost; `None` if it is not known for all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl ModelUsage {
    /// Returns the usage per model of `responses`.
    pub fn of<'a>(responses: impl IntoIterator<Item = &'a Response>) -> Vec<Self> {
        let mut usages: Vec<Self> = Vec::new();
        for response in responses {
            Self::count(&mut usages, response);
        }
        usages
    }

    /// Adds a response to the entry of its model, or appends a new entry.
    pub fn count(usages: &mut Vec<Self>, response: &Response) {
        let Response {
            provider, model, ..
        } = response;
        match Self::find(usages, provider, model) {
            Some(known) => known.increase(response.usage, response.cost),
            None => usages.push(Self {
                provider: provider.clone(),
                model: model.clone(),
                usage: response.usage,
                cost: response.cost,
            }),
        }
    }

    /// Adds `more` to the entry of the same model, or appends a new entry.
    pub fn add(usages: &mut Vec<Self>, more: Self) {
        match Self::find(usages, &more.provider, &more.model) {
            Some(known) => known.increase(more.usage, more.cost),
            None => usages.push(more),
        }
    }

    /// Returns the tokens of all models.
    pub fn total(usages: &[Self]) -> Usage {
        usages
            .iter()
            .fold(Usage::default(), |sum, usage| sum + usage.usage)
    }

    fn find<'a>(usages: &'a mut [Self], provider: &str, model: &str) -> Option<&'a mut Self> {
        let mut usages = usages.iter_mut();
        usages.find(|known| known.model == model && known.provider == provider)
    }

    fn increase(&mut self, usage: Usage, cost: Option<Cost>) {
        self.usage += usage;
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
    }

    /// Writes the usage of a tool's own model calls into the details of its result, so that it counts towards the
    /// run.
    pub fn write_into(details: &mut Value, usages: &[Self]) {
        if !usages.is_empty() {
            details[SPENT] = serde_json::to_value(usages).unwrap_or_default();
        }
    }

    /// Returns the usage recorded in the details of a tool result.
    pub fn recorded_in(result: &ToolResult) -> Vec<Self> {
        result.details.as_ref().map_or_else(Vec::new, recorded)
    }

    /// Returns the usage of models that the tools of a message called themselves, without subagents.
    pub fn by_tools(message: &Message) -> Vec<Self> {
        let details = message.tool_results().filter_map(|it| it.details.as_ref());
        details.flat_map(Self::by_tool).collect()
    }

    /// Returns the usage that a tool's details record, unless it is a subagent's: whoever counts the messages of all
    /// conversations has counted that.
    pub fn by_tool(details: &JsonText) -> Vec<Self> {
        match details.get(AGENT) {
            Some(_) => Vec::new(),
            None => recorded(details),
        }
    }
}

fn recorded(details: &JsonText) -> Vec<ModelUsage> {
    // Third-party tools may use the same key for something else.
    let spent = details.get(SPENT);
    spent
        .and_then(|spent| Vec::deserialize(spent).ok())
        .unwrap_or_default()
}
