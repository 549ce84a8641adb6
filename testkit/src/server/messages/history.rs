//! Validation of requests to the Messages API, with the vendor's error texts. Pure: takes a body, returns the first error.
//!
//! The rules are those that a stored conversation can violate for good, so that a session which works in tests against
//! this server does not become unusable with the real one. Unknown fields are accepted.

use std::collections::HashSet;

use serde_json::Value;

use super::super::json::{is_name, list};
use super::binding;

const MOST_BREAKPOINTS: usize = 4;
const LEAST_THINKING: u64 = 1_024;
/// Beginnings of the names of models that take system messages within the conversation.
const WITH_SYSTEM: [&str; 9] = [
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-fable-5",
    "claude-mythos-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-6",
    "claude-sonnet-6",
    "claude-haiku-6",
];
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Returns the first error in `body`, with the vendor's text.
pub fn check(body: &Value) -> Result<(), String> {
    if !body.is_object() {
        return Err("Input should be a valid dictionary".to_owned());
    }
    for field in ["model", "max_tokens", "messages"] {
        if body.get(field).is_none_or(Value::is_null) {
            return Err(format!("{field}: Field required"));
        }
    }
    let max_tokens = body["max_tokens"].as_u64().filter(|tokens| *tokens > 0);
    let max_tokens = max_tokens.ok_or("max_tokens: Input should be greater than or equal to 1")?;
    let thinks = check_thinking(body, max_tokens)?;
    check_system(body)?;
    check_tools(body)?;
    check_breakpoints(body)?;
    let messages = merged(body)?;
    for (at, message) in messages.iter().enumerate() {
        check_content(message, at + 1 == messages.len())?;
    }
    check_pairs(&messages)?;
    if body.get("tools").is_none() && messages.iter().any(Spoken::has_calls) {
        return Err(
            "Requests which include `tool_use` or `tool_result` blocks must define tools"
                .to_owned(),
        );
    }
    if thinks {
        check_last_thought(&messages)?;
    }
    binding::check(body)
}

/// Consecutive messages of one role, which the server treats as one.
struct Spoken<'a> {
    /// Index of the first message.
    number: usize,
    is_user: bool,
    content: Vec<Block<'a>>,
}

/// A block, or a plain text in the place of blocks.
enum Block<'a> {
    Words(&'a str),
    Typed(&'a str, &'a Value),
}

impl<'a> Block<'a> {
    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Words(text) => Some(text),
            Self::Typed("text", block) => block["text"].as_str(),
            Self::Typed(..) => None,
        }
    }

    /// Returns the id of the call that a block of the type `kind` refers to.
    fn id(&self, kind: &str, field: &str) -> Option<&'a str> {
        match self {
            Self::Typed(of, block) if *of == kind => block[field].as_str(),
            _ => None,
        }
    }
}

impl<'a> Spoken<'a> {
    fn calls(&self) -> Vec<&'a str> {
        let ids = self.content.iter();
        ids.filter_map(|block| block.id("tool_use", "id")).collect()
    }

    fn results(&self) -> Vec<&'a str> {
        let ids = self.content.iter();
        ids.filter_map(|block| block.id("tool_result", "tool_use_id"))
            .collect()
    }

    /// Whether it begins with a summary that the server wrote, as its signature shows.
    fn is_summary(&self) -> bool {
        let begins = |block: &Block| match block {
            Block::Typed("compaction", block) => block["signature"].is_string(),
            _ => false,
        };
        self.content.first().is_some_and(begins)
    }

    fn has_calls(&self) -> bool {
        !self.calls().is_empty() || !self.results().is_empty()
    }
}

