//! Sessions of opencode: in its storage folder a file for the session, one for each message and one for each part of a
//! message; or a file of `opencode export`, which has all of it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_conversation::{ContentBlock, Origin, StopReason, Time, Usage, encoding, json};
use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::codex::image;
use super::session::{Imported, Program, uuid_for};
use ah_engine::sessions::transcript_reader::{Conversation, call, response, text};

/// Longest file of a message or a part.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a session from its file in the storage folder, or from an exported file.
///
/// # Errors
///
/// If it is neither.
pub fn read(path: &Path, file: &Value) -> Result<Imported, String> {
    let mut conversation = Conversation::default();
    let exported = file["messages"].as_array().cloned();
    let info = if exported.is_some() {
        &file["info"]
    } else {
        file
    };
    let id = info["id"]
        .as_str()
        .ok_or("it is not a session of opencode")?;
    let messages = match exported {
        Some(messages) => messages,
        None => stored(path, id, &mut conversation)
            .ok_or("it is not in a storage folder of opencode")?,
    };
    for message in &messages {
        take(&mut conversation, message);
    }
    let field = |key: &str| info[key].as_str().map(str::to_owned);
    let uuid = uuid_for("opencode", id);
    Ok(Imported::new(
        Program::OpenCode,
        Some(uuid),
        field("directory"),
        field("title"),
        conversation,
    ))
}

/// Returns the messages of a session in the storage folder, each with its parts.
fn stored(path: &Path, id: &str, conversation: &mut Conversation) -> Option<Vec<Value>> {
    let storage = path
        .ancestors()
        .find(|folder| folder.join("message").is_dir())?;
    let storage = Storage {
        path: storage,
        open: Folder::follow(storage).ok()?,
    };
    let mut messages = Vec::new();
    for info in storage.objects("message", id, conversation) {
        let name = info["id"].as_str().unwrap_or_default();
        let parts = storage.objects("part", name, conversation);
        messages.push(json!({"info": info, "parts": parts}));
    }
    Some(messages)
}

/// A storage folder, whose files name the folders of others. Anybody may have made it.
struct Storage<'a> {
    path: &'a Path,
    open: Folder,
}

impl Storage<'_> {
    /// Returns the JSON files in the folder `id` of a kind by name, which is their order.
    fn objects(&self, kind: &str, id: &str, conversation: &mut Conversation) -> Vec<Value> {
        let open = self.open.folder(kind.as_ref());
        let open = open.and_then(|of_kind| of_kind.folder(&child(id)?));
        let Ok(folder) = open else {
            return Vec::new();
        };
        let names = folder.files().unwrap_or_default();
        let is_json = |name: &OsString| Path::new(name).extension().is_some_and(|it| it == "json");
        let mut objects = Vec::new();
        for name in names.into_iter().filter(is_json) {
            match object(&folder, &name) {
                Ok(object) => objects.push(object),
                Err(why) => {
                    let path = self.path.join(kind).join(id).join(name);
                    conversation.leave(&path.display().to_string(), &why);
                }
            }
        }
        objects
    }
}

/// Returns an id as the path of a folder within another one.
fn child(id: &str) -> io::Result<PathBuf> {
    match ah_beneath::names(Path::new(id))?[..] {
        [name] => Ok(name.into()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn object(folder: &Folder, name: &OsStr) -> Result<Value, String> {
    let file = folder.open_file(name, OFlags::RDONLY);
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {} MiB", MAX_BYTES >> 20));
    }
    let text = encoding::text(&bytes).map_err(|error| error.to_string())?;
    json::from_str(&text).map_err(|error| error.to_string())
}

fn take(conversation: &mut Conversation, message: &Value) {
    let info = &message["info"];
    let at = Time(info["time"]["created"].as_i64().unwrap_or_default());
    let place = info["id"].as_str().unwrap_or("a message").to_owned();
    let parts = message["parts"]
        .as_array()
        .map_or(&[] as &[Value], Vec::as_slice);
    match info["role"].as_str() {
        Some("user") => {
            let content = parts.iter().filter(|part| part["ignored"] != true);
            let content = content.filter_map(|part| prompt(conversation, &place, part));
            let content = content.collect();
            conversation.user(Origin::Prompt, content, at);
        }
        Some("assistant") => {
            let origin = info["summary"] == true;
            let field = |key: &str| info[key].as_str().unwrap_or_default();
            let answer = || {
                let mut answer = response(field("providerID"), field("modelID"));
                if info["error"].is_object() {
                    answer.stop_reason = StopReason::Interrupted;
                }
                answer
            };
            if origin {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                let texts = texts.map(ContentBlock::text).collect();
                conversation.user(Origin::summary(None), texts, at);
                return;
            }
            let mut results = Vec::new();
            for part in parts {
                let block = match part["type"].as_str() {
                    Some("text") => part["text"].as_str().map(ContentBlock::text),
                    Some("reasoning") => {
                        part["text"]
                            .as_str()
                            .map(|thinking| ContentBlock::Thinking {
                                thinking: thinking.to_owned(),
                                signature: None,
                            })
                    }
                    Some("tool") => {
                        let id = part["callID"].as_str().unwrap_or_default();
                        let name = part["tool"].as_str().unwrap_or("tool");
                        let state = &part["state"];
                        results.push((id, state));
                        Some(call(id, name, state["input"].clone()))
                    }
                    Some(
                        "step-start" | "step-finish" | "snapshot" | "patch" | "agent" | "retry"
                        | "compaction" | "subtask" | "file",
                    ) => None,
                    _ => {
                        conversation.leave(&place, "a part of an unknown kind");
                        None
                    }
                };
                // The results of a step come before the next one.
                if part["type"] == "step-finish" || part["type"] == "step-start" {
                    finish(conversation, &place, &mut results, at);
                }
                conversation.answer(block.into_iter().collect(), answer(), at);
            }
            let count = |value: &Value| value.as_u64().unwrap_or_default();
            let tokens = &info["tokens"];
            conversation.usage(Usage {
                input_tokens: count(&tokens["input"]),
                output_tokens: count(&tokens["output"]) + count(&tokens["reasoning"]),
                cache_read_input_tokens: count(&tokens["cache"]["read"]),
                cache_creation_input_tokens: count(&tokens["cache"]["write"]),
                ..Usage::default()
            });
            finish(conversation, &place, &mut results, at);
        }
        _ => conversation.leave(&place, "a message of an unknown role"),
    }
}

/// Adds the results of the calls so far.
fn finish(
    conversation: &mut Conversation,
    place: &str,
    results: &mut Vec<(&str, &Value)>,
    at: Time,
) {
    for (id, state) in results.drain(..) {
        let field = |key: &str| state[key].as_str().unwrap_or_default();
        match state["status"].as_str() {
            Some("completed") => {
                conversation.result(place, id, vec![text(field("output"))], false, at);
            }
            Some("error") => conversation.result(place, id, vec![text(field("error"))], true, at),
            // It was never finished, and is answered so.
            _ => {}
        }
    }
}

fn prompt(conversation: &mut Conversation, place: &str, part: &Value) -> Option<ContentBlock> {
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().map(ContentBlock::text),
        Some("file") => {
            let picture = part["url"].as_str().and_then(image);
            let picture = picture.filter(|picture| picture.media_type.starts_with("image/"));
            if picture.is_none() {
                conversation.leave(
                    place,
                    "an attached file, of which the text is in the prompt",
                );
            }
            picture.map(ContentBlock::Image)
        }
        Some("agent" | "compaction" | "subtask") => None,
        _ => {
            conversation.leave(place, "a part of an unknown kind");
            None
        }
    }
}
