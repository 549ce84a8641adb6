//! Encodes requests of the Responses API. Nothing is stored on the server: each request holds the whole conversation, with
//! the encrypted reasoning of the model. Nothing here does I/O.

use std::borrow::Cow;

use ah_conversation::{
    ContentBlock, Image, Message, Model, Request, ResultBlock, Role, ToolResult, json,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::wire;
use crate::abilities::{Abilities, ThinkingSetting, effort_for};
use crate::call_name::{self, call_name};
use crate::encoded::{EMPTY_MESSAGE, Encoded};
use crate::http_model::RequestEncoder;
use crate::openai::encode::{model_name, passed_on};
use crate::openai::messages::taken;
use crate::openai::messages::{ERROR_PREFIX, arguments, data_url, heading, json, tool_call_id};
use crate::openai::{Additions, Quirks, ReturnedReasoning};

/// Prefixes of models that do not reason, and reject a request for encrypted reasoning.
const WITHOUT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-4"];

/// Encodes requests to one model and caches their messages.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    additions: Additions,
    quirks: Quirks,
    encoded: Encoded<()>,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn abilities(&mut self) -> &mut Abilities {
        &mut self.abilities
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let mut body = vec![self.head(request)];
        let (model, quirks) = (&self.model, &self.quirks);
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, (), bytes| {
                for input in inputs(message, model, quirks) {
                    if bytes.len() > 0 {
                        bytes.push(b",");
                    }
                    bytes.push(&json(&input));
                }
            });
        body.extend(conversation.bytes().split_by(&[], ""));
        body.push(Bytes::from_static(b"]}"));
        body
    }
}

impl Encoder {
    /// An encoder for requests to `model`.
    pub fn new(model: Model, abilities: Abilities, additions: Additions, quirks: Quirks) -> Self {
        Self {
            model,
            abilities,
            additions,
            quirks,
            encoded: Encoded::default(),
        }
    }

    /// The body up to the messages. Its size does not grow with the session, so it is not cached.
    fn head(&self, request: &Request) -> Bytes {
        let mut head = Map::new();
        head.insert("model".into(), model_name(&self.model, &self.quirks).into());
        head.insert("stream".into(), true.into());
        head.insert("store".into(), false.into());
        if self.reasons() {
            head.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        // There is no field for stop sequences.
        let settings = self.abilities.effective(request, self.quirks.thinking);
        head.insert("max_output_tokens".into(), settings.max_output.into());
        let of_budget =
            |thinking: ThinkingSetting| self.abilities.effort(effort_for(thinking.tokens()));
        if let Some(effort) = settings.effort.or_else(|| of_budget(settings.thinking?)) {
            head.insert("reasoning".into(), json!({"effort": effort.as_str()}));
        }
        for (field, value) in [
            ("temperature", settings.temperature),
            ("top_p", settings.top_p),
        ] {
            if let Some(value) = value {
                head.insert(field.into(), value.into());
            }
        }
        let parts: Vec<_> = request
            .system
            .iter()
            .map(String::as_str)
            .filter(|part| !part.trim().is_empty())
            .collect();
        if !parts.is_empty() {
            head.insert("instructions".into(), parts.join("\n\n").into());
        }
        if request.all_tools().len() > 0 {
            head.insert("tools".into(), tools(request));
        }
        let headers = passed_on(&self.additions, &self.quirks);
        if !headers.is_empty() {
            head.insert("extra_headers".into(), Value::Object(headers));
        }
        head.extend(self.additions.body.clone());
        head.shift_remove("input");
        let mut bytes = json(&head);
        bytes.pop();
        bytes.extend_from_slice(br#","input":["#);
        bytes.into()
    }

    /// Whether the model may return encrypted reasoning.
    fn reasons(&self) -> bool {
        let name = self.model.name.rsplit('/').next().unwrap_or_default();
        let is_plain = WITHOUT_REASONING
            .iter()
            .any(|start| name.starts_with(start));
        !is_plain && self.quirks.returned_reasoning != ReturnedReasoning::None
    }
}

fn tools(request: &Request) -> Value {
    let tools: Vec<_> = request
        .all_tools()
        .map(|tool| wire::Tool {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
            strict: false,
        })
        .collect();
    json!(tools)
}

/// The items of `message`.
fn inputs<'a>(message: &'a Message, model: &Model, quirks: &Quirks) -> Vec<wire::Input<'a>> {
    match message.role {
        Role::User => user_items(message, quirks),
        Role::Assistant => assistant_items(message, model, quirks),
    }
}

