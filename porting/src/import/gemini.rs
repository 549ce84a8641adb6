//! Sessions of Gemini CLI and of Qwen Code, which is made from it. Gemini CLI wrote one JSON document for a session, whose
//! answers have their calls with the results, and writes a log of the changes to such a document since 2026; Qwen Code writes
//! a line for each message, in the form of Google's API. Both were compared with the programs' sources in November 2026.

use std::collections::{HashMap, HashSet};

use ah_conversation::{ContentBlock, Image, Origin, ResultBlock, Time, Usage};
use serde_json::{Map, Value};

use super::session::{Imported, Program, time};
use ah_engine::sessions::transcript_reader::{Conversation, call, json_lines, response, text};

/// Reads a session of Gemini CLI; `None` if the document is none.
pub fn read(document: &Value) -> Option<Imported> {
    let id = document["sessionId"].as_str()?;
    let messages = document["messages"].as_array()?;
    let mut conversation = Conversation::default();
    let made = |message: &Value| message["toolCalls"].as_array().cloned().unwrap_or_default();
    let told: HashSet<String> = { messages.iter().flat_map(made) }
        .filter_map(|call| Some(call["id"].as_str()?.to_owned()))
        .collect();
    for (number, message) in messages.iter().enumerate() {
        let place = format!("message {}", number + 1);
        take(&mut conversation, &place, &without(message, &told));
    }
    let folders = document["directories"].as_array();
    let cwd = folders.and_then(|folders| Some(folders.first()?.as_str()?.to_owned()));
    let id = Some(id.to_owned());
    Some(Imported::new(Program::Gemini, id, cwd, None, conversation))
}

/// Reads a log of Gemini CLI; `None` if it is none. A line is what is known of the session, a change of that, a message, in the
/// place of one with the same id, or a return to before one.
pub fn read_log(content: &str) -> Option<Imported> {
    let mut unread = Conversation::default();
    let mut document = Map::new();
    let mut messages: Vec<Value> = Vec::new();
    for (_, line) in json_lines(content, &mut unread) {
        let id_of = |message: &Value| message["id"].as_str().map(str::to_owned);
        if let Some(id) = line["$rewindTo"].as_str() {
            let at = messages.iter().position(|it| it["id"] == id);
            messages.truncate(at.unwrap_or_default());
        } else if let Some(id) = id_of(&line) {
            match messages.iter_mut().find(|it| it["id"] == *id) {
                Some(former) => *former = line,
                None => messages.push(line),
            }
        } else if let Value::Object(mut fields) = line {
            let changes = fields
                .remove("$set")
                .map_or(Value::Object(fields), |set| set);
            if let Value::Object(mut changes) = changes {
                if let Some(Value::Array(all)) = changes.remove("messages") {
                    messages = all;
                }
                document.append(&mut changes);
            }
        }
    }
    document.insert("messages".to_owned(), Value::Array(messages));
    let mut imported = read(&Value::Object(document))?;
    imported.left.splice(0..0, unread.end_open().1);
    Some(imported)
}

/// Returns a message without the calls and results in its content that are `told` of with the answer they belong to: after a
/// summary the program writes both.
fn without(message: &Value, told: &HashSet<String>) -> Value {
    let mut message = message.clone();
    if let Some(parts) = message["content"].as_array_mut() {
        parts.retain(|part| {
            let id = { ["functionCall", "functionResponse"].iter() }
                .find_map(|kind| part[*kind]["id"].as_str());
            id.is_none_or(|id| !told.contains(id))
        });
    }
    message
}

