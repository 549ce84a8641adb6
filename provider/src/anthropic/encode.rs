//! A question to the model, as the bytes of a request body. The bytes of messages are kept and used again; only two
//! things move from request to request, the prompt cache's breakpoints, and they are put between the bytes that are
//! kept. Nothing here does I/O.

use std::borrow::Cow;

use ah_conversation::{
    ContentBlock, Image, Input, Message, Model, Request, ResultBlock, Role, ToolResult,
};
use bytes::Bytes;
use serde::Serialize;

use super::wire;
use crate::abilities::Abilities;
use crate::call_name::{self, call_name};
use crate::encoded::{Conversation, EMPTY_MESSAGE, Encoded};
use crate::http_model::RequestEncoder;
use crate::openai::ThinkingField;
use crate::rope::Rope;

/// What goes before the last `}` of a block to let the prompt cache end there.
const BREAKPOINT: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Encodes requests to one model and remembers their bytes.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    encoded: Encoded<Mark>,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let mut body = vec![self.head(request)];
        let model = &self.model;
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, mark, bytes| {
                append(message, model, mark, bytes);
            });
        body.extend(pieces(conversation));
        body
    }
}

impl Encoder {
    /// An encoder for requests to `model`, which has these abilities.
    pub fn new(model: Model, abilities: Abilities) -> Self {
        Self {
            model,
            abilities,
            encoded: Encoded::default(),
        }
    }

    /// All that comes before the messages. It has the same size in every request of a session, so it is not kept.
    fn head(&self, request: &Request) -> Bytes {
        let begins_with_thought = |answer: &Message| {
            let first = blocks(answer, &self.model).into_iter().next();
            first.as_ref().is_some_and(wire::Block::is_thought)
        };
        let settings =
            self.abilities
                .effective_in_turn(request, ThinkingField::Thinking, begins_with_thought);
        let last_tool = request.tools.len().saturating_sub(1);
        let tools = request.tools.iter().enumerate();
        let tools = tools.map(|(index, tool)| wire::Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: (index == last_tool).then_some(wire::CacheControl::Ephemeral),
        });
        let parts = request.system.iter().map(String::as_str);
        let mut system: Vec<_> = parts
            .filter(|text| !text.trim().is_empty())
            .map(|text| wire::SystemBlock {
                text,
                cache_control: None,
            })
            .collect();
        if let Some(last) = system.last_mut() {
            last.cache_control = Some(wire::CacheControl::Ephemeral);
        }
        let mut head = json(&wire::Head {
            model: &self.model.name,
            max_tokens: settings.max_output,
            stream: true,
            thinking: settings.thinking.map(wire::Thinking::from),
            output_config: settings.effort.map(|effort| wire::OutputConfig {
                effort: effort.as_str(),
            }),
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop_sequences: settings.stop,
            tools: tools.collect(),
            system,
        });
        head.pop();
        head.extend_from_slice(br#","messages":["#);
        head.into()
    }
}

/// How far the bytes have come with a message. The end of the last one is left out of them.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    /// Whose message is still open, so that more blocks of this role belong to it.
    open: Option<Role>,
    /// Where a breakpoint may go in the last two user messages, in order.
    breakpoints: [Option<usize>; 2],
}

/// Adds the bytes of `message`, to the message before it if the same speaks on.
fn append(message: &Message, model: &Model, mark: &mut Mark, bytes: &mut Rope) {
    for block in blocks(message, model) {
        if mark.open == Some(message.role) {
            bytes.push(b",");
        } else {
            bytes.push(match (mark.open, message.role) {
                (None, Role::User) => br#"{"role":"user","content":["#,
                (None, Role::Assistant) => br#"{"role":"assistant","content":["#,
                (Some(_), Role::User) => br#"]},{"role":"user","content":["#,
                (Some(_), Role::Assistant) => br#"]},{"role":"assistant","content":["#,
            });
            mark.open = Some(message.role);
            if message.role == Role::User {
                mark.breakpoints = [mark.breakpoints[1], None];
            }
        }
        bytes.push(&json(&block));
        if message.role == Role::User {
            mark.breakpoints[1] = Some(bytes.len() - 1);
        }
    }
}

/// The bytes of all messages with their breakpoints, and the end of the body.
fn pieces(conversation: &Conversation<Mark>) -> Vec<Bytes> {
    let mark = conversation.mark();
    let breakpoints: Vec<_> = mark.breakpoints.into_iter().flatten().collect();
    let mut pieces = conversation.bytes().split_by(&breakpoints, BREAKPOINT);
    let end: &[u8] = if mark.open.is_some() { b"]}]}" } else { b"]}" };
    pieces.push(Bytes::from_static(end));
    pieces
}

/// The blocks of `message` that the API takes.
fn blocks<'a>(message: &'a Message, model: &Model) -> Vec<wire::Block<'a>> {
    let is_own = message.was_written_by(&model.provider, &model.name);
    let mut blocks: Vec<_> = message
        .content
        .iter()
        .filter_map(|block| self::block(block, is_own))
        .collect();
    // The API refuses an answer that ends with thinking, as one does that was interrupted there.
    while blocks.last().is_some_and(wire::Block::is_thought) {
        blocks.pop();
    }
    if blocks.is_empty() && message.role == Role::User {
        blocks.push(wire::Block::Text {
            text: EMPTY_MESSAGE,
        });
    }
    blocks
}

/// `block` as it is sent, or `None` for what the API refuses: empty text, and thinking that it did not sign.
fn block(block: &ContentBlock, is_own: bool) -> Option<wire::Block<'_>> {
    Some(match block {
        ContentBlock::Text { text } => self::text(text)?,
        ContentBlock::Thinking {
            thinking,
            signature,
        } => wire::Block::Thinking {
            thinking,
            signature: signature
                .as_deref()
                .filter(|seal| is_own && !seal.is_empty())?,
        },
        ContentBlock::RedactedThinking { data } if is_own => wire::Block::RedactedThinking { data },
        ContentBlock::RedactedThinking { .. } => return None,
        ContentBlock::Image(image) => self::image(image),
        ContentBlock::ToolUse(call) => wire::Block::ToolUse {
            id: tool_use_id(call.id.as_str()),
            name: call_name(&call.name, call_name::MESSAGES),
            input: match &call.input {
                Input::Malformed(malformed_input) => wire::ToolInput::Malformed { malformed_input },
                object @ Input::Object(_) => wire::ToolInput::Object(object),
            },
        },
        ContentBlock::ToolResult(result) => tool_result(result),
        ContentBlock::Other { raw } => wire::Block::Other(raw),
    })
}

fn tool_result(result: &ToolResult) -> wire::Block<'_> {
    let content = result.content.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => self::text(text),
        ResultBlock::Image(image) => Some(self::image(image)),
    });
    wire::Block::ToolResult {
        tool_use_id: tool_use_id(result.tool_use_id.as_str()),
        content: content.collect(),
        is_error: result.is_error,
    }
}

fn text(text: &str) -> Option<wire::Block<'_>> {
    (!text.trim().is_empty()).then_some(wire::Block::Text { text })
}

fn image(image: &Image) -> wire::Block<'_> {
    wire::Block::Image {
        source: wire::ImageSource {
            media_type: &image.media_type,
            data: &image.data,
        },
    }
}

/// The id as the API takes it: other vendors' ids may hold characters that it refuses.
fn tool_use_id(id: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(is_fine) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.replace(|c| !is_fine(c), "_"))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the wire's types have text for keys")
}