fn merged(body: &Value) -> Result<Vec<Spoken<'_>>, String> {
    let list = body["messages"]
        .as_array()
        .ok_or("messages: Input should be a valid list")?;
    let mut messages: Vec<Spoken> = Vec::new();
    for (number, message) in list.iter().enumerate() {
        let is_user = match message["role"].as_str() {
            Some("user") => true,
            Some("assistant") => false,
            Some("system") if takes_system(body) => {
                check_system_message(list, number)?;
                continue;
            }
            Some(role) => {
                return Err(format!(
                    "messages: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\"."
                ));
            }
            None => return Err(format!("messages.{number}.role: Field required")),
        };
        let content = blocks(number, &message["content"])?;
        let is_last = number + 1 == list.len();
        if content.is_empty() && (is_user || !is_last) {
            return Err(format!(
                "messages.{number}: all messages must have non-empty content except for the optional final assistant message"
            ));
        }
        match messages.last_mut() {
            Some(last) if last.is_user == is_user => last.content.extend(content),
            _ => messages.push(Spoken {
                number,
                is_user,
                content,
            }),
        }
    }
    match messages.first() {
        None => Err("messages: at least one message is required".to_owned()),
        Some(first) if !first.is_user && !first.is_summary() => {
            Err("messages: first message must use the \"user\" role".to_owned())
        }
        Some(_) => Ok(messages),
    }
}

fn takes_system(body: &Value) -> bool {
    let model = body["model"].as_str().unwrap_or_default();
    WITH_SYSTEM.iter().any(|start| model.starts_with(start))
}

/// Checks place and content of a system message: behind one of the user, and before an answer or at the end.
fn check_system_message(messages: &[Value], number: usize) -> Result<(), String> {
    let role = |at: usize| {
        messages
            .get(at)
            .and_then(|message| message["role"].as_str())
    };
    let follows_user = number > 0 && role(number - 1) == Some("user");
    let precedes_answer = role(number + 1).is_none_or(|role| role == "assistant");
    if !follows_user || !precedes_answer {
        return Err(format!(
            "messages.{number}: a `system` message must follow a `user` message and precede an `assistant` message"
        ));
    }
    for block in blocks(number, &messages[number]["content"])? {
        match block {
            Block::Words(text) => check_words("messages", text)?,
            Block::Typed("text", block) => {
                check_words("messages", block["text"].as_str().unwrap_or_default())?;
            }
            Block::Typed("tool_addition", block) => {
                let definition = &block["tool"]["definition"];
                check_tools(&serde_json::json!({"tools": [definition]}))?;
            }
            Block::Typed(kind, _) => {
                return Err(format!(
                    "messages.{number}: `{kind}` blocks cannot be in `system` messages"
                ));
            }
        }
    }
    Ok(())
}

fn blocks(number: usize, content: &Value) -> Result<Vec<Block<'_>>, String> {
    match content {
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Block::Words(text)]),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(at, block)| match block["type"].as_str() {
                Some(kind) => Ok(Block::Typed(kind, block)),
                None => Err(format!(
                    "messages.{number}.content.{at}.type: Field required"
                )),
            })
            .collect(),
        Value::Null => Err(format!("messages.{number}.content: Field required")),
        _ => Err(format!(
            "messages.{number}.content: Input should be a valid string or list"
        )),
    }
}

fn check_content(message: &Spoken<'_>, is_last: bool) -> Result<(), String> {
    let number = message.number;
    for (at, block) in message.content.iter().enumerate() {
        let place = format!("messages.{number}.content.{at}");
        match block {
            Block::Words(text) => check_words("messages", text)?,
            Block::Typed(kind, block) => check_block(&place, kind, block, message.is_user)?,
        }
    }
    let end = message.content.last().and_then(Block::text);
    if is_last && !message.is_user && end.is_some_and(|text| text.ends_with(char::is_whitespace)) {
        return Err(
            "messages: final assistant content cannot end with trailing whitespace".to_owned(),
        );
    }
    Ok(())
}

