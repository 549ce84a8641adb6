//! The messages of a conversation as chat completions have them: results of tools one by one, in their order, before
//! what the user says; pictures as addresses that hold their data.
//!
//! Several messages in which a user only says something become one, since the templates of local models insist that
//! the roles take turns. So the end of such a message is left open until something else follows.

use std::borrow::Cow;

use ah_conversation::{
    ContentBlock, Image, Input, Message, Model, ResultBlock, Role, ToolResult, text_of,
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::quirks::{Quirks, ReturnedReasoning, ToolCallIds};
use super::wire;
use crate::call_name::{self, call_name};
use crate::encoded::{Conversation, EMPTY_MESSAGE};
use crate::rope::Rope;

/// What goes before the last `}` of a message or part to let the prompt cache end there.
const BREAKPOINT: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// What a result begins with that is an error, as there is no field to say so.
pub const ERROR_PREFIX: &str = "Error: ";

/// How far the bytes have come with a message.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mark {
    /// Whether the last message is one in which a user only says something, which more may be added to.
    is_open: bool,
    /// Who spoke last.
    role: Option<Role>,
    /// Where a breakpoint may go in the last two turns of the user, in order.
    breakpoints: [Option<usize>; 2],
}

/// Adds the bytes of `message`.
pub fn append(
    message: &Message,
    model: &Model,
    quirks: &Quirks,
    mark: &mut Mark,
    bytes: &mut Rope,
) {
    let mut writer = Writer {
        quirks,
        mark,
        bytes,
    };
    match message.role {
        Role::User => writer.user(message),
        Role::Assistant => writer.assistant(message, model),
    }
}

/// The bytes of all messages, with breakpoints if there shall be some, and the end of the body.
pub fn pieces(conversation: &Conversation<Mark>, with_breakpoints: bool) -> Vec<Bytes> {
    let mark = conversation.mark();
    let breakpoints = mark.breakpoints.into_iter().flatten();
    let breakpoints: Vec<_> = breakpoints.filter(|_| with_breakpoints).collect();
    let mut pieces = conversation.bytes().split_by(&breakpoints, BREAKPOINT);
    let ends = match (mark.is_open, with_breakpoints) {
        (true, true) => ["\"", BREAKPOINT, "}]}"],
        (true, false) => ["\"", "", "}]}"],
        (false, _) => ["", "", "]}"],
    };
    pieces.extend(ends.map(|end| Bytes::from_static(end.as_bytes())));
    pieces
}

struct Writer<'a> {
    quirks: &'a Quirks,
    mark: &'a mut Mark,
    bytes: &'a mut Rope,
}

impl Writer<'_> {
    fn user(&mut self, message: &Message) {
        if self.mark.role != Some(Role::User) {
            self.close();
            self.mark.breakpoints = [self.mark.breakpoints[1], None];
            self.mark.role = Some(Role::User);
        }
        for result in message.tool_results() {
            self.result(result);
        }
        let results = message.tool_results();
        let shown = results.filter(|_| !self.quirks.images_in_results);
        let parts: Vec<_> = shown
            .flat_map(pictures_of)
            .chain(message.content.iter().filter_map(part))
            .collect();
        if parts.is_empty() && !message.is_results() {
            return self.say(EMPTY_MESSAGE);
        }
        let is_text = |part: &wire::Part<'_>| matches!(part, wire::Part::Text { .. });
        if !parts.iter().all(is_text) {
            self.message(&wire::Message::User { content: parts });
            self.mark.breakpoints[1] = Some(self.bytes.len() - "}]}".len());
            return;
        }
        for part in parts {
            if let wire::Part::Text { text, .. } = part {
                self.say(&text);
            }
        }
    }

    /// Adds what a user only says.
    fn say(&mut self, text: &str) {
        let quoted = json(text);
        let inside = &quoted[1..quoted.len() - 1];
        if self.mark.is_open {
            self.bytes.push(br"\n\n");
        } else {
            self.begin();
            self.bytes.push(br#"{"role":"user","content":""#);
            self.mark.is_open = true;
            // Its own place is known when it ends.
            self.mark.breakpoints[1] = None;
        }
        self.bytes.push(inside);
    }

    fn result(&mut self, result: &ToolResult) {
        let has_pictures = pictures_of(result).next().is_some();
        let prefix = if result.is_error { ERROR_PREFIX } else { "" };
        let content = if has_pictures && self.quirks.images_in_results {
            let parts = result.content.iter().map(|block| match block {
                ResultBlock::Text { text } => self::text(text),
                ResultBlock::Image(image) => picture(image),
            });
            let prefix = result.is_error.then(|| text(ERROR_PREFIX));
            wire::SentContent::Parts(prefix.into_iter().chain(parts).collect())
        } else {
            wire::SentContent::Text(format!("{prefix}{}", result.text()))
        };
        self.message(&wire::Message::Tool {
            tool_call_id: tool_call_id(result.tool_use_id.as_str(), self.quirks.tool_call_ids),
            content,
        });
        self.mark.breakpoints[1] = Some(self.bytes.len() - 1);
    }

    fn assistant(&mut self, message: &Message, model: &Model) {
        let said = text_of(&message.content);
        let tool_calls: Vec<_> = message
            .tool_uses()
            .map(|call| wire::ToolCall {
                id: tool_call_id(call.id.as_str(), self.quirks.tool_call_ids),
                function: wire::FunctionCall {
                    name: call_name(&call.name, call_name::OPENAI),
                    arguments: arguments(&call.input),
                },
            })
            .collect();
        let said = Some(said.as_str()).filter(|said| !said.trim().is_empty());
        if said.is_none() && tool_calls.is_empty() {
            return;
        }
        let returned = returned(message, model, self.quirks);
        let (thinking_blocks, reasoning_details) = match returned {
            ReturnedReasoning::Sealed => sealed(&message.content),
            ReturnedReasoning::Words | ReturnedReasoning::None => (Vec::new(), None),
        };
        let words = match returned {
            ReturnedReasoning::Words => thought(&message.content),
            ReturnedReasoning::Sealed | ReturnedReasoning::None => String::new(),
        };
        self.message(&wire::Message::Assistant {
            content: said,
            tool_calls,
            thinking_blocks,
            reasoning_details,
            reasoning_content: &words,
        });
        self.mark.role = Some(Role::Assistant);
    }

    fn message(&mut self, message: &wire::Message<'_>) {
        self.close();
        self.begin();
        self.bytes.push(&json(message));
    }

    fn begin(&mut self) {
        if self.bytes.len() > 0 {
            self.bytes.push(b",");
        }
    }

    /// Ends a message that was left open.
    fn close(&mut self) {
        if std::mem::take(&mut self.mark.is_open) {
            self.bytes.push(b"\"");
            self.mark.breakpoints[1] = Some(self.bytes.len());
            self.bytes.push(b"}");
        }
    }
}

