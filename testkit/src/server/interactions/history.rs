//! Validation of requests to the Interactions API. Pure: takes a body, returns the first error.
//!
//! Every request carries the whole conversation, once what the server stores is put before it. The first call of an
//! answer of the present turn needs a signature, or what stands for that of another model
//! (`https://ai.google.dev/gemini-api/docs/thought-signatures`).

use std::collections::HashSet;

use serde_json::Value;

use super::super::json::{is_name, list};

/// Longest name of a tool.
const LONGEST: usize = 64;

/// Returns the first error in `body`.
pub fn check(body: &Value) -> Result<(), String> {
    let model = body["model"].as_str().unwrap_or_default();
    if model.is_empty() {
        return Err("model is required.".to_owned());
    }
    if !body["previous_interaction_id"].is_null() {
        return Err("previous_interaction_id needs `store: true`.".to_owned());
    }
    check_settings(&body["generation_config"])?;
    check_tools(body)?;
    let steps = list(body, "input");
    if steps.is_empty() {
        return Err("input is required.".to_owned());
    }
    let (mut seen, mut open) = (HashSet::new(), Vec::new());
    let turn = steps.iter().rposition(|step| step["type"] == "user_input");
    let mut is_signed = false;
    for (at, step) in steps.iter().enumerate() {
        let invalid = |what: &str| Err(format!("input[{at}].{what}"));
        let text = |field: &str| step[field].as_str().unwrap_or_default();
        match step["type"].as_str().unwrap_or_default() {
            "thought" if text("signature").is_empty() => {
                return invalid("signature: is required in a stateless request.");
            }
            "thought" => is_signed = true,
            "model_output" => check_content(at, &step["content"])?,
            "user_input" if !open.is_empty() => {
                return Err(format!("Function call {} has no function result.", open[0]));
            }
            "user_input" => {
                is_signed = false;
                check_content(at, &step["content"])?;
            }
            "function_call" => {
                let id = text("id");
                if id.is_empty() || !seen.insert(id) {
                    return invalid("id: must be unique.");
                }
                if !is_name(text("name"), LONGEST) || !step["arguments"].is_object() {
                    return invalid("name: must be a name, with an object as arguments.");
                }
                let is_of_turn = turn.is_none_or(|turn| at > turn);
                is_signed |= !text("signature").is_empty();
                if is_of_turn && !is_signed {
                    return invalid("function_call: is missing a thought signature.");
                }
                open.push(id);
            }
            "function_result" => {
                let Some(call) = open.iter().position(|it| *it == text("call_id")) else {
                    return invalid("call_id: no such function call.");
                };
                open.remove(call);
                is_signed = false;
                if !step["result"].is_string() {
                    check_content(at, &step["result"])?;
                }
            }
            kind => return Err(format!("input[{at}].type: unknown value '{kind}'.")),
        }
    }
    match open.first() {
        None => Ok(()),
        Some(id) => Err(format!("Function call {id} has no function result.")),
    }
}

fn check_settings(settings: &Value) -> Result<(), String> {
    const LEVELS: [&str; 5] = ["minimal", "low", "medium", "high", "xhigh"];
    let level = &settings["thinking_level"];
    if !level.is_null() && !LEVELS.iter().any(|known| level == *known) {
        return Err(format!("generation_config.thinking_level: {level}"));
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), String> {
    let mut names = HashSet::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_sound = tool["type"] == "function" && tool["parameters"]["type"] == "object";
        if !is_sound || !is_name(name, LONGEST) || !names.insert(name) {
            return Err(format!("tools[{at}]: is not valid."));
        }
    }
    Ok(())
}

fn check_content(at: usize, content: &Value) -> Result<(), String> {
    let parts = content.as_array().filter(|parts| !parts.is_empty());
    let is_sound = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].is_string(),
        Some("image") => part["data"].is_string() && part["mime_type"].is_string(),
        _ => false,
    };
    match parts {
        Some(parts) if parts.iter().all(is_sound) => Ok(()),
        _ => Err(format!("input[{at}]: content is not valid.")),
    }
}
