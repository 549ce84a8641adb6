//! What a run has used and cost: the answers of its model, of subagents, and of models that tools ask.

use ah_agent::SessionUpdate;
use ah_conversation::{Cost, EventKind, ModelUsage, Usage};

/// Adds an answer of the model to the tokens, the tokens of the context, and the cost.
pub(super) fn add_usage(
    (sum, context, cost): (&mut Usage, &mut u64, &mut Option<Cost>),
    kind: &EventKind,
) {
    let EventKind::ApiCallEnd {
        input_tokens,
        output_tokens,
        cache_creation_input_tokens,
        cache_read_input_tokens,
        cost_usd,
        ..
    } = kind
    else {
        return;
    };
    let usage = Usage {
        input_tokens: *input_tokens,
        output_tokens: *output_tokens,
        cache_creation_input_tokens: *cache_creation_input_tokens,
        cache_read_input_tokens: *cache_read_input_tokens,
        cache_creation_1h_input_tokens: 0,
        web_search_requests: 0,
    };
    *sum += usage;
    *context = usage.total();
    if let Some(dollars) = cost_usd {
        *cost = Some(cost.unwrap_or_default() + Cost::from_usd(*dollars));
    }
}

/// Adds what a message of a subagent has cost, and what tools have asked models; the answers of the model itself are events.
pub(super) fn add_cost(cost: &mut Option<Cost>, update: SessionUpdate<'_>) {
    let (message, response) = match update {
        SessionUpdate::Stored(message) => (message, None),
        SessionUpdate::Subagent(_, SessionUpdate::Stored(message)) => {
            (*message, message.response.as_ref())
        }
        _ => return,
    };
    let by_tools = ModelUsage::by_tools(message).into_iter();
    let costs = by_tools.map(|share| share.cost);
    for further in costs.chain(response.map(|it| it.cost)).flatten() {
        *cost = Some(cost.unwrap_or_default() + further);
    }
}
