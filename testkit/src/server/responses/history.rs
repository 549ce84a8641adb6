//! Validation of requests to the Responses API, with the vendor's error texts. Pure: takes a body, returns the first error.
//!
//! Every request carries the whole conversation, once what the server holds is put before it. Unknown fields are accepted.

use std::collections::HashSet;

use serde_json::Value;

use super::super::chat::history::is_picture;
use super::super::json::{is_name, is_object, list};

/// Upper limits of the length of a call's id and of a tool's name.
const LONGEST: usize = 64;

/// Returns the first error in `body`, with the vendor's text.
pub fn check(body: &Value) -> Result<(), String> {
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("Missing required parameter: 'model'.".to_owned());
    }
    if body["store"] != false || !body["previous_response_id"].is_null() {
        return Err("this server keeps nothing: say `store: false`".to_owned());
    }
    let input = list(body, "input");
    if input.is_empty() {
        return Err("Missing required parameter: 'input'.".to_owned());
    }
    check_tools(body)?;
    let mut calls = Calls::default();
    for (number, item) in input.iter().enumerate() {
        let place = format!("input[{number}]");
        match kind(item) {
            "function_call" => calls.open(&place, item)?,
            "function_call_output" => calls.close(&place, item)?,
            "reasoning" => check_reasoning(item, input.get(number + 1))?,
            "assistant" => check_content(&place, &item["content"], &["output_text", "refusal"])?,
            "additional_tools" => check_tools(item)?,
            "configuration_update" => {}
            "user" | "system" | "developer" => {
                calls.all_answered()?;
                check_content(&place, &item["content"], &["input_text", "input_image"])?;
            }
            kind => return Err(format!("Invalid value: '{kind}' in '{place}.type'.")),
        }
    }
    calls.all_answered()
}

/// Returns the role of an item, or its type if it has none.
pub fn kind(item: &Value) -> &str {
    match item["type"].as_str() {
        None | Some("message") => item["role"].as_str().unwrap_or_default(),
        Some(kind) => kind,
    }
}

/// Calls so far.
#[derive(Default)]
struct Calls<'a> {
    seen: HashSet<&'a str>,
    open: Vec<&'a str>,
}

impl<'a> Calls<'a> {
    fn open(&mut self, place: &str, item: &'a Value) -> Result<(), String> {
        let id = item["call_id"].as_str().unwrap_or_default();
        let name = item["name"].as_str().unwrap_or_default();
        if id.is_empty() || id.len() > LONGEST {
            return Err(format!(
                "Invalid '{place}.call_id': expected a string with length 1 to {LONGEST}."
            ));
        }
        if !is_name(name, LONGEST) {
            return Err(pattern(&format!("{place}.name")));
        }
        if !item["arguments"].as_str().is_some_and(is_object) {
            return Err(format!(
                "Invalid '{place}.arguments': expected a string that holds a JSON object."
            ));
        }
        if !self.seen.insert(id) {
            return Err(format!("Duplicate function call with call_id {id}."));
        }
        self.open.push(id);
        Ok(())
    }

    fn close(&mut self, place: &str, item: &Value) -> Result<(), String> {
        let id = item["call_id"].as_str().unwrap_or_default();
        let Some(at) = self.open.iter().position(|call| *call == id) else {
            return Err(format!(
                "No tool call found for function call output with call_id {id}."
            ));
        };
        self.open.remove(at);
        let output = &item["output"];
        check_content(place, output, &["input_text", "input_image"])
    }

    fn all_answered(&self) -> Result<(), String> {
        match self.open.first() {
            None => Ok(()),
            Some(id) => Err(format!("No tool output found for function call {id}.")),
        }
    }
}

fn check_reasoning(item: &Value, next: Option<&Value>) -> Result<(), String> {
    let id = item["id"].as_str().unwrap_or_default();
    if !item["summary"].is_array() || item["encrypted_content"].as_str().is_none() {
        return Err(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    }
    match next.map(kind) {
        Some("assistant" | "function_call" | "reasoning") => Ok(()),
        _ => Err(format!(
            "Item '{id}' of type 'reasoning' was provided without its required following item."
        )),
    }
}

fn check_tools(body: &Value) -> Result<(), String> {
    let mut names = HashSet::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if tool["type"] != "function" {
            return Err(format!("Missing required parameter: 'tools[{at}].type'."));
        }
        if !is_name(name, LONGEST) {
            return Err(pattern(&format!("tools[{at}].name")));
        }
        if tool["parameters"]["type"] != "object" {
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

fn check_content(place: &str, content: &Value, kinds: &[&str]) -> Result<(), String> {
    let parts = match content {
        Value::String(_) => return Ok(()),
        Value::Array(parts) if !parts.is_empty() => parts,
        _ => {
            return Err(format!(
                "Invalid type for '{place}': expected a string or a list of parts."
            ));
        }
    };
    for (at, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        let is_sound = match kind {
            "input_image" => part["image_url"].as_str().is_some_and(is_picture),
            "refusal" => part["refusal"].is_string(),
            _ => part["text"].is_string(),
        };
        if !kinds.contains(&kind) || !is_sound {
            return Err(format!(
                "Invalid value: '{place}.content[{at}]' of type '{kind}'."
            ));
        }
    }
    Ok(())
}

fn pattern(place: &str) -> String {
    format!(
        "Invalid '{place}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    )
}