/// What a user says or shows in `block`.
fn part(block: &ContentBlock) -> Option<wire::Part<'_>> {
    match block {
        ContentBlock::Image(image) => Some(picture(image)),
        block => block
            .as_text()
            .filter(|words| !words.trim().is_empty())
            .map(text),
    }
}

fn text(text: &str) -> wire::Part<'_> {
    wire::Part::Text {
        text: text.into(),
        cache_control: None,
    }
}

fn picture(image: &Image) -> wire::Part<'static> {
    let url = data_url(image);
    wire::Part::ImageUrl {
        image_url: wire::ImageUrl { url },
    }
}

/// A picture as an address that holds its data.
pub fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// What goes before the pictures of a result where a user shows them.
pub fn heading(result: &ToolResult) -> String {
    format!("What `{}` shows:", result.tool_name)
}

/// The pictures in a result, as a user shows them.
fn pictures_of(result: &ToolResult) -> impl Iterator<Item = wire::Part<'_>> {
    let pictures = result.content.iter().filter_map(|block| match block {
        ResultBlock::Image(image) => Some(picture(image)),
        ResultBlock::Text { .. } => None,
    });
    let mut pictures = pictures.peekable();
    let heading = pictures.peek().map(|_| wire::Part::Text {
        text: heading(result).into(),
        cache_control: None,
    });
    heading.into_iter().chain(pictures)
}

/// The arguments as JSON text; servers refuse any that are not an object.
pub fn arguments(input: &Input) -> String {
    let arguments = match input {
        Input::Object(_) => serde_json::to_string(input),
        Input::Malformed(malformed) => {
            serde_json::to_string(&serde_json::json!({"malformed_input": malformed}))
        }
    };
    arguments.expect("maps with text for keys")
}

/// Whether a model that begins with thoughts gets those of `answer` back.
pub fn begins_with_thought(answer: &Message, model: &Model, quirks: &Quirks) -> bool {
    returned(answer, model, quirks) == ReturnedReasoning::Sealed
        && !sealed(&answer.content).0.is_empty()
}

/// In which form the reasoning in `message` goes back to `model`: if at all, to the one whose it is.
fn returned(message: &Message, model: &Model, quirks: &Quirks) -> ReturnedReasoning {
    match message.was_written_by(&model.provider, &model.name) {
        true => quirks.returned_reasoning,
        false => ReturnedReasoning::None,
    }
}

/// The reasoning that the model sealed: in the form of the Messages API, and as a list of details.
fn sealed(content: &[ContentBlock]) -> (Vec<wire::SentThinking<'_>>, Option<&RawValue>) {
    let mut details = None;
    let blocks = content.iter().filter_map(|block| match block {
        ContentBlock::Thinking {
            thinking,
            signature: Some(signature),
        } => Some(wire::SentThinking::Thinking {
            thinking,
            signature,
        }),
        ContentBlock::RedactedThinking { data } if data.starts_with('[') => {
            details = serde_json::from_str(data).ok();
            None
        }
        ContentBlock::RedactedThinking { data } => {
            Some(wire::SentThinking::RedactedThinking { data })
        }
        _ => None,
    });
    (blocks.collect(), details)
}

/// The words of the model's reasoning.
fn thought(content: &[ContentBlock]) -> String {
    let words = content.iter().filter_map(|block| match block {
        ContentBlock::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    words.collect()
}

/// The id of a call as the server takes it, the same for the call and its result.
pub fn tool_call_id(id: &str, taken: ToolCallIds) -> Cow<'_, str> {
    let is_taken = match taken {
        ToolCallIds::Any => true,
        ToolCallIds::Short => id.len() <= 40,
        ToolCallIds::Nine => id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
    };
    if is_taken {
        return id.into();
    }
    let hash = fnv(id);
    match taken {
        ToolCallIds::Nine => format!("{:09x}", hash >> 28).into(),
        ToolCallIds::Any | ToolCallIds::Short => format!("call_{hash:016x}").into(),
    }
}

/// A number that stands for `text`, always the same: FNV-1a.
fn fnv(text: &str) -> u64 {
    let bytes = text.bytes().map(u64::from);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ byte).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `value` as JSON.
pub fn json(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    serde_json::to_vec(value).expect("the wire's types have text for keys")
}
