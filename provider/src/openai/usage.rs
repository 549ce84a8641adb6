//! Tokens as OpenAI and those like it tell them: under many names, and with the cached ones counted twice.

use ah_conversation::{Cost, Usage};
use serde_json::Value;

/// The tokens that `usage` tells, of a chat completion or a response.
pub fn usage(usage: &Value) -> Usage {
    let first = |paths: &[&str]| {
        let found = paths.iter().find_map(|path| usage.pointer(path)?.as_u64());
        found.unwrap_or(0)
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
    ]);
    let all = first(&["/prompt_tokens", "/input_tokens"]);
    Usage {
        // Where more is cached than all, the two are told apart.
        input_tokens: all.checked_sub(read + written).unwrap_or(all),
        output_tokens: first(&["/completion_tokens", "/output_tokens"]),
        cache_creation_input_tokens: written,
        cache_read_input_tokens: read,
        cache_creation_1h_input_tokens: written_for_an_hour,
    }
}

/// What the server says that the call cost, as gateways do. Where it says nothing it means that it does not know.
pub fn cost(usage: &Value) -> Option<Cost> {
    let cost = usage.get("cost")?.as_f64().map(Cost::from_usd)?;
    (cost > Cost::default()).then_some(cost)
}
