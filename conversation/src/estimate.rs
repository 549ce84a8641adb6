//! Token estimates for content without reported usage. No vendor publishes its tokenizer, so four bytes count as one
//! token; an image counts as the maximum that the Messages API charges at its own size limit.

use crate::{ContentBlock, Message, Prefix, ResultBlock};

pub(crate) const BYTES_PER_TOKEN: u64 = 4;
const TOKENS_PER_MESSAGE: u64 = 4;
const TOKENS_PER_IMAGE: u64 = 1_600;
/// Bytes of base64 per token of sound: 32 tokens for a second of an MP3.
const SOUND_PER_TOKEN: u64 = 650;

/// Estimates the tokens of `text`.
pub fn estimate_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the tokens of one content block.
pub fn estimate_block(block: &ContentBlock) -> u64 {
    match block {
        ContentBlock::Text { text } => estimate_text(text),
        ContentBlock::Thinking {
            thinking,
            signature,
        } => estimate_text(thinking) + signature.as_deref().map_or(0, estimate_text),
        ContentBlock::RedactedThinking { data } => estimate_text(data),
        ContentBlock::Image(_) => TOKENS_PER_IMAGE,
        ContentBlock::ToolUse(call) => {
            let input = serde_json::to_string(&call.input).unwrap_or_default();
            estimate_text(&call.name) + estimate_text(&input)
        }
        ContentBlock::ToolResult(result) => result.content.iter().map(estimate_piece).sum(),
        ContentBlock::Other { raw } => estimate_text(&raw.to_string()),
    }
}

/// Estimates the tokens of a part of a result.
pub(crate) fn estimate_piece(piece: &ResultBlock) -> u64 {
    match piece {
        ResultBlock::Text { text } => estimate_text(text),
        ResultBlock::Image(_) => TOKENS_PER_IMAGE,
        ResultBlock::Audio(audio) => (audio.data.len() as u64).div_ceil(SOUND_PER_TOKEN),
    }
}

/// Estimates the tokens of the beginning of requests: the system prompt, the tools and the opening.
pub fn estimate_prefix(prefix: &Prefix) -> u64 {
    let texts = prefix.system.iter().chain(&prefix.opening);
    let texts = texts.map(|text| estimate_text(text));
    let tools = prefix.tools.iter().map(|tool| {
        estimate_text(&tool.name)
            + estimate_text(&tool.description)
            + estimate_text(&tool.input_schema.to_string())
    });
    texts.chain(tools).sum()
}

/// Estimates the tokens of a whole message.
pub fn estimate_message(message: &Message) -> u64 {
    let content: u64 = message.content.iter().map(estimate_block).sum();
    let response = message.response.as_ref();
    let opaque = response.and_then(|response| response.opaque.as_ref());
    let opaque: u64 = { opaque.iter().flat_map(|opaque| opaque.texts()) }
        .map(|text| estimate_text(&text))
        .sum();
    TOKENS_PER_MESSAGE + content + opaque
}
