//! Validation of requests to chat completions, with the vendor's error texts. Pure: takes a body, returns the first error.
//!
//! Servers that speak this protocol differ in how strict they are; these are the rules of the strictest. Unknown
//! fields are accepted.

use std::collections::HashSet;

use serde_json::Value;

use super::super::json::{is_name, is_object, list};

/// Upper limits of the length of a call's id and of a tool's name.
const LONGEST_ID: usize = 40;
const LONGEST_NAME: usize = 64;

/// Returns the first error in `body`, with the vendor's text.
pub fn check(body: &Value) -> Result<(), String> {
    check_with(body, &["text"], &["text", "refusal"])
}

/// Returns the first error in `body` for a vendor that takes these kinds of parts in tool results and in answers.
pub fn check_with(body: &Value, of_results: &[&str], of_answers: &[&str]) -> Result<(), String> {
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("you must provide a model parameter".to_owned());
    }
    let messages = body["messages"].as_array();
    let messages = messages.filter(|messages| !messages.is_empty());
    let messages = messages.ok_or("Invalid 'messages': empty array.")?;
    check_tools(body)?;
    let mut open = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            close(number, message, &mut open, of_results)?;
            continue;
        }
        all_answered(&open)?;
        open = check_message(number, message, of_answers)?;
    }
    all_answered(&open)
}

fn check_tools(body: &Value) -> Result<(), String> {
    let tools = list(body, "tools");
    let mut names = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        if tool["type"] != "function" {
            return Err(format!("Missing required parameter: 'tools[{at}].type'."));
        }
        if !is_name(name, LONGEST_NAME) {
            return Err(pattern(&format!("tools[{at}].function.name")));
        }
        if function["parameters"]["type"] != "object" {
            return Err(format!(
                "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'"
            ));
        }
        if !names.insert(name) {
            return Err("Tool names must be unique.".to_owned());
        }
    }
    Ok(())
}

/// Checks a message of another role than `tool`; returns the calls in it.
fn check_message<'a>(
    number: usize,
    message: &'a Value,
    of_answers: &[&str],
) -> Result<Vec<&'a str>, String> {
    let place = format!("messages[{number}]");
    let calls = message["tool_calls"].as_array();
    match message["role"].as_str() {
        Some("system" | "developer" | "user") if calls.is_some() => {
            Err(format!("Unknown parameter: '{place}.tool_calls'."))
        }
        Some("system" | "developer") => check_content(&place, &message["content"], &["text"]),
        Some("user") => check_content(&place, &message["content"], &["text", "image_url"]),
        Some("assistant") if calls.is_some() && message["content"].is_null() => Ok(()),
        Some("assistant") => check_content(&place, &message["content"], of_answers),
        role => Err(format!(
            "Invalid value: '{}' in '{place}.role'. Supported values are: 'system', 'developer', 'user', 'assistant' and 'tool'.",
            role.unwrap_or_default()
        )),
    }?;
    let mut ids = Vec::new();
    for (at, call) in calls.into_iter().flatten().enumerate() {
        let id = check_call(&format!("{place}.tool_calls[{at}]"), call)?;
        if ids.contains(&id) {
            return Err(format!("Duplicate value for 'tool_call_id' of {id}"));
        }
        ids.push(id);
    }
    if calls.is_some() && ids.is_empty() {
        return Err(format!("Invalid '{place}.tool_calls': empty array."));
    }
    Ok(ids)
}

fn check_call<'a>(place: &str, call: &'a Value) -> Result<&'a str, String> {
    let id = call["id"].as_str().unwrap_or_default();
    let function = &call["function"];
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(format!(
            "Invalid '{place}.id': expected a string with length 1 to {LONGEST_ID}."
        ));
    }
    if call["type"] != "function" {
        return Err(format!("Missing required parameter: '{place}.type'."));
    }
    let name = function["name"].as_str();
    if !name.is_some_and(|name| is_name(name, LONGEST_NAME)) {
        return Err(pattern(&format!("{place}.function.name")));
    }
    // The vendor takes any text, but servers that translate it take no other.
    if !function["arguments"].as_str().is_some_and(is_object) {
        return Err(format!(
            "Invalid '{place}.function.arguments': expected a string that holds a JSON object."
        ));
    }
    Ok(id)
}

/// Removes the call that a result answers from the `open` ones.
fn close<'a>(
    number: usize,
    message: &'a Value,
    open: &mut Vec<&'a str>,
    kinds: &[&str],
) -> Result<(), String> {
    let id = message["tool_call_id"].as_str().unwrap_or_default();
    let Some(at) = open.iter().position(|call| *call == id) else {
        return Err(format!(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls': messages[{number}]"
        ));
    };
    open.remove(at);
    check_content(&format!("messages[{number}]"), &message["content"], kinds)
}

fn all_answered(open: &[&str]) -> Result<(), String> {
    if open.is_empty() {
        return Ok(());
    }
    Err(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
}

fn check_content(place: &str, content: &Value, kinds: &[&str]) -> Result<(), String> {
    let parts = match content {
        Value::String(_) => return Ok(()),
        Value::Array(parts) if !parts.is_empty() => parts,
        _ => {
            return Err(format!(
                "Invalid value for '{place}.content': expected a string or a list of parts."
            ));
        }
    };
    for (at, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        let is_sound = match kind {
            "image_url" => part["image_url"]["url"].as_str().is_some_and(is_picture),
            "thinking" => part["thinking"].is_array(),
            kind => part[kind].is_string(),
        };
        if !kinds.contains(&kind) || !is_sound {
            return Err(format!(
                "Invalid value: '{place}.content[{at}]' of type '{kind}'."
            ));
        }
    }
    Ok(())
}

/// Whether `url` is a data URL of an image or an HTTP URL.
pub fn is_picture(url: &str) -> bool {
    url.starts_with("https://") || (url.starts_with("data:image/") && url.contains(";base64,"))
}

fn pattern(place: &str) -> String {
    format!(
        "Invalid '{place}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    )
}
