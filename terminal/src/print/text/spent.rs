//! What a run has used and cost: the answers of its model, of subagents, and of models that tools ask.

use ah_agent::SessionUpdate;
use ah_conversation::{Cost, EventKind, ModelUsage, Usage};

use super::State;
use crate::print::{elapsed, money};

/// Adds an answer of the model.
pub(super) fn add_usage(state: &mut State, kind: &EventKind) {
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
    state.usage += usage;
    state.context = usage.total();
    if let Some(cost) = cost_usd {
        let cost = Cost::from_usd(*cost);
        state.cost = Some(state.cost.unwrap_or_default() + cost);
    }
}

/// Adds what a message of a subagent has cost, and what tools have asked models; the answers of the model itself are events.
pub(super) fn add_cost(state: &mut State, update: SessionUpdate<'_>) {
    let (message, response) = match update {
        SessionUpdate::Stored(message) => (message, None),
        SessionUpdate::Subagent(_, SessionUpdate::Stored(message)) => {
            (*message, message.response.as_ref())
        }
        _ => return,
    };
    let by_tools = ModelUsage::by_tools(message).into_iter();
    let costs = by_tools.map(|share| share.cost);
    for cost in costs.chain(response.map(|it| it.cost)).flatten() {
        state.cost = Some(state.cost.unwrap_or_default() + cost);
    }
}

/// Returns the line below a run in a conversation, whose status line tells the rest: `12s · $0.02`.
pub(super) fn brief(state: &State) -> String {
    let time = state.started.map_or(0, |start| start.elapsed().as_secs());
    let time = elapsed(time);
    match state.cost {
        Some(cost) => format!("{time} · {}", money(cost.usd())),
        None => time,
    }
}
