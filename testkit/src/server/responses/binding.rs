//! Reasoning bound to what stands before it, as GPT-6.2 and later models check it: what is encrypted holds a digest of the
//! request that was answered, so a later request shows by itself whether its beginning changed.
//!
//! The vendor leaves such reasoning out and says so in `input_transformations`. Nothing is refused, so tests ask for it as
//! for other losses.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::super::json::list;
use super::super::vendor::gpt_version;
use super::history::kind;

/// Mark of what is encrypted here.
const MARK: &str = "bound.";

/// Returns what the reasoning in the answer to `body` holds; `None` for a model that does not bind it.
pub fn seal(body: &Value) -> Option<String> {
    if !binds(body) {
        return None;
    }
    let mut prefix = beginning(body);
    for item in list(body, "input") {
        add(&mut prefix, item);
    }
    Some(format!("{MARK}{:x}", prefix.finish()))
}

/// Returns the id of the first reasoning that the server leaves out because what stands before it has changed.
pub fn dropped(body: &Value) -> Option<&str> {
    if !binds(body) {
        return None;
    }
    let mut prefix = beginning(body);
    // What the current answer may be bound to: it may have been given in parts.
    let mut begins = Vec::new();
    for item in list(body, "input") {
        let is_answer = matches!(kind(item), "reasoning" | "assistant" | "function_call");
        if !is_answer {
            begins.clear();
        } else if begins.last() != Some(&prefix.finish()) {
            begins.push(prefix.finish());
        }
        let sealed = item["encrypted_content"].as_str();
        if let Some(digest) = sealed.and_then(|sealed| sealed.strip_prefix(MARK))
            && begins.iter().all(|begin| format!("{begin:x}") != digest)
        {
            return item["id"].as_str().or(Some(""));
        }
        add(&mut prefix, item);
    }
    None
}

/// Whether the request `later` begins with everything that `earlier` says. Besides what binds reasoning, that is what decides
/// which cache is read: `Response.CacheMiss` in npm openai 7.59.0, 17 November 2026.
pub fn continues(later: &Value, earlier: &Value) -> bool {
    let fields = [
        "instructions",
        "prompt_cache_key",
        "reasoning",
        "text",
        "tools",
    ];
    fields.iter().all(|field| later[*field] == earlier[*field])
        && list(later, "input").starts_with(list(earlier, "input"))
}

fn binds(body: &Value) -> bool {
    let model = body["model"].as_str().unwrap_or_default();
    gpt_version(model).is_some_and(|version| version >= (6, 2))
}

/// Returns the digest of what stands before the input.
fn beginning(body: &Value) -> DefaultHasher {
    let mut prefix = DefaultHasher::new();
    for tool in list(body, "tools") {
        add(&mut prefix, tool);
    }
    add(&mut prefix, &body["text"]["format"]);
    prefix
}

/// Adds an item. Reasoning that a client leaves out from the beginning on is missed by nobody.
fn add(prefix: &mut DefaultHasher, item: &Value) {
    if kind(item) != "reasoning" {
        item.to_string().hash(prefix);
    }
}