fn take(conversation: &mut Conversation, place: &str, message: &Value) {
    let at = time(&message["timestamp"]);
    match message["type"].as_str() {
        Some("user") => {
            responses(conversation, place, &message["content"], at);
            let content = content(conversation, place, &message["content"]);
            if !content.is_empty() {
                conversation.user(Origin::Prompt, content, at);
            }
        }
        Some("gemini") => {
            let answer = || response("gemini", message["model"].as_str().unwrap_or_default());
            let thoughts = message["thoughts"].as_array().into_iter().flatten();
            let thoughts = thoughts.map(|thought| {
                let part = |key: &str| thought[key].as_str().unwrap_or_default();
                ContentBlock::Thinking {
                    thinking: format!("{}\n{}", part("subject"), part("description")),
                    signature: None,
                }
            });
            let mut blocks: Vec<_> = thoughts.collect();
            blocks.extend(content(conversation, place, &message["content"]));
            let calls = message["toolCalls"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            blocks.extend(calls.iter().map(|made| {
                let word = |key: &str| made[key].as_str().unwrap_or_default();
                call(word("id"), word("name"), made["args"].clone())
            }));
            conversation.answer(blocks, answer(), at);
            let count = |key: &str| message["tokens"][key].as_u64().unwrap_or_default();
            conversation.usage(usage(
                count("input"),
                count("cached"),
                count("output") + count("thoughts"),
            ));
            for made in calls {
                let id = made["id"].as_str().unwrap_or_default();
                let is_error = made["status"] == "error" || made["status"] == "cancelled";
                let results = results(&made["result"]);
                if !results.is_empty() {
                    conversation.result(place, id, results, is_error, at);
                }
            }
        }
        // What the program told its user.
        Some("info" | "error" | "warning") => {}
        _ => conversation.leave(place, "a message of an unknown kind"),
    }
}

/// Reads a session of Qwen Code.
pub fn read_lines(content: &str) -> Imported {
    let mut conversation = Conversation::default();
    let lines = json_lines(content, &mut conversation);
    let last = |key: &str| {
        let mut values = { lines.iter().rev() }.filter_map(|(_, line)| line[key].as_str());
        values.next().map(str::to_owned)
    };
    let (id, cwd) = (last("sessionId"), last("cwd"));
    for (place, line) in branch(&lines) {
        take_line(&mut conversation, place, line);
    }
    Imported::new(Program::Qwen, id, cwd, None, conversation)
}

/// Returns the lines that the last one continues: what its user went back behind stays in the file. Where a parent is missing,
/// all before it counts.
fn branch(lines: &[(String, Value)]) -> impl Iterator<Item = &(String, Value)> {
    let mut places = HashMap::new();
    for (at, (_, line)) in lines.iter().enumerate() {
        if let Some(id) = line["uuid"].as_str() {
            places.entry(id).or_insert(at);
        }
    }
    let mut kept = HashSet::new();
    let mut next = lines.last().map_or(&Value::Null, |(_, line)| &line["uuid"]);
    let mut missing = lines.len();
    while let Some(id) = next.as_str().filter(|id| kept.insert(*id)) {
        let Some(at) = places.get(id) else {
            break;
        };
        missing = *at;
        next = &lines[*at].1["parentUuid"];
    }
    let is_whole = next.is_null() && !kept.is_empty();
    let own = move |(at, (_, line)): &(usize, &(String, Value))| {
        let is_kept = line["uuid"].as_str().is_some_and(|id| kept.contains(id));
        is_kept || (!is_whole && *at < missing)
    };
    lines.iter().enumerate().filter(own).map(|(_, line)| line)
}

fn take_line(conversation: &mut Conversation, place: &str, line: &Value) {
    let at = time(&line["timestamp"]);
    let parts = &line["message"]["parts"];
    match line["type"].as_str() {
        Some("user") => {
            let content = content(conversation, place, parts);
            conversation.user(Origin::Prompt, content, at);
        }
        Some("assistant") => {
            let answer = response("qwen", line["model"].as_str().unwrap_or_default());
            let blocks = content(conversation, place, parts);
            conversation.answer(blocks, answer, at);
            let count = |key: &str| line["usageMetadata"][key].as_u64().unwrap_or_default();
            if line["usageMetadata"].is_object() {
                let output = count("candidatesTokenCount") + count("thoughtsTokenCount");
                let cached = count("cachedContentTokenCount");
                conversation.usage(usage(count("promptTokenCount"), cached, output));
            }
        }
        Some("tool_result") => responses(conversation, place, parts, at),
        Some("system") => {}
        _ => conversation.leave(place, "a line of an unknown kind"),
    }
}

/// Adds the results of calls among these parts.
fn responses(conversation: &mut Conversation, place: &str, parts: &Value, at: Time) {
    for part in parts.as_array().into_iter().flatten() {
        let given = &part["functionResponse"];
        if let Some(id) = given["id"].as_str() {
            let is_error = given["response"]["error"].is_string();
            let results = results(&Value::Array(vec![part.clone()]));
            conversation.result(place, id, results, is_error, at);
        }
    }
}

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input.saturating_sub(cached),
        cache_read_input_tokens: cached,
        output_tokens: output,
        ..Usage::default()
    }
}

/// Returns a text, or parts of Google's API, as blocks.
fn content(conversation: &mut Conversation, place: &str, given: &Value) -> Vec<ContentBlock> {
    let parts = match given {
        Value::String(words) if words.is_empty() => return Vec::new(),
        Value::String(words) => return vec![ContentBlock::text(words.clone())],
        Value::Array(parts) => parts.as_slice(),
        Value::Null => &[],
        part => std::slice::from_ref(part),
    };
    let mut blocks = Vec::new();
    for part in parts {
        let made = &part["functionCall"];
        match (
            part.as_str().or_else(|| part["text"].as_str()),
            picture(part),
        ) {
            (Some(""), _) => {}
            (Some(words), _) if part["thought"] == true => blocks.push(ContentBlock::Thinking {
                thinking: words.to_owned(),
                signature: None,
            }),
            (Some(words), _) => blocks.push(ContentBlock::text(words)),
            (None, Some(picture)) => blocks.push(ContentBlock::Image(picture)),
            (None, None) if made.is_object() => {
                let word = |key: &str| made[key].as_str().unwrap_or_default();
                blocks.push(call(word("id"), word("name"), made["args"].clone()));
            }
            (None, None) if part["functionResponse"].is_object() => {}
            (None, None) => conversation.leave(place, "a part of an unknown kind"),
        }
    }
    blocks
}

/// Returns the result of a call, which stands in one or more responses of functions.
fn results(given: &Value) -> Vec<ResultBlock> {
    let parts = match given {
        Value::String(words) => return vec![text(words)],
        Value::Array(parts) => parts.as_slice(),
        Value::Null => &[],
        part => std::slice::from_ref(part),
    };
    let parts = parts.iter().map(|part| {
        let answer = &part["functionResponse"]["response"];
        let words = answer["output"]
            .as_str()
            .or_else(|| answer["error"].as_str());
        match (words.or_else(|| part["text"].as_str()), picture(part)) {
            (Some(words), _) => text(words),
            (None, Some(picture)) => ResultBlock::Image(picture),
            (None, None) if answer.is_null() => text(part.to_string()),
            (None, None) => text(answer.to_string()),
        }
    });
    parts.collect()
}

fn picture(part: &Value) -> Option<Image> {
    let data = &part["inlineData"];
    let media_type = data["mimeType"]
        .as_str()
        .filter(|kind| kind.starts_with("image/"))?;
    Some(Image {
        media_type: media_type.to_owned(),
        data: data["data"].as_str()?.to_owned(),
    })
}