fn check_block(place: &str, kind: &str, block: &Value, is_user: bool) -> Result<(), String> {
    let only_of = |role: &str| {
        Err(format!(
            "{place}: `{kind}` blocks can only be in `{role}` messages"
        ))
    };
    match kind {
        "text" => match block["text"].as_str() {
            Some(text) => check_words("messages", text),
            None => Err(format!("{place}.text.text: Field required")),
        },
        "image" => check_picture(&format!("{place}.image"), block),
        "tool_result" if !is_user => only_of("user"),
        "tool_use" | "thinking" | "redacted_thinking" if is_user => only_of("assistant"),
        "tool_use" => check_call(&format!("{place}.tool_use"), block),
        "tool_result" => check_result(&format!("{place}.tool_result"), block),
        "thinking" => match block["signature"].as_str() {
            _ if block["thinking"].as_str().is_none() => {
                Err(format!("{place}.thinking.thinking: Field required"))
            }
            None => Err(format!("{place}.thinking.signature: Field required")),
            Some("") => Err(format!("{place}: Invalid `signature` in `thinking` block")),
            Some(_) => Ok(()),
        },
        "redacted_thinking" if block["data"].as_str().is_none_or(str::is_empty) => {
            Err(format!("{place}.redacted_thinking.data: Field required"))
        }
        // Newer types come from the model and are sent back unchanged.
        _ if is_user => Err(format!(
            "{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: 'image', 'text', 'tool_result'"
        )),
        _ => Ok(()),
    }
}

fn check_words(place: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        Err(format!("{place}: text content blocks must be non-empty"))
    } else if text.trim().is_empty() {
        Err(format!(
            "{place}: text content blocks must contain non-whitespace text"
        ))
    } else {
        Ok(())
    }
}

