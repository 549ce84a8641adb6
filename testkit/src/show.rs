//! Events, messages and requests as short lines for snapshots, without times, ids, durations and sizes, which differ from
//! run to run.

use ah_conversation::{ContentBlock, EventKind, LoopAction, Message, Request, Role, ToolResult};

/// Formats events, one per line.
pub fn events<'a>(events: impl IntoIterator<Item = &'a EventKind>) -> String {
    lines(events.into_iter().map(event))
}

/// Formats messages, one per line.
pub fn messages<'a, M: AsRef<Message> + 'a>(messages: impl IntoIterator<Item = &'a M>) -> String {
    lines(messages.into_iter().map(|found| message(found.as_ref())))
}

/// Formats a request: its tools, then the messages.
pub fn request(request: &Request) -> String {
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    format!("tools: {tools}\n{}", messages(request.messages.iter()))
}

/// Formats an event in a line.
pub fn event(kind: &EventKind) -> String {
    let said = match kind {
        EventKind::AgentStart { prompt, .. } => prompt.clone(),
        EventKind::AgentEnd {
            stop_reason, error, ..
        } => match error {
            Some(error) => format!("{stop_reason}: {error}"),
            None => stop_reason.to_string(),
        },
        EventKind::ToolCallStart { tool_name, .. } => tool_name.clone(),
        EventKind::ToolCallEnd {
            tool_name,
            is_error,
            ..
        } => format!("{tool_name} {}", outcome(*is_error)),
        EventKind::TextDelta { text } => text.clone(),
        EventKind::Error { error } => error.clone(),
        EventKind::Retry {
            attempt,
            status,
            error,
            ..
        } => format!("{attempt} {status} {error}"),
        EventKind::StateChange {
            from_state,
            to_state,
        } => format!("{from_state} {to_state}"),
        EventKind::SteeringReceived { content, .. }
        | EventKind::FollowupReceived { content, .. } => content.clone(),
        EventKind::LoopDetected {
            consecutive_count,
            action,
            ..
        } => {
            let action = match action {
                LoopAction::Warn => "warn",
                LoopAction::Break => "break",
            };
            format!("{consecutive_count} {action}")
        }
        EventKind::CompactionTriggered {
            input_tokens,
            context_limit,
        } => format!("{input_tokens}/{context_limit}"),
        EventKind::CacheMissed {
            expected_tokens,
            read_tokens,
            ..
        } => format!("cache {read_tokens} of {expected_tokens}"),
        EventKind::Fallback {
            from_model,
            to_model,
            ..
        } => format!("{from_model} {to_model}"),
        EventKind::BudgetExceeded { max_tokens, .. } => max_tokens.to_string(),
        EventKind::PrefixBroken { reason, .. } => reason.as_str().to_owned(),
        _ => String::new(),
    };
    format!("{} {said}", kind.name()).trim_end().to_owned()
}

/// Formats a message in a line: the role, then each block.
pub fn message(message: &Message) -> String {
    let speaker = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let blocks: Vec<_> = message.content.iter().map(block).collect();
    let stop = message
        .stop_reason()
        .map(|reason| format!(" ({reason})", reason = reason.as_str()));
    format!(
        "{speaker}: {}{}",
        blocks.join(" "),
        stop.unwrap_or_default()
    )
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Thinking { thinking, .. } => format!("[thinking {thinking}]"),
        ContentBlock::RedactedThinking { .. } => "[redacted_thinking]".to_owned(),
        ContentBlock::Image(image) => format!("[image {}]", image.media_type),
        ContentBlock::ToolUse(call) => {
            format!("[tool_use {} {}]", call.name, call.input.to_value())
        }
        ContentBlock::ToolResult(result) => tool_result(result),
        ContentBlock::Other { raw } => format!("[other {raw}]"),
    }
}

fn tool_result(result: &ToolResult) -> String {
    format!(
        "[tool_result {} {}: {}]",
        result.tool_name,
        outcome(result.is_error),
        result.text()
    )
}

fn outcome(is_error: bool) -> &'static str {
    if is_error { "error" } else { "ok" }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}
