//! What each model took: tokens and money, also of models that a tool has asked on its own account.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, Response, ToolResult, Usage};

/// Where a tool says in the details of its result what the models took that it has asked.
const SPENT: &str = "spent";

/// What one model took of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The provider's name.
    pub provider: String,
    /// The model's.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What they cost; `None` where that is not known of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl ModelUsage {
    /// What each model took of `responses`.
    pub fn of<'a>(responses: impl IntoIterator<Item = &'a Response>) -> Vec<Self> {
        let mut shares: Vec<Self> = Vec::new();
        for response in responses {
            Self::add(
                &mut shares,
                Self {
                    provider: response.provider.clone(),
                    model: response.model.clone(),
                    usage: response.usage,
                    cost: response.cost,
                },
            );
        }
        shares
    }

    /// Adds a share to those of the same model, or to the list.
    pub fn add(shares: &mut Vec<Self>, more: Self) {
        let is_same =
            |share: &&mut Self| (&share.provider, &share.model) == (&more.provider, &more.model);
        match shares.iter_mut().find(is_same) {
            Some(share) => {
                share.usage += more.usage;
                share.cost = share.cost.zip(more.cost).map(|(sum, cost)| sum + cost);
            }
            None => shares.push(more),
        }
    }

    /// Writes into the details of a result what was taken to make it, so that it counts to the run that asked for it.
    pub fn write_into(details: &mut Value, shares: &[Self]) {
        if !shares.is_empty() {
            details[SPENT] = serde_json::to_value(shares).unwrap_or_default();
        }
    }

    /// What was taken to make this result besides the answers of the conversation itself.
    pub fn recorded_in(result: &ToolResult) -> Vec<Self> {
        let spent = result.details.as_ref().and_then(|it| it.get(SPENT));
        // Other programs' tools may have a word of their own there.
        spent
            .and_then(|spent| Vec::deserialize(spent).ok())
            .unwrap_or_default()
    }
}
