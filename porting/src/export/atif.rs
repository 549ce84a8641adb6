//! The Agent Trajectory Interchange Format of the Harbor project, version 1.8: one JSON document with a step for each
//! message, in which the results of an answer's calls belong to the answer.

use ah_conversation::{
    ContentBlock, Image, Message, Origin, Response, ResultBlock, Role, Usage, text_of,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The version that documents name.
const VERSION: &str = "ATIF-v1.8";

/// Returns the messages as a trajectory. `session` is its id.
pub fn atif(messages: &[Message], session: &str) -> Value {
    let mut steps: Vec<Value> = Vec::new();
    for message in messages {
        match (message.role, &message.origin) {
            (Role::Assistant, _) => steps.push(answer(message)),
            (Role::User, Origin::Results) => results(message, &mut steps),
            (Role::User, origin) => {
                let source = match origin {
                    Origin::Prompt | Origin::Steering | Origin::FollowUp => "user",
                    _ => "system",
                };
                steps.push(step(message, source, &said(&message.content)));
            }
        }
    }
    for (at, step) in steps.iter_mut().enumerate() {
        step["step_id"] = json!(at + 1);
    }
    let responses = || {
        messages
            .iter()
            .filter_map(|message| message.response.as_ref())
    };
    let mut agent = json!({"name": "ah", "version": env!("CARGO_PKG_VERSION")});
    if let Some(last) = responses().next_back() {
        agent["model_name"] = json!(last.model);
    }
    let sum = |count: fn(&Usage) -> u64| {
        responses()
            .map(|response| count(&response.usage))
            .sum::<u64>()
    };
    let mut total = json!({
        "total_prompt_tokens": sum(Usage::effective_input),
        "total_completion_tokens": sum(|usage| usage.output_tokens),
        "total_cached_tokens": sum(|usage| usage.cache_read_input_tokens),
        "total_steps": steps.len(),
    });
    let costs: Vec<_> = responses().filter_map(|response| response.cost).collect();
    if !costs.is_empty() {
        total["total_cost_usd"] = json!(costs.iter().map(|cost| cost.usd()).sum::<f64>());
    }
    json!({
        "schema_version": VERSION,
        "session_id": session,
        "trajectory_id": session,
        "agent": agent,
        "steps": steps,
        "final_metrics": total,
    })
}

fn step(message: &Message, source: &str, said: &Value) -> Value {
    let at = Timestamp::from_millisecond(message.created_at.0).unwrap_or_default();
    json!({
        "step_id": 0,
        "timestamp": at.to_string(),
        "source": source,
        "message": said,
    })
}

fn answer(message: &Message) -> Value {
    let mut step = step(message, "agent", &said(&message.content));
    let mut thoughts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Thinking { thinking, .. } => thoughts.push(thinking.as_str()),
            ContentBlock::ToolUse(call) => {
                let arguments = match call.input.to_value() {
                    Value::Object(arguments) => arguments,
                    other => Map::from_iter([("raw".to_owned(), other)]),
                };
                calls.push(json!({
                    "tool_call_id": call.id,
                    "function_name": call.name,
                    "arguments": arguments,
                }));
            }
            _ => {}
        }
    }
    if !thoughts.is_empty() {
        step["reasoning_content"] = json!(thoughts.join("\n\n"));
    }
    if !calls.is_empty() {
        step["tool_calls"] = calls.into();
    }
    if let Some(response) = &message.response {
        step["model_name"] = json!(response.model);
        step["metrics"] = metrics(response);
    }
    step
}

fn metrics(response: &Response) -> Value {
    let usage = &response.usage;
    let mut metrics = json!({
        "prompt_tokens": usage.effective_input(),
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_input_tokens,
    });
    if let Some(cost) = response.cost {
        metrics["cost_usd"] = json!(cost.usd());
    }
    if usage.cache_creation_input_tokens > 0 {
        metrics["extra"] =
            json!({"cache_creation_input_tokens": usage.cache_creation_input_tokens});
    }
    metrics
}

/// Adds the results of calls to the answer before; texts of hooks behind them are a step of their own.
fn results(message: &Message, steps: &mut Vec<Value>) {
    let mut found = Vec::new();
    let mut rest = Vec::new();
    for block in &message.content {
        let ContentBlock::ToolResult(result) = block else {
            rest.push(block.clone());
            continue;
        };
        let mut shown = json!({
            "source_call_id": result.tool_use_id,
            "content": output(&result.content),
        });
        if result.is_error {
            shown["extra"] = json!({"is_error": true});
        }
        found.push(shown);
    }
    match steps
        .last_mut()
        .filter(|step| step["tool_calls"].is_array())
    {
        Some(step) => step["observation"] = json!({"results": found}),
        None => rest.extend(message.content.iter().cloned()),
    }
    if !rest.is_empty() {
        steps.push(step(message, "system", &said(&rest)));
    }
}

/// Returns the text of a message, or its parts if there are pictures.
fn said(content: &[ContentBlock]) -> Value {
    if !content
        .iter()
        .any(|block| matches!(block, ContentBlock::Image(_)))
    {
        return json!(text_of(content));
    }
    let parts = content.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => Some(picture(image)),
        block => block
            .as_text()
            .map(|text| json!({"type": "text", "text": text})),
    });
    parts.collect()
}

fn output(content: &[ResultBlock]) -> Value {
    if !content
        .iter()
        .any(|block| matches!(block, ResultBlock::Image(_)))
    {
        return json!(ResultBlock::text_of(content));
    }
    let parts = content.iter().filter_map(|block| match block {
        ResultBlock::Image(image) => Some(picture(image)),
        ResultBlock::Text { text } => Some(json!({"type": "text", "text": text})),
        // The format has no sound.
        ResultBlock::Audio(_) => None,
    });
    parts.collect()
}

/// Returns a picture, which is in the document itself.
fn picture(image: &Image) -> Value {
    let path = format!("data:{};base64,{}", image.media_type, image.data);
    json!({"type": "image", "source": {"media_type": image.media_type, "path": path}})
}
