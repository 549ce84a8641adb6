//! The bytes of messages, in which the breakpoints of the prompt cache can move. Nothing here does I/O.

use std::borrow::Cow;

use ah_conversation::{
    ContentBlock, Image, Input, Message, Model, ResultBlock, Role, ToolResult, Update,
};
use bytes::Bytes;
use serde::Serialize;

use super::wire;
use crate::caching::CacheTtl;
use crate::call_name::{self, call_name};
use crate::encoded::{Conversation, EMPTY_MESSAGE};
use crate::rope::Rope;

/// State of the encoder after a message. The bytes do not include the end of the last message.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mark {
    /// Role of the message that is still open; further blocks of this role are added to it.
    open: Option<wire::Role>,
    /// Offsets for breakpoints at the ends of the last two user messages, in order. As long as there is one, the first is
    /// that of its first block.
    breakpoints: [Option<usize>; 2],
    /// Whether a message with tool results may hold nothing else.
    pub results_alone: bool,
    /// Whether the last block is a tool result.
    is_result: bool,
}

/// Appends the bytes of `message`, to the open message if it has the same role.
pub(super) fn append(message: &Message, model: &Model, mark: &mut Mark, bytes: &mut Rope) {
    let role = match message.role {
        Role::User => wire::Role::User,
        Role::Assistant => wire::Role::Assistant,
    };
    push(role, blocks(message, model), mark, bytes);
}

/// Appends the bytes of an update: what others can edit for the user, what the engine itself decides as a system
/// message. That must follow a message of the user and precede an answer, which the order of the messages ensures.
pub(super) fn append_update(message: &Message, update: &Update, mark: &mut Mark, bytes: &mut Rope) {
    let [facts, mode, ..] = message.words_of(update);
    let tools = update.tools.iter().map(|tool| wire::Block::ToolAddition {
        tool: wire::AddedTool::ToolDefinition {
            definition: wire::Tool {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.input_schema,
                cache_control: None,
            },
        },
    });
    push(wire::Role::User, facts.and_then(text), mark, bytes);
    push(
        wire::Role::System,
        tools.chain(mode.and_then(text)),
        mark,
        bytes,
    );
}

/// Appends a summary: as the server wrote it, which counts as an answer, or as a text for a model that reads only that.
pub(super) fn append_summary(
    message: &Message,
    as_written: bool,
    mark: &mut Mark,
    bytes: &mut Rope,
) {
    let written = message.content.iter().filter(|block| is_summary(block));
    let block = |block| self::block(block, false);
    if as_written && written.clone().next().is_some() {
        push(
            wire::Role::Assistant,
            written.filter_map(block),
            mark,
            bytes,
        );
    } else {
        let texts = message.content.iter().filter(|block| !is_summary(block));
        push(wire::Role::User, texts.filter_map(block), mark, bytes);
    }
}

/// Whether a block is a summary that a server wrote.
fn is_summary(block: &ContentBlock) -> bool {
    block.server_summary().is_some()
}

/// Appends blocks, to the open message if it has the same role.
fn push<'a>(
    role: wire::Role,
    blocks: impl IntoIterator<Item = wire::Block<'a>>,
    mark: &mut Mark,
    bytes: &mut Rope,
) {
    for block in blocks {
        let is_result = matches!(block, wire::Block::ToolResult { .. });
        let is_apart = mark.results_alone && is_result != mark.is_result;
        mark.is_result = is_result;
        if mark.open == Some(role) && !is_apart {
            bytes.push(b",");
            if role == wire::Role::User {
                // In the first message, the first block is what the sessions of a project share.
                mark.breakpoints[0] = mark.breakpoints[0].or(mark.breakpoints[1]);
            }
        } else {
            if mark.open.is_some() {
                bytes.push(b"]},");
            }
            bytes.push(match role {
                wire::Role::User => br#"{"role":"user","content":["#,
                wire::Role::Assistant => br#"{"role":"assistant","content":["#,
                wire::Role::System => br#"{"role":"system","content":["#,
            });
            mark.open = Some(role);
            if role == wire::Role::User {
                mark.breakpoints = [mark.breakpoints[1], None];
            }
        }
        bytes.push(&json(&block));
        if role == wire::Role::User {
            mark.breakpoints[1] = Some(bytes.len() - 1);
        }
    }
}

/// The bytes of the messages from an offset on, with their breakpoints, and the end of the body.
pub(super) fn pieces(conversation: &Conversation<Mark>, from: usize, ttl: CacheTtl) -> Vec<Bytes> {
    let mark = conversation.mark();
    let breakpoints: Vec<_> = mark.breakpoints.into_iter().flatten().collect();
    let mut pieces = conversation
        .bytes()
        .split_by(from, &breakpoints, ttl.field());
    let end: &[u8] = if mark.open.is_some() { b"]}]}" } else { b"]}" };
    pieces.push(Bytes::from_static(end));
    pieces
}

/// The blocks of `message` that the API accepts.
pub(super) fn blocks<'a>(message: &'a Message, model: &Model) -> Vec<wire::Block<'a>> {
    let is_own = message.was_written_by(&model.provider, &model.name);
    let opaque = message.opaque_of(&model.provider, &model.name);
    let of_other_server =
        { message.response.as_ref() }.is_some_and(|response| response.provider != model.provider);
    let blocks = message.content.iter().enumerate();
    let mut blocks: Vec<_> = blocks
        .filter_map(|(place, block)| {
            if let (ContentBlock::Other { .. }, true) = (block, of_other_server) {
                return block.as_text().and_then(text);
            }
            let given = opaque.and_then(|opaque| opaque.of_block(place));
            Some(self::block(block, is_own)?.with(given))
        })
        .collect();
    // The API rejects an answer that ends with thinking, as an interrupted one may.
    while blocks.last().is_some_and(wire::Block::is_thinking) {
        blocks.pop();
    }
    if blocks.is_empty() && message.role == Role::User {
        blocks.push(wire::Block::Text {
            text: EMPTY_MESSAGE,
        });
    }
    blocks
}

/// `block` as it is sent, or `None` for a block that the API rejects: empty text, or thinking without its signature.
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
                .filter(|signature| is_own && !signature.is_empty())?,
        },
        ContentBlock::RedactedThinking { data } if is_own => wire::Block::RedactedThinking { data },
        ContentBlock::RedactedThinking { .. } => return None,
        ContentBlock::Image(image) => self::image(image),
        ContentBlock::ToolUse(call) => wire::Block::ToolUse {
            id: tool_use_id(call.id.as_str()),
            name: call_name(&call.name, call_name::MESSAGES),
            input: match &call.input {
                // The result says what was wrong, and a model copies what it sees in its own calls.
                Input::Malformed(_) => wire::ToolInput::Nothing {},
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
        ResultBlock::Audio(_) => None,
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

/// The id in the form that the API accepts: ids of other vendors may hold other characters.
fn tool_use_id(id: &str) -> Cow<'_, str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(is_valid) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.replace(|c| !is_valid(c), "_"))
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the wire's types have text for keys")
}
