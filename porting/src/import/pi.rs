//! Sessions of pi: JSON lines, the first of which is the header. Entries form a tree by `parentId`; the last one is where
//! the session stands. In the first version of the format they are a list.

use std::collections::{HashMap, HashSet};

use ah_conversation::{
    ContentBlock, Image, MessageId, Origin, ResultBlock, StopReason, Time, Usage,
};
use serde_json::Value;

use super::session::{Imported, Program, time};
use ah_engine::sessions::transcript_reader::{Conversation, call, json_lines, response, text};

/// Reads a session.
pub fn read(content: &str) -> Imported {
    let mut conversation = Conversation::default();
    let lines = json_lines(content, &mut conversation);
    let header = lines
        .iter()
        .map(|(_, line)| line)
        .find(|line| line["type"] == "session");
    let field = |key: &str| header.and_then(|header| Some(header[key].as_str()?.to_owned()));
    let (id, cwd) = (field("id"), field("cwd"));
    let mut name = None;
    let mut ids: HashMap<String, MessageId> = HashMap::new();
    for (place, entry) in branch(&lines) {
        let at = time(&entry["timestamp"]);
        match entry["type"].as_str() {
            Some("message") => message(&mut conversation, place, &entry["message"], at),
            Some("compaction" | "branch_summary") => {
                let kept = entry["firstKeptEntryId"]
                    .as_str()
                    .and_then(|kept| ids.get(kept));
                let origin = match entry["type"].as_str() {
                    Some("compaction") => Origin::summary(kept.cloned()),
                    _ => Origin::Reminder,
                };
                let summary = entry["summary"].as_str().unwrap_or_default();
                conversation.user(origin, vec![ContentBlock::text(summary)], at);
            }
            Some("custom_message") => {
                let content = blocks(&mut conversation, place, &entry["content"]);
                conversation.user(Origin::Reminder, content, at);
            }
            Some("session_info") => name = entry["name"].as_str().map(str::to_owned),
            Some(
                "session"
                | "model_change"
                | "thinking_level_change"
                | "custom"
                | "label"
                | "active_tools_change"
                | "leaf",
            ) => {}
            _ => conversation.leave(place, "an entry of an unknown kind"),
        }
        if let (Some(entry), Some(message)) = (entry["id"].as_str(), conversation.last()) {
            ids.insert(entry.to_owned(), message);
        }
    }
    Imported::new(Program::Pi, id, cwd, name, conversation)
}

/// Returns the entries from the root to the last one. Behind an entry that is missing stand those before it in the file.
fn branch(lines: &[(String, Value)]) -> Vec<&(String, Value)> {
    let entries: Vec<_> = lines
        .iter()
        .filter(|(_, line)| line["type"] != "session")
        .collect();
    if entries.iter().all(|(_, entry)| entry["id"].is_null()) {
        return entries;
    }
    let mut known = HashMap::new();
    for (at, (_, entry)) in entries.iter().enumerate() {
        known.extend(entry["id"].as_str().map(|id| (id, at)));
    }
    let mut branch = Vec::new();
    let mut seen = HashSet::new();
    let mut at = entries.len().checked_sub(1);
    while let Some(index) = at.filter(|index| seen.insert(*index)) {
        branch.push(entries[index]);
        let parent = &entries[index].1["parentId"];
        at = match parent.as_str() {
            Some(parent) => known.get(parent).copied().or_else(|| index.checked_sub(1)),
            None => None,
        };
    }
    branch.reverse();
    branch
}

fn message(conversation: &mut Conversation, place: &str, message: &Value, at: Time) {
    let field = |key: &str| message[key].as_str().unwrap_or_default();
    match message["role"].as_str() {
        Some("user") => {
            let content = blocks(conversation, place, &message["content"]);
            conversation.user(Origin::Prompt, content, at);
        }
        Some("assistant") => {
            let content = blocks(conversation, place, &message["content"]);
            let count = |key: &str| message["usage"][key].as_u64().unwrap_or_default();
            let mut answer = response(field("provider"), field("model"));
            answer.usage = Usage {
                input_tokens: count("input"),
                output_tokens: count("output"),
                cache_read_input_tokens: count("cacheRead"),
                cache_creation_input_tokens: count("cacheWrite"),
                ..Usage::default()
            };
            answer.stop_reason = match field("stopReason") {
                "length" => StopReason::MaxTokens,
                "aborted" | "error" => StopReason::Interrupted,
                _ => StopReason::EndTurn,
            };
            conversation.answer(content, answer, at);
        }
        Some("toolResult") => {
            let content = results(&message["content"]);
            let is_error = message["isError"] == true;
            conversation.result(place, field("toolCallId"), content, is_error, at);
        }
        // A command that the user ran; with `!!` the model is not to see it.
        Some("bashExecution") if message["excludeFromContext"] != true => {
            let ran = format!("$ {}\n{}", field("command"), field("output"));
            conversation.user(Origin::Reminder, vec![ContentBlock::text(ran)], at);
        }
        Some("bashExecution") => {}
        Some("custom" | "hookMessage") => {
            let content = blocks(conversation, place, &message["content"]);
            conversation.user(Origin::Reminder, content, at);
        }
        Some("compactionSummary" | "branchSummary") => {
            let summary = ContentBlock::text(field("summary"));
            conversation.user(Origin::Reminder, vec![summary], at);
        }
        _ => conversation.leave(place, "a message of an unknown role"),
    }
}

fn blocks(conversation: &mut Conversation, place: &str, content: &Value) -> Vec<ContentBlock> {
    if let Some(text) = content.as_str() {
        return vec![ContentBlock::text(text)];
    }
    let mut blocks = Vec::new();
    for part in content.as_array().into_iter().flatten() {
        let field = |key: &str| part[key].as_str().unwrap_or_default();
        match part["type"].as_str() {
            Some("text") => blocks.push(ContentBlock::text(field("text"))),
            Some("thinking") => blocks.push(ContentBlock::Thinking {
                thinking: field("thinking").to_owned(),
                signature: part["thinkingSignature"]
                    .as_str()
                    .map(str::to_owned)
                    .filter(|seal| !seal.is_empty()),
            }),
            Some("toolCall") => {
                blocks.push(call(field("id"), field("name"), part["arguments"].clone()));
            }
            Some("image") => blocks.push(ContentBlock::Image(image(part))),
            _ => conversation.leave(place, "a part of an unknown kind"),
        }
    }
    blocks
}

fn results(content: &Value) -> Vec<ResultBlock> {
    let parts = content.as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| match part["type"].as_str() {
        Some("text") => part["text"].as_str().map(text),
        Some("image") => Some(ResultBlock::Image(image(part))),
        _ => None,
    });
    parts.collect()
}

fn image(part: &Value) -> Image {
    let field = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    Image {
        media_type: field("mimeType"),
        data: field("data"),
    }
}