fn check_picture(place: &str, block: &Value) -> Result<(), String> {
    let source = &block["source"];
    let kind = source["media_type"].as_str().unwrap_or_default();
    if source["type"] == "url" {
        Ok(())
    } else if !PICTURES.contains(&kind) {
        Err(format!(
            "{place}.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        ))
    } else if source["data"].as_str().is_none_or(str::is_empty) {
        Err(format!("{place}.source.base64.data: Field required"))
    } else {
        Ok(())
    }
}

fn check_call(place: &str, block: &Value) -> Result<(), String> {
    if !block["id"]
        .as_str()
        .is_some_and(|id| is_name(id, usize::MAX))
    {
        return Err(format!(
            "{place}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        ));
    }
    if !block["name"]
        .as_str()
        .is_some_and(|name| is_name(name, 200))
    {
        return Err(format!(
            "{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
        ));
    }
    if !block["input"].is_object() {
        return Err(format!("{place}.input: Input should be a valid dictionary"));
    }
    Ok(())
}

fn check_result(place: &str, block: &Value) -> Result<(), String> {
    if !block["tool_use_id"]
        .as_str()
        .is_some_and(|id| is_name(id, usize::MAX))
    {
        return Err(format!(
            "{place}.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        ));
    }
    let pieces = list(block, "content");
    for (at, piece) in pieces.iter().enumerate() {
        let place = format!("{place}.content.{at}");
        match piece["type"].as_str() {
            Some("text") if piece["text"].as_str().is_none_or(str::is_empty) => {
                return Err("messages: text content blocks must be non-empty".to_owned());
            }
            Some("text") => {}
            Some("image") => check_picture(&format!("{place}.image"), piece)?,
            _ => {
                return Err(format!(
                    "{place}: Input tag does not match any of the expected tags: 'image', 'text'"
                ));
            }
        }
    }
    if block["is_error"] == true && pieces.iter().any(|piece| piece["type"] != "text") {
        return Err(format!(
            "{place}: all content must be type \"text\" if `is_error` is true"
        ));
    }
    Ok(())
}

/// Checks that every call has its result at the start of the next message, and every result its call.
fn check_pairs(messages: &[Spoken<'_>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let number = message.number;
        let calls = message.calls();
        if let Some(place) = calls.iter().position(|id| !seen.insert(*id)) {
            return Err(format!(
                "messages.{number}.content.{place}: `tool_use` ids must be unique"
            ));
        }
        let asked = match at.checked_sub(1) {
            Some(before) => messages[before].calls(),
            None => Vec::new(),
        };
        check_results(message, &asked)?;
        let answered = messages
            .get(at + 1)
            .map(leading_results)
            .unwrap_or_default();
        let missing: Vec<_> = calls
            .into_iter()
            .filter(|id| !answered.contains(id))
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
                missing.join(", ")
            ));
        }
    }
    Ok(())
}

fn check_results(message: &Spoken<'_>, asked: &[&str]) -> Result<(), String> {
    let number = message.number;
    let mut given = HashSet::new();
    for (at, block) in message.content.iter().enumerate() {
        let Some(id) = block.id("tool_result", "tool_use_id") else {
            continue;
        };
        if !asked.contains(&id) {
            return Err(format!(
                "messages.{number}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            ));
        }
        if !given.insert(id) {
            return Err(format!(
                "messages.{number}.content.{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            ));
        }
    }
    Ok(())
}

/// Returns the results at the start of the message; later ones do not count.
fn leading_results<'a>(message: &Spoken<'a>) -> Vec<&'a str> {
    message
        .content
        .iter()
        .map_while(|block| block.id("tool_result", "tool_use_id"))
        .collect()
}

/// Whether thinking is on.
fn check_thinking(body: &Value, max_tokens: u64) -> Result<bool, String> {
    let thinking = &body["thinking"];
    if thinking["type"] != "enabled" {
        return Ok(false);
    }
    let budget = thinking["budget_tokens"]
        .as_u64()
        .ok_or("thinking.enabled.budget_tokens: Field required")?;
    if budget < LEAST_THINKING {
        return Err(format!(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to {LEAST_THINKING}"
        ));
    }
    if max_tokens <= budget {
        return Err("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size".to_owned());
    }
    if body["temperature"]
        .as_f64()
        .is_some_and(|temperature| temperature != 1.0)
    {
        return Err("`temperature` may only be set to 1 when thinking is enabled.".to_owned());
    }
    Ok(true)
}

/// Checks that the last answer still begins with its thinking while the model waits for results.
fn check_last_thought(messages: &[Spoken<'_>]) -> Result<(), String> {
    let [.., answer, results] = messages else {
        return Ok(());
    };
    if answer.is_user || results.results().is_empty() {
        return Ok(());
    }
    match answer.content.first() {
        Some(Block::Typed("thinking" | "redacted_thinking", _)) | None => Ok(()),
        Some(block) => {
            let kind = match block {
                Block::Words(_) => "text",
                Block::Typed(kind, _) => kind,
            };
            Err(format!(
                "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks).",
                answer.number
            ))
        }
    }
}

fn check_system(body: &Value) -> Result<(), String> {
    match &body["system"] {
        Value::Array(blocks) => blocks.iter().try_for_each(|block| {
            check_words("system", block["text"].as_str().unwrap_or_default())
        }),
        Value::Null | Value::String(_) => Ok(()),
        _ => Err("system: Input should be a valid string or list".to_owned()),
    }
}

fn check_tools(body: &Value) -> Result<(), String> {
    let tools = list(body, "tools");
    let mut names = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_name(name, 128) {
            return Err(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            ));
        }
        if !tool["input_schema"].is_object() {
            return Err(format!("tools.{at}.custom.input_schema: Field required"));
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!(
                "tools.{at}.custom.input_schema.type: Input should be 'object'"
            ));
        }
        if !names.insert(name) {
            return Err("tools: Tool names must be unique.".to_owned());
        }
    }
    Ok(())
}

fn check_breakpoints(body: &Value) -> Result<(), String> {
    let count = ["system", "tools", "messages"]
        .iter()
        .map(|field| breakpoints(&body[field]))
        .sum::<usize>();
    if count > MOST_BREAKPOINTS {
        return Err(format!(
            "A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
        ));
    }
    Ok(())
}

/// Counts the blocks in `value` with a cache breakpoint. A tool's input may hold a field of that name.
fn breakpoints(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(breakpoints).sum(),
        Value::Object(fields) => {
            usize::from(fields.get("cache_control").is_some_and(Value::is_object))
                + fields.get("content").map_or(0, breakpoints)
        }
        _ => 0,
    }
}
