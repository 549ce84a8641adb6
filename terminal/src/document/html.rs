//! A session as a self-contained HTML page: no network, no script, no other file.

use std::collections::HashMap;

use ah_conversation::{
    ContentBlock, Message, Origin, ResultBlock, Role, ToolResult, ToolUse, ToolUseId, is_note,
};
use ah_render::html::{STYLE, code, escape, lines, markdown};
use ah_render::tool;

use crate::line::utc;
use crate::message::{Keys, role};

/// Tool results by the ids of their calls.
type Results<'a> = HashMap<&'a ToolUseId, &'a ToolResult>;

/// Head of every page, with a policy that forbids fetching and scripts.
const HEAD: &str = include_str!("head.html");
/// Width of terminal-like blocks, in columns.
const WIDTH: usize = 120;
/// Length of a call in its summary line, in characters.
const KEY_WIDTH: usize = 120;

/// Returns the page. The messages must have been redacted.
pub fn page(name: &str, messages: &[Message], keys: &Keys) -> String {
    let results: Results<'_> = messages
        .iter()
        .flat_map(Message::tool_results)
        .map(|result| (&result.tool_use_id, result))
        .collect();
    let sections: String = messages
        .iter()
        .map(|message| section(message, &results, keys))
        .collect();
    let title = escape(name);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{HEAD}\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{sections}\
         <footer>Written by ah {}.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn section(message: &Message, results: &Results<'_>, keys: &Keys) -> String {
    let blocks = message
        .content
        .iter()
        .map(|block| shown(block, results, keys));
    let blocks: String = blocks.collect();
    // Results are shown below their calls.
    if blocks.is_empty() && message.origin == Origin::Results {
        return String::new();
    }
    let model = message
        .response
        .as_ref()
        .map_or_else(String::new, |response| {
            format!(" · {}", escape(&response.model))
        });
    let (class, author) = author(message);
    format!(
        "<section class=\"{class}\" id=\"m{seq}\">\n<div class=\"meta\">@{seq} {}{model} · <time>{}</time></div>\n{blocks}</section>\n",
        author,
        utc(message.created_at),
        seq = message.seq,
    )
}

/// Returns the class of a message and who wrote it: what the engine tells the model looks like nobody's prompt.
fn author(message: &Message) -> (&'static str, &'static str) {
    match (&message.role, &message.origin) {
        (Role::Assistant, _) => ("assistant", role(Role::Assistant)),
        (
            Role::User,
            Origin::Prompt | Origin::Steering | Origin::FollowUp | Origin::Results | Origin::Model,
        ) => ("user", role(Role::User)),
        (
            Role::User,
            Origin::Nudge
            | Origin::Continuation
            | Origin::Reminder
            | Origin::Task
            | Origin::Update(_)
            | Origin::Summary { .. },
        ) => ("note", "ah"),
    }
}

fn shown(block: &ContentBlock, results: &Results<'_>, keys: &Keys) -> String {
    match block {
        ContentBlock::Text { text } if is_note(text) => format!(
            "<details class=\"note\"><summary class=\"dim\">note to the model</summary>\n{}</details>\n",
            markdown(text)
        ),
        ContentBlock::Text { text } => markdown(text),
        ContentBlock::Thinking { thinking, .. } => {
            format!(
                "<details><summary class=\"dim\">thinking</summary>\n{}</details>\n",
                markdown(thinking)
            )
        }
        ContentBlock::RedactedThinking { .. } => {
            "<p class=\"dim\">redacted thinking</p>\n".to_owned()
        }
        ContentBlock::Image(image) => picture(&image.media_type, &image.data),
        ContentBlock::ToolUse(call) => called(call, results.get(&call.id).copied(), keys),
        ContentBlock::ToolResult(_) => String::new(),
        ContentBlock::Other { raw } => {
            format!("<pre>{}</pre>\n", code("json", &format!("{raw:#}")))
        }
    }
}

/// Returns a call with its result.
fn called(call: &ToolUse, result: Option<&ToolResult>, keys: &Keys) -> String {
    let key = escape(&keys.show(call, KEY_WIDTH));
    let input = code("json", &format!("{:#}", call.input.to_value()));
    let Some(result) = result else {
        return format!("<details><summary>… {key}</summary>\n<pre>{input}</pre></details>\n");
    };
    let (sign, class) = if result.is_error {
        ("✗", "failed")
    } else {
        ("✓", "done")
    };
    let time = tool::duration(result.duration_ms);
    let changes = result
        .details
        .as_ref()
        .filter(|_| !result.is_error)
        .and_then(|details| tool::changes(details, WIDTH));
    let body = match changes {
        Some(rows) => format!("<pre>{}</pre>\n", lines(&rows)),
        None => format!("<pre>{input}</pre>\n{}", said(&result.content)),
    };
    format!(
        "<details><summary><span class=\"{class}\">{sign}</span> {key} <span class=\"dim\">({time})</span></summary>\n{body}</details>\n"
    )
}

fn said(content: &[ResultBlock]) -> String {
    let block = |block: &ResultBlock| match block {
        ResultBlock::Text { text } => format!("<pre>{}</pre>\n", escape(text)),
        ResultBlock::Image(image) => picture(&image.media_type, &image.data),
        // The text before it says what it is.
        ResultBlock::Audio(_) => String::new(),
    };
    content.iter().map(block).collect()
}

/// Returns a picture embedded in the page.
fn picture(kind: &str, data: &str) -> String {
    let is_known = matches!(
        kind,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    );
    let is_base64 = data
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    if is_known && is_base64 {
        format!("<p><img alt=\"a picture\" src=\"data:{kind};base64,{data}\"></p>\n")
    } else {
        format!("<p class=\"dim\">a picture: {}</p>\n", escape(kind))
    }
}