fn user_items<'a>(message: &'a Message, quirks: &Quirks) -> Vec<wire::Input<'a>> {
    let mut inputs: Vec<_> = message
        .tool_results()
        .map(|result| output(result, quirks))
        .collect();
    let mut parts: Vec<_> = message
        .tool_results()
        .filter(|_| !quirks.images_in_results)
        .flat_map(images_of)
        .chain(message.content.iter().filter_map(part))
        .collect();
    let content = match parts.pop() {
        None if inputs.is_empty() => wire::InputContent::Text(EMPTY_MESSAGE.into()),
        None => return inputs,
        Some(wire::Part::InputText { text }) if parts.is_empty() => wire::InputContent::Text(text),
        Some(last) => {
            parts.push(last);
            wire::InputContent::Parts(parts)
        }
    };
    inputs.push(wire::Input::Message {
        role: "user",
        content,
    });
    inputs
}

fn assistant_items<'a>(
    message: &'a Message,
    model: &Model,
    quirks: &Quirks,
) -> Vec<wire::Input<'a>> {
    let is_own = message.was_written_by(&model.provider, &model.name);
    let takes_reasoning = is_own && quirks.returned_reasoning != ReturnedReasoning::None;
    let opaque = message.opaque_of(&model.provider, &model.name);
    let inputs = message
        .content
        .iter()
        .enumerate()
        .filter_map(|(place, block)| {
            let input = assistant_item(block, takes_reasoning, quirks)?;
            Some(match opaque.and_then(|opaque| opaque.of_block(place)) {
                Some(given) => input.with(taken(given.clone(), quirks)),
                None => input,
            })
        });
    let mut inputs: Vec<_> = inputs.collect();
    // The API rejects reasoning without an item after it.
    while let Some(wire::Input::Reasoning(_)) = inputs.last() {
        inputs.pop();
    }
    inputs
}

fn assistant_item<'a>(
    block: &'a ContentBlock,
    takes_reasoning: bool,
    quirks: &Quirks,
) -> Option<wire::Input<'a>> {
    match block {
        ContentBlock::Thinking {
            signature: Some(signature),
            ..
        } if takes_reasoning => {
            let item: &RawValue = json::own(signature).ok()?;
            Some(wire::Input::Reasoning(item))
        }
        ContentBlock::ToolUse(call) => Some(wire::Input::FunctionCall(wire::FunctionCall {
            call_id: tool_call_id(call.id.as_str(), quirks.tool_call_ids),
            name: call_name(&call.name, call_name::OPENAI),
            arguments: arguments(&call.input),
        })),
        block => {
            let text = block.as_text().filter(|text| !text.trim().is_empty())?;
            Some(wire::Input::Message {
                role: "assistant",
                content: wire::InputContent::Text(text.into()),
            })
        }
    }
}

fn output<'a>(result: &'a ToolResult, quirks: &Quirks) -> wire::Input<'a> {
    let has_images = images_of(result).next().is_some();
    let prefix = if result.is_error { ERROR_PREFIX } else { "" };
    let output = if has_images && quirks.images_in_results {
        let parts = result.content.iter().filter_map(|block| match block {
            ResultBlock::Text { text } => Some(self::text(text)),
            ResultBlock::Image(image) => Some(self::image(image)),
            ResultBlock::Audio(_) => None,
        });
        let prefix = result.is_error.then(|| text(ERROR_PREFIX));
        wire::InputContent::Parts(prefix.into_iter().chain(parts).collect())
    } else {
        wire::InputContent::Text(format!("{prefix}{}", result.text()).into())
    };
    wire::Input::FunctionCallOutput(wire::FunctionCallOutput {
        call_id: tool_call_id(result.tool_use_id.as_str(), quirks.tool_call_ids),
        output,
    })
}

/// The images in a tool result, with a heading, as parts of a user message.
fn images_of(result: &ToolResult) -> impl Iterator<Item = wire::Part<'_>> {
    let mut images = result
        .content
        .iter()
        .filter_map(|block| match block {
            ResultBlock::Image(image) => Some(self::image(image)),
            ResultBlock::Text { .. } | ResultBlock::Audio(_) => None,
        })
        .peekable();
    let heading = images.peek().map(|_| wire::Part::InputText {
        text: heading(result).into(),
    });
    heading.into_iter().chain(images)
}

/// A user's text or image in `block`.
fn part(block: &ContentBlock) -> Option<wire::Part<'_>> {
    match block {
        ContentBlock::Image(image) => Some(self::image(image)),
        block => block
            .as_text()
            .filter(|text| !text.trim().is_empty())
            .map(text),
    }
}

fn text(text: &str) -> wire::Part<'_> {
    wire::Part::InputText {
        text: Cow::Borrowed(text),
    }
}

fn image(image: &Image) -> wire::Part<'static> {
    wire::Part::InputImage {
        image_url: data_url(image),
    }
}
