//! Sessions of Codex: files `rollout-*.jsonl`. A line holds an item of the Responses API (`response_item`), the session's
//! data (`session_meta`), an event for display, or a summary (`compacted`). Old files have the bare items.

use ah_conversation::{ContentBlock, Image, Origin, ResultBlock, Time, Usage, json};
use serde_json::Value;

use super::session::{Imported, Program, time};
use ah_engine::sessions::transcript_reader::{Conversation, call, json_lines, response, text};

/// Beginnings of texts that Codex writes in the user's name.
const CONTEXT: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skills_instructions>",
];

/// Reads a session.
pub fn read(content: &str) -> Imported {
    let mut reader = Reader::default();
    for (place, line) in json_lines(content, &mut reader.conversation) {
        reader.take(&place, &line);
    }
    Imported::new(
        Program::Codex,
        reader.id,
        reader.cwd,
        None,
        reader.conversation,
    )
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    id: Option<String>,
    cwd: Option<String>,
    model: String,
}

impl Reader {
    fn take(&mut self, place: &str, line: &Value) {
        let at = time(&line["timestamp"]);
        let payload = &line["payload"];
        match line["type"].as_str() {
            Some("session_meta") => {
                self.id = text_of(payload, "id");
                self.cwd = text_of(payload, "cwd");
            }
            Some("turn_context") => {
                self.model = text_of(payload, "model").unwrap_or_default();
            }
            Some("response_item") => self.item(place, payload, at),
            Some("compacted") => {
                let summary = text_of(payload, "message").unwrap_or_default();
                if summary.is_empty() {
                    self.conversation
                        .leave(place, "a summary that only its server can read");
                } else {
                    let origin = Origin::summary(None);
                    self.conversation
                        .user(origin, vec![ContentBlock::text(summary)], at);
                }
            }
            Some("event_msg") if payload["type"] == "token_count" => {
                self.tokens(&payload["info"]["last_token_usage"]);
            }
            Some("event_msg" | "state" | "world_state") => {}
            // The first line of old files.
            None if line["id"].is_string() => self.id = text_of(line, "id"),
            None if line["record_type"] == "state" => {}
            Some(_)
                if line["type"] == "message"
                    || line["role"].is_string()
                    || line["call_id"].is_string()
                    || line["type"] == "reasoning" =>
            {
                self.item(place, line, at);
            }
            _ => self.conversation.leave(place, "a line of an unknown kind"),
        }
    }

    fn item(&mut self, place: &str, item: &Value, at: Time) {
        let answer = response("openai", &self.model);
        let id = item["call_id"].as_str().unwrap_or_default();
        let name = item["name"].as_str().unwrap_or("tool");
        match item["type"].as_str() {
            Some("message") => self.message(place, item, at),
            Some("reasoning") => {
                let parts = item["summary"].as_array().into_iter().flatten();
                let parts = parts.chain(item["content"].as_array().into_iter().flatten());
                let parts: Vec<_> = parts.filter_map(|part| part["text"].as_str()).collect();
                if !parts.is_empty() {
                    let thinking = parts.join("\n\n");
                    let block = ContentBlock::Thinking {
                        thinking,
                        signature: None,
                    };
                    self.conversation.answer(vec![block], answer, at);
                }
            }
            Some("function_call") => {
                let given = item["arguments"].as_str().unwrap_or_default();
                let input = json::from_str(given).unwrap_or_else(|_| given.into());
                self.conversation
                    .answer(vec![call(id, name, input)], answer, at);
            }
            Some("custom_tool_call") => {
                let input = serde_json::json!({"input": item["input"]});
                self.conversation
                    .answer(vec![call(id, name, input)], answer, at);
            }
            Some("local_shell_call") => {
                let input = serde_json::json!({"command": item["action"]["command"]});
                self.conversation
                    .answer(vec![call(id, "shell", input)], answer, at);
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let (content, is_error) = output(&item["output"]);
                self.conversation.result(place, id, content, is_error, at);
            }
            // Of the server, whose results are part of the answer.
            Some(
                "web_search_call"
                | "image_generation_call"
                | "compaction"
                | "ghost_snapshot"
                | "tool_search_call"
                | "tool_search_output",
            ) => {}
            _ => self.conversation.leave(place, "an item of an unknown kind"),
        }
    }

    fn message(&mut self, place: &str, item: &Value, at: Time) {
        let mut blocks = Vec::new();
        for part in item["content"].as_array().into_iter().flatten() {
            match (part["text"].as_str(), part["image_url"].as_str()) {
                (Some(text), _)
                    if CONTEXT
                        .iter()
                        .any(|start| text.trim_start().starts_with(start)) => {}
                (Some(text), _) => blocks.push(ContentBlock::text(text)),
                (None, Some(url)) => match image(url) {
                    Some(image) => blocks.push(ContentBlock::Image(image)),
                    None => self
                        .conversation
                        .leave(place, "a picture that is not in the file"),
                },
                (None, None) => self.conversation.leave(place, "a part of an unknown kind"),
            }
        }
        match item["role"].as_str() {
            Some("user") => self.conversation.user(Origin::Prompt, blocks, at),
            Some("assistant") => {
                let answer = response("openai", &self.model);
                self.conversation.answer(blocks, answer, at);
            }
            // Instructions, which a run of ours has of its own.
            Some("developer" | "system") => {}
            _ => self
                .conversation
                .leave(place, "a message of an unknown role"),
        }
    }

    fn tokens(&mut self, used: &Value) {
        let count = |key: &str| used[key].as_u64().unwrap_or_default();
        let cached = count("cached_input_tokens");
        if used.is_object() {
            self.conversation.usage(Usage {
                input_tokens: count("input_tokens").saturating_sub(cached),
                output_tokens: count("output_tokens"),
                cache_read_input_tokens: cached,
                ..Usage::default()
            });
        }
    }
}

/// Returns a result, which is a text, a list of parts, or an object with one of them.
fn output(output: &Value) -> (Vec<ResultBlock>, bool) {
    let is_error = output["success"] == false;
    let content = if output.is_object() {
        &output["content"]
    } else {
        output
    };
    let blocks = match content {
        Value::String(content) => vec![text(content)],
        Value::Array(parts) => parts
            .iter()
            .filter_map(
                |part| match (part["text"].as_str(), part["image_url"].as_str()) {
                    (Some(content), _) => Some(text(content)),
                    (None, url) => image(url?).map(ResultBlock::Image),
                },
            )
            .collect(),
        other => vec![text(other.to_string())],
    };
    (blocks, is_error)
}

/// Returns the picture in a `data:` URL.
pub fn image(url: &str) -> Option<Image> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Image {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}
