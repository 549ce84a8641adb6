//! What a run has used and cost: the answers of its model, of subagents, and of models that tools ask.

use ah_agent::SessionUpdate;
use ah_conversation::{CallReason, Cost, EventKind, ModelUsage, Usage};

/// Adds an answer of the model to the tokens, the tokens of the context, and the cost. What was asked beside the conversation has
/// only a cost, and a summary is no context.
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
        reason,
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
    if CallReason::is_of_conversation(*reason) {
        *sum += usage;
    }
    if reason.is_none() {
        *context = usage.total();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_beside_the_conversation_has_only_a_cost() {
        for (reason, tokens) in [
            (None, (15, 15)),
            (Some(CallReason::Summary), (15, 7)),
            (Some(CallReason::KeepWarm), (0, 7)),
            (Some(CallReason::Refused), (0, 7)),
            (Some(CallReason::Title), (0, 7)),
        ] {
            let kind = EventKind::ApiCallEnd {
                message_id: "m".into(),
                input_tokens: 1,
                output_tokens: 2,
                cache_creation_input_tokens: 4,
                cache_read_input_tokens: 8,
                api_latency_ms: 1,
                model: "m".to_owned(),
                cost_usd: Some(0.5),
                reason,
            };
            let (mut sum, mut context, mut cost) = (Usage::default(), 7, None);
            add_usage((&mut sum, &mut context, &mut cost), &kind);
            assert_eq!((sum.total(), context), tokens, "{reason:?}");
            assert_eq!(cost, Some(Cost::from_usd(0.5)));
        }
    }
}
