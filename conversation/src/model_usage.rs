//! Tokens and cost per model, including models that tools call themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, Response, ToolResult, Usage};

/// Key in the details of a tool result for the usage of models that the tool called.
const SPENT: &str = "spent";

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
            Self::add(
                &mut usages,
                Self {
                    provider: response.provider.clone(),
                    model: response.model.clone(),
                    usage: response.usage,
                    cost: response.cost,
                },
            );
        }
        usages
    }

    /// Adds `more` to the entry of the same model, or appends a new entry.
    pub fn add(usages: &mut Vec<Self>, more: Self) {
        let is_same =
            |known: &&mut Self| (&known.provider, &known.model) == (&more.provider, &more.model);
        match usages.iter_mut().find(is_same) {
            Some(known) => {
                known.usage += more.usage;
                known.cost = known.cost.zip(more.cost).map(|(sum, cost)| sum + cost);
            }
            None => usages.push(more),
        }
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
        let spent = result.details.as_ref().and_then(|it| it.get(SPENT));
        // Third-party tools may use the same key for something else.
        spent
            .and_then(|spent| Vec::deserialize(spent).ok())
            .unwrap_or_default()
    }
}
