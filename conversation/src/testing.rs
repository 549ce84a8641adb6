//! Transcripts written in one line, for tests.
//!
//! Words are messages: `user`, `steering`, `followup`, `nudge`, `continue`, `summary(2)` (which keeps the messages
//! from number 2 on), `results` (of all calls before it) or `results(t1)`, and the model's answers as
//! `assistant:tool_use(bash ls, read a)@90%`: stop reason, calls with one argument each, and the percentage of the
//! window of 1,000 tokens that the call took. Message number n has the id `mN`, the calls of an answer are `tN`
//! counted through the whole transcript.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use crate::{
    ContentBlock, Cost, Limits, Message, MessageId, Origin, Response, Role, Time, ToolResult,
    ToolUse, Transcript, Usage,
};

pub(crate) const WINDOW: u64 = 1_000;

pub(crate) fn limits() -> Limits {
    Limits {
        context_window: WINDOW,
        ..Limits::default()
    }
}

pub(crate) fn transcript(line: &str) -> Transcript {
    Transcript::new(messages(line), HashMap::new())
}

pub(crate) fn messages(line: &str) -> Vec<Arc<Message>> {
    let mut messages: Vec<Arc<Message>> = Vec::new();
    let mut calls = 0;
    for word in words(line) {
        let at = messages.len();
        let mut message = match word.strip_prefix("assistant:") {
            Some(answer) => assistant(answer, &mut calls),
            None => user(&word, messages.last()),
        };
        message.id = id(at);
        message.parent = at.checked_sub(1).map(id);
        message.seq = u32::try_from(at).expect("short transcripts");
        messages.push(Arc::new(message));
    }
    messages
}

/// Formats messages as one line, with the content of each user message.
pub(crate) fn shown(messages: &[Arc<Message>]) -> String {
    let show = |message: &Arc<Message>| {
        let blocks = message.content.iter().map(|block| match block {
            ContentBlock::Text { text } => text.clone(),
            ContentBlock::ToolUse(call) => format!("{}?", call.id),
            ContentBlock::ToolResult(result) => format!(
                "{}{}",
                result.tool_use_id,
                if result.is_error { "!" } else { "=" }
            ),
            _ => "…".to_owned(),
        });
        let speaker = if message.role == Role::User {
            "user"
        } else {
            "assistant"
        };
        format!("{speaker}({})", blocks.collect::<Vec<_>>().join(" "))
    };
    messages.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn id(at: usize) -> MessageId {
    format!("m{at}").into()
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0;
    for c in line.chars() {
        match c {
            ' ' if depth == 0 => words.push(String::new()),
            _ => {
                depth += i32::from(c == '(') - i32::from(c == ')');
                words.last_mut().expect("never empty").push(c);
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn argument(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once('(')?;
    Some(rest.split_once(')')?.0)
}

fn assistant(answer: &str, calls: &mut usize) -> Message {
    let stop_reason = answer.split(['(', '@']).next().expect("never empty");
    let mut content = Vec::new();
    if argument(answer) != Some("nothing") {
        content.push(ContentBlock::text("words"));
    }
    for call in argument(answer)
        .unwrap_or_default()
        .split(", ")
        .filter(|call| !matches!(*call, "" | "nothing"))
    {
        let (name, input) = call.split_once(' ').unwrap_or((call, ""));
        *calls += 1;
        let input = json!({"input": input}).into();
        content.push(ContentBlock::ToolUse(ToolUse {
            id: format!("t{calls}").into(),
            name: name.into(),
            input,
        }));
    }
    let percent: u64 = answer.split_once('@').map_or(0, |(_, percent)| {
        percent.trim_end_matches('%').parse().expect("a number")
    });
    let usage = Usage {
        input_tokens: WINDOW * percent / 100,
        ..Usage::default()
    };
    let response = Response {
        stop_reason: stop_reason.into(),
        usage,
        cost: Some(Cost(usage.total().into())),
        model: "m".into(),
        provider: "p".into(),
        latency_ms: 0,
        request_id: None,
        opaque: None,
    };
    Message {
        response: Some(response),
        ..message(Role::Assistant, Origin::Model, content)
    }
}

fn user(word: &str, before: Option<&Arc<Message>>) -> Message {
    let text = |origin| message(Role::User, origin, vec![ContentBlock::text(word)]);
    match word.split('(').next().expect("never empty") {
        "user" => text(Origin::Prompt),
        "steering" => text(Origin::Steering),
        "followup" => text(Origin::FollowUp),
        "nudge" => text(Origin::Nudge),
        "continue" => text(Origin::Continuation),
        "empty" => message(Role::User, Origin::Prompt, Vec::new()),
        "summary" => {
            let kept_from = argument(word).map(|at| format!("m{at}").into());
            text(Origin::summary(kept_from))
        }
        "results" => message(Role::User, Origin::Results, results(word, before)),
        _ => panic!("no such message: {word}"),
    }
}

fn results(word: &str, before: Option<&Arc<Message>>) -> Vec<ContentBlock> {
    let calls = before
        .into_iter()
        .flat_map(|message| message.tool_uses().map(|call| call.id.to_string()));
    let ids: Vec<String> = match argument(word) {
        Some(ids) => ids.split(", ").map(str::to_owned).collect(),
        None => calls.collect(),
    };
    let result = |id: String| {
        let call = ToolUse {
            id: id.into(),
            name: "tool".into(),
            input: json!({}).into(),
        };
        ContentBlock::ToolResult(ToolResult {
            is_error: false,
            ..ToolResult::error(&call, "")
        })
    };
    ids.into_iter().map(result).collect()
}

fn message(role: Role, origin: Origin, content: Vec<ContentBlock>) -> Message {
    Message {
        id: "".into(),
        parent: None,
        seq: 0,
        role,
        origin,
        created_at: Time::default(),
        content,
        response: None,
    }
}
