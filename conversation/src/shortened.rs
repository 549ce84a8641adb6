//! Messages with their long texts shortened, for a tail that does not fit into the context window. The messages
//! themselves stay whole; only the model's view is shortened ([`Origin::Summary`](crate::Origin::Summary)).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::estimate::estimate_piece;
use crate::{ContentBlock, Input, Message, ResultBlock, ToolResult, estimate_block};

/// What stands in the place of a picture or a sound that is too large.
const LEFT_OUT: &str = "(left out to make room)";

/// Returns `text` shortened to about `limit` bytes of its beginning and end, with a notice between them.
pub fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    shortened_with(text, limit, "to make room")
}

fn shortened_with<'a>(text: &'a str, limit: usize, why: &str) -> Cow<'a, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    let left_out = tail - head;
    // The notice must not be longer than what it stands for.
    if left_out <= limit.min(100) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!(
        "{}\n[{left_out} bytes left out {why}]\n{}",
        &text[..head],
        &text[tail..]
    ))
}

impl Message {
    /// Returns the message with each text of more than `limit` bytes shortened: of what was said, of results, and in the
    /// arguments of calls. Thinking of that length is left out, and so are pictures and sounds that take more.
    #[must_use]
    pub fn shortened(self: &Arc<Self>, limit: usize) -> Arc<Self> {
        let is_short = |block: &ContentBlock| estimate_block(block) * 4 <= limit as u64;
        if self.content.iter().all(is_short) {
            return self.clone();
        }
        let mut message = Self::clone(self);
        // An answer keeps a block, since an empty one is refused.
        if message.content.iter().any(|block| !is_thinking(block)) {
            message.retain_blocks(|block| !is_thinking(block) || is_short(block));
        }
        for block in &mut message.content {
            match block {
                ContentBlock::Text { text } => replace(text, limit),
                ContentBlock::ToolUse(call) => match &mut call.input {
                    Input::Object(map) => {
                        map.values_mut().for_each(|value| shorten(value, limit));
                    }
                    Input::Malformed(value) => shorten(value, limit),
                },
                ContentBlock::ToolResult(result) => shorten_result(result, limit),
                ContentBlock::Image(_) if !is_short(block) => {
                    *block = ContentBlock::text(LEFT_OUT);
                }
                ContentBlock::Image(_)
                | ContentBlock::Thinking { .. }
                | ContentBlock::RedactedThinking { .. }
                | ContentBlock::Other { .. } => {}
            }
        }
        Arc::new(message)
    }
}

fn is_thinking(block: &ContentBlock) -> bool {
    matches!(
        block,
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
    )
}

fn replace(text: &mut String, limit: usize) {
    if let Cow::Owned(short) = shortened(text, limit) {
        *text = short;
    }
}

fn shorten(value: &mut Value, limit: usize) {
    match value {
        Value::String(text) => replace(text, limit),
        Value::Array(values) => values.iter_mut().for_each(|value| shorten(value, limit)),
        Value::Object(map) => map.values_mut().for_each(|value| shorten(value, limit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shorten_result(result: &mut ToolResult, limit: usize) {
    let why = format!(
        "to make room; the `result` tool shows all of tool_use_id {}",
        result.tool_use_id
    );
    for piece in &mut result.content {
        match piece {
            ResultBlock::Text { text } => {
                if let Cow::Owned(short) = shortened_with(text, limit, &why) {
                    *text = short;
                }
            }
            ResultBlock::Image(_) | ResultBlock::Audio(_) => {
                if estimate_piece(piece) * 4 > limit as u64 {
                    let text = LEFT_OUT.to_owned();
                    *piece = ResultBlock::Text { text };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::messages;

    #[test]
    fn a_short_message_stays_as_it_is() {
        for message in messages("user assistant:tool_use(bash ls) results") {
            assert!(Arc::ptr_eq(&message.shortened(200), &message));
        }
    }

    #[test]
    fn texts_results_and_arguments_are_shortened() {
        let long = "x".repeat(1_000);
        let mut message = Message::clone(&messages("user")[0]);
        message.content = vec![
            ContentBlock::text(&long),
            ContentBlock::ToolUse(crate::ToolUse {
                id: "c".into(),
                name: "write".into(),
                input: Input::from(json!({"path": "a", "lines": [long], "count": 7})),
            }),
            ContentBlock::Thinking {
                thinking: long,
                signature: None,
            },
        ];
        let short = Arc::new(message).shortened(100);
        assert_eq!(short.content.len(), 2);
        let bytes = serde_json::to_string(&short.content).unwrap().len();
        assert!(bytes < 500, "{bytes}");
        let ContentBlock::ToolUse(call) = &short.content[1] else {
            panic!("a call")
        };
        assert_eq!(call.input.text("path"), Some("a"));
        assert_eq!(call.input.get("count"), Some(&json!(7)));
    }

    proptest! {
        #[test]
        fn a_shortened_text_keeps_its_ends_and_is_no_longer(text in "(?s).{0,400}", limit in 0usize..300) {
            let short = shortened(&text, limit);
            prop_assert!(short.len() <= text.len().max(limit + 60));
            let chars = |text: &str| text.chars().take(limit / 8).collect::<String>();
            prop_assert_eq!(chars(&short), chars(&text));
        }
    }
}
