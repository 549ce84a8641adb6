//! The tools: their definitions, and their arguments. Pure.

use std::sync::Arc;

use ah_desk::{Start, Which};
use rmcp::ErrorData;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

pub(crate) const RUN: &str = "run";
pub(crate) const ANSWER: &str = "answer";
pub(crate) const STEER: &str = "steer";
pub(crate) const STOP: &str = "stop";

/// Told to every client.
pub(crate) const INSTRUCTIONS: &str = "\
`run` gives a coding agent a task in its working directory and returns its answer. The agent sees only the prompt, not your \
conversation. Pass the `session` of a result to continue that conversation. If a result has the status `waiting`, \
answer its questions with `answer`, which returns the next result. Sessions can be read as resources.";

/// Returns the definitions.
pub(crate) fn tools() -> Vec<Tool> {
    let session = json!({"type": "string", "description": "Id of the session, from a result"});
    let run = json!({
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "description": "The task"},
            "session": {"type": "string", "description": "Id of a session to continue; without it, a new one"},
            "model": {"type": "string", "description": "The model; without it, the one in the settings"},
        },
        "required": ["prompt"],
        "additionalProperties": false,
    });
    let answer = json!({
        "type": "object",
        "properties": {
            "session": session,
            "answers": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The answer to each question: the label of an option, several with commas between them, or \
                                other words",
            },
        },
        "required": ["session", "answers"],
        "additionalProperties": false,
    });
    let steer = json!({
        "type": "object",
        "properties": {
            "session": session,
            "message": {"type": "string", "minLength": 1, "description": "What the agent is told before its next step"},
        },
        "required": ["session", "message"],
        "additionalProperties": false,
    });
    let stop = json!({
        "type": "object",
        "properties": {"session": session},
        "required": ["session"],
        "additionalProperties": false,
    });
    vec![
        tool(
            RUN,
            "Run the agent",
            "Runs the agent with a prompt until it has answered, or asks something.",
            run,
        )
        .with_raw_output_schema(object(result_schema())),
        tool(
            ANSWER,
            "Answer the agent",
            "Answers the questions of a waiting run; returns its next result.",
            answer,
        )
        .with_raw_output_schema(object(result_schema())),
        tool(
            STEER,
            "Steer the agent",
            "Sends a message to a running session, which reads it before its next step.",
            steer,
        )
        .with_annotations(ToolAnnotations::new().destructive(false)),
        tool(
            STOP,
            "Stop the agent",
            "Ends a run; its session can be continued.",
            stop,
        )
        .with_annotations(ToolAnnotations::new().destructive(false).idempotent(true)),
    ]
}

/// Returns the schema of the result of a run.
fn result_schema() -> Value {
    let choice = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "options": {"type": "array", "items": {
                "type": "object",
                "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
                "required": ["label", "description"],
            }},
            "multiple": {"type": "boolean"},
        },
        "required": ["question", "options", "multiple"],
    });
    json!({
        "type": "object",
        "properties": {
            "session": {"type": "string"},
            "status": {"type": "string", "enum": ["completed", "failed", "stopped", "waiting"]},
            "answer": {"type": "string", "description": "The last answer of the agent, or why it failed"},
            "questions": {"type": "array", "items": choice},
            "turns": {"type": "integer"},
            "costUsd": {"type": "number"},
        },
        "required": ["session", "status"],
    })
}

fn tool(name: &'static str, title: &str, about: &'static str, input: Value) -> Tool {
    Tool::new(name, about, object(input)).with_title(title)
}

fn object(value: Value) -> Arc<JsonObject> {
    Arc::new(match value {
        Value::Object(object) => object,
        _ => Map::new(),
    })
}

/// Returns the session and the prompt that `arguments` want.
///
/// # Errors
///
/// If an argument is missing or of another type.
pub(crate) fn wanted(arguments: &JsonObject) -> Result<(Start, String), ErrorData> {
    let optional = |name: &str| match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(arguments, name).map(Some),
    };
    let prompt = text(arguments, "prompt")?;
    let start = Start {
        which: match optional("session")? {
            Some(session) => Which::Resume(session, None),
            None => Which::New,
        },
        model: optional("model")?,
        ..Start::default()
    };
    Ok((start, prompt))
}

/// Returns the argument `name`, a text that is not blank.
///
/// # Errors
///
/// If it is missing, or anything else.
pub(crate) fn text(arguments: &JsonObject, name: &str) -> Result<String, ErrorData> {
    let text = arguments.get(name).and_then(Value::as_str);
    match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => Ok(text.to_owned()),
        None => Err(ErrorData::invalid_params(
            format!("`{name}` must be a text that is not empty"),
            None,
        )),
    }
}
