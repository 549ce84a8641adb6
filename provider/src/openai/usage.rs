//! Token counts of OpenAI and compatible servers: in many fields, and with cached tokens counted in the input as well.

use ah_conversation::{Cost, Usage};
use serde_json::Value;

/// Returns the token counts in `usage`, of a chat completion or a response.
pub fn usage(usage: &Value) -> Usage {
    let first = |paths: &[&str]| {
        paths
            .iter()
            .find_map(|path| usage.pointer(path)?.as_u64())
            .unwrap_or(0)
    };
    let read = first(&[
        "/cache_read_input_tokens",
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
    ]);
    let written = first(&[
        "/cache_creation_input_tokens",
        "/prompt_tokens_details/cache_creation_tokens",
        "/prompt_tokens_details/cache_write_tokens",
        "/input_tokens_details/cache_write_tokens",
    ]);
    let written_for_an_hour = first(&[
        "/prompt_tokens_details/cache_creation_token_details/ephemeral_1h_input_tokens",
        "/cache_creation/ephemeral_1h_input_tokens",
        // The longer of OpenAI's lifetimes costs as much: twice the price of input.
        "/input_tokens_details/cache_write_tokens_details/ttl_12h_tokens",
        "/prompt_tokens_details/cache_write_tokens_details/ttl_12h_tokens",
    ]);
    let all = first(&["/prompt_tokens", "/input_tokens"]);
    Usage {
        // If more tokens are cached than there are in all, the server counts them separately.
        input_tokens: all.checked_sub(read + written).unwrap_or(all),
        output_tokens: first(&["/completion_tokens", "/output_tokens"]),
        cache_creation_input_tokens: written,
        cache_read_input_tokens: read,
        cache_creation_1h_input_tokens: written_for_an_hour,
        web_search_requests: 0,
    }
}

/// Returns the cost of the call, which gateways report. Zero counts as unknown.
pub fn cost(usage: &Value) -> Option<Cost> {
    let cost = usage.get("cost")?.as_f64().map(Cost::from_usd)?;
    (cost > Cost::default()).then_some(cost)
}
