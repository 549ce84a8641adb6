//! Encodes messages for chat completions: each tool result as a message of its own, before the text of the user; images
//! as data URLs.
//!
//! Consecutive user messages of text alone become one, since the chat templates of local models require that the roles
//! alternate. The end of such a message is therefore left open until another message follows.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{
    Audio, ContentBlock, Fields, Image, Input, Message, Model, ResultBlock, Role, ToolResult,
    ToolUse, json, text_of,
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::quirks::{Quirks, ReturnedReasoning, ToolCallIds};
use super::{reasoning, wire};
use crate::call_name::{self, call_name};
use crate::encoded::{Conversation, EMPTY_MESSAGE};
use crate::rope::Rope;

/// Prefix of a tool result that is an error, since there is no field for it.
pub const ERROR_PREFIX: &str = "Error: ";

/// State of the encoder after a message.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mark {
    /// Whether the last message is a user message of text alone, which is still open.
    is_open: bool,
    /// Role of the last message.
    role: Option<Role>,
    /// Offsets for breakpoints at the ends of the last two user turns, in order. As long as there is one, the first is that
    /// of its first text.
    breakpoints: [Option<usize>; 2],
}

/// What messages are written for.
#[derive(Clone, Copy)]
pub struct Form<'a> {
    /// The model.
    pub model: &'a Model,
    /// Deviations of its server.
    pub quirks: &'a Quirks,
    /// Whether the model takes sound.
    pub hears: bool,
    /// All messages, for a server that takes one call in an answer: others are written before their results.
    pub one_by_one: Option<&'a [Arc<Message>]>,
}

/// Appends the bytes of `message`.
pub fn append(message: &Message, form: Form<'_>, mark: &mut Mark, bytes: &mut Rope) {
    let mut writer = Writer { form, mark, bytes };
    match message.role {
        Role::User => writer.user(message),
        Role::Assistant => writer.assistant(message),
    }
}

/// Returns the bytes of all messages and the end of the body. `breakpoint`, if given, is a field that is inserted before
/// the last `}` of the messages or parts where the prompt cache is to end.
pub fn pieces(conversation: &Conversation<Mark>, breakpoint: Option<&'static str>) -> Vec<Bytes> {
    let mark = conversation.mark();
    let breakpoints: Vec<_> = mark
        .breakpoints
        .into_iter()
        .flatten()
        .filter(|_| breakpoint.is_some())
        .collect();
    let mut pieces = conversation
        .bytes()
        .split_by(0, &breakpoints, breakpoint.unwrap_or_default());
    let ends = match mark.is_open {
        true => ["\"", breakpoint.unwrap_or_default(), "}]}"],
        false => ["", "", "]}"],
    };
    pieces.extend(ends.map(|end| Bytes::from_static(end.as_bytes())));
    pieces
}

struct Writer<'a> {
    form: Form<'a>,
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
        for (place, result) in message.tool_results().enumerate() {
            if place > 0 {
                self.call_of(result);
            }
            self.result(result);
        }
        let parts: Vec<_> = message
            .tool_results()
            .flat_map(|result| beside(result, !self.form.quirks.images_in_results, self.form.hears))
            .chain(message.content.iter().filter_map(part))
            .collect();
        if parts.is_empty() && !message.is_results() {
            return self.text(EMPTY_MESSAGE);
        }
        let is_text = |part: &wire::Part<'_>| matches!(part, wire::Part::Text { .. });
        if !parts.iter().all(is_text) {
            self.message(&wire::Message::User { content: parts });
            self.mark.breakpoints[1] = Some(self.bytes.len() - "}]}".len());
            return;
        }
        for part in parts {
            if let wire::Part::Text { text, .. } = part {
                self.text(&text);
            }
        }
    }

    /// Adds text of the user.
    fn text(&mut self, text: &str) {
        let quoted = json(text);
        let inside = &quoted[1..quoted.len() - 1];
        if self.form.quirks.cache_control && self.mark.breakpoints[0].is_none() {
            // In the first message, the first text is what the sessions of a project share.
            self.close();
            self.mark.breakpoints[0] = self.mark.breakpoints[1];
        }
        if self.mark.is_open {
            self.bytes.push(br"\n\n");
        } else {
            self.bytes.begin_item();
            self.bytes.push(br#"{"role":"user","content":""#);
            self.mark.is_open = true;
            // Its offset is known when it ends.
            self.mark.breakpoints[1] = None;
        }
        self.bytes.push(inside);
    }

    /// Writes the call that `result` answers, for a server that takes one call in an answer.
    fn call_of(&mut self, result: &ToolResult) {
        let Some(messages) = self.form.one_by_one else {
            return;
        };
        let mut calls = messages
            .iter()
            .rev()
            .flat_map(|message| message.tool_uses());
        if let Some(call) = calls.find(|call| call.id == result.tool_use_id) {
            let tool_calls = vec![self.call(call, None)];
            self.message(&wire::Message::Assistant {
                content: None,
                tool_calls,
                thinking_blocks: Vec::new(),
                opaque: Fields::new(),
            });
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let is_image = |block: &ResultBlock| matches!(block, ResultBlock::Image(_));
        let has_images = result.content.iter().any(is_image);
        let prefix = if result.is_error { ERROR_PREFIX } else { "" };
        let content = if has_images && self.form.quirks.images_in_results {
            let parts = result.content.iter().filter_map(|block| match block {
                ResultBlock::Text { text } => Some(self::text(text)),
                ResultBlock::Image(image) => Some(self::image(image)),
                // It is sent beside the result.
                ResultBlock::Audio(_) => None,
            });
            let prefix = result.is_error.then(|| text(ERROR_PREFIX));
            wire::SentContent::Parts(prefix.into_iter().chain(parts).collect())
        } else {
            wire::SentContent::Text(format!("{prefix}{}", result.text()))
        };
        self.message(&wire::Message::Tool {
            tool_call_id: tool_call_id(result.tool_use_id.as_str(), self.form.quirks.tool_call_ids),
            content,
        });
        self.mark.breakpoints[1] = Some(self.bytes.len() - 1);
    }

    fn assistant(&mut self, message: &Message) {
        let model = self.form.model;
        let text = text_of(&message.content);
        let opaque = message.opaque_of(&model.provider, &model.name);
        let calls = message.content.iter().enumerate();
        let most = match self.form.one_by_one {
            Some(_) => 1,
            None => usize::MAX,
        };
        let mut tool_calls: Vec<_> = calls
            .filter_map(|(place, block)| match block {
                ContentBlock::ToolUse(call) => {
                    Some(self.call(call, opaque.and_then(|opaque| opaque.of_block(place))))
                }
                _ => None,
            })
            .take(most)
            .collect();
        // Gateways put the vendor before the name.
        let is_gemini =
            { model.name.rsplit('/').next() }.is_some_and(|it| it.starts_with("gemini-"));
        let is_signed = self.form.quirks.signed_calls && is_gemini;
        if let Some(first) = tool_calls.first_mut().filter(|_| is_signed) {
            first.sign();
        }
        let text = Some(text.as_str()).filter(|text| !text.trim().is_empty());
        if text.is_none() && tool_calls.is_empty() {
            return;
        }
        let returned = returned(message, model, self.form.quirks);
        let thinking_blocks = match returned {
            ReturnedReasoning::Sealed => signed(&message.content),
            ReturnedReasoning::Words | ReturnedReasoning::Always | ReturnedReasoning::None => {
                Vec::new()
            }
        };
        let mut fields = opaque.map_or_else(Fields::new, |opaque| opaque.message.clone());
        match returned {
            ReturnedReasoning::None => fields.retain(|name, _| !reasoning::is_reasoning(name)),
            ReturnedReasoning::Words | ReturnedReasoning::Always => {
                reasoning::add_text(&mut fields);
            }
            ReturnedReasoning::Sealed => fields.extend(former_details(&message.content)),
        }
        let given = fields.shift_remove("content");
        let content = given.filter(|_| returned != ReturnedReasoning::None);
        let content = match content {
            Some(content) => Some(wire::AnswerContent::Given(content)),
            None => text.map(wire::AnswerContent::Text),
        };
        let mut fields = reasoning::with_text(fields, &reasoning_text(&message.content));
        if self.form.quirks.returned_reasoning == ReturnedReasoning::Always {
            reasoning::fill(&mut fields);
        }
        self.message(&wire::Message::Assistant {
            content,
            tool_calls,
            thinking_blocks,
            opaque: taken(fields, self.form.quirks),
        });
        self.mark.role = Some(Role::Assistant);
    }

    /// A call with the fields that the server gave with it.
    fn call<'c>(&self, call: &'c ToolUse, opaque: Option<&Fields>) -> wire::ToolCall<'c> {
        let mut opaque = taken(opaque.cloned().unwrap_or_default(), self.form.quirks);
        let of_function = opaque.shift_remove("function");
        wire::ToolCall {
            id: tool_call_id(call.id.as_str(), self.form.quirks.tool_call_ids),
            function: wire::FunctionCall {
                name: call_name(&call.name, call_name::OPENAI),
                arguments: arguments(&call.input),
                opaque: match of_function {
                    Some(Value::Object(fields)) => fields,
                    _ => Fields::new(),
                },
            },
            opaque,
        }
    }

    fn message(&mut self, message: &wire::Message<'_>) {
        self.close();
        self.bytes.begin_item();
        self.bytes.push(&json(message));
    }

    /// Ends the open message.
    fn close(&mut self) {
        if std::mem::take(&mut self.mark.is_open) {
            self.bytes.push(b"\"");
            self.mark.breakpoints[1] = Some(self.bytes.len());
            self.bytes.push(b"}");
        }
    }
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
    wire::Part::Text {
        text: text.into(),
        cache_control: None,
    }
}

fn image(image: &Image) -> wire::Part<'static> {
    let url = data_url(image);
    wire::Part::ImageUrl {
        image_url: wire::ImageUrl { url },
    }
}

/// Returns an image as a data URL.
pub fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// Returns the heading of the images and sounds of a tool result, where they are sent in a user message.
pub fn heading(result: &ToolResult) -> String {
    format!("What `{}` shows:", result.tool_name)
}

fn audio(audio: &Audio) -> wire::Part<'_> {
    let format = match audio.media_type.as_str() {
        "audio/wav" => "wav",
        _ => "mp3",
    };
    wire::Part::InputAudio {
        input_audio: wire::InputAudio {
            data: &audio.data,
            format,
        },
    }
}

/// The images and the sound in a tool result that are sent beside it, with a heading, as parts of a user message.
fn beside(
    result: &ToolResult,
    has_images: bool,
    has_audio: bool,
) -> impl Iterator<Item = wire::Part<'_>> {
    let mut parts = result
        .content
        .iter()
        .filter_map(move |block| match block {
            ResultBlock::Image(image) if has_images => Some(self::image(image)),
            ResultBlock::Audio(audio) if has_audio => Some(self::audio(audio)),
            ResultBlock::Image(_) | ResultBlock::Audio(_) | ResultBlock::Text { .. } => None,
        })
        .peekable();
    let heading = parts.peek().map(|_| wire::Part::Text {
        text: heading(result).into(),
        cache_control: None,
    });
    heading.into_iter().chain(parts)
}

/// Returns the arguments as JSON text. In the place of malformed ones stand none: servers accept nothing but an object, the
/// result says what was wrong, and a model copies what it sees in its own calls.
pub fn arguments(input: &Input) -> String {
    match input {
        Input::Object(_) => serde_json::to_string(input).expect("maps with text for keys"),
        Input::Malformed(_) => "{}".to_owned(),
    }
}

/// Returns those of the fields that the server takes back.
pub fn taken(mut fields: Fields, quirks: &Quirks) -> Fields {
    if let Some(names) = &quirks.returned_fields {
        fields.retain(|name, _| names.contains(name));
    }
    fields
}

/// Returns whether `answer` is sent with thinking blocks.
pub fn begins_with_thinking(answer: &Message, model: &Model, quirks: &Quirks) -> bool {
    returned(answer, model, quirks) == ReturnedReasoning::Sealed
        && !signed(&answer.content).is_empty()
}

/// The form in which the reasoning in `message` is returned to `model`. Only the model that wrote it gets it back.
fn returned(message: &Message, model: &Model, quirks: &Quirks) -> ReturnedReasoning {
    if message.was_written_by(&model.provider, &model.name) {
        quirks.returned_reasoning
    } else {
        ReturnedReasoning::None
    }
}

/// The signed reasoning, as blocks of the Messages API.
fn signed(content: &[ContentBlock]) -> Vec<wire::SentThinking<'_>> {
    let blocks = content.iter().filter_map(|block| match block {
        ContentBlock::Thinking {
            thinking,
            signature: Some(signature),
        } => Some(wire::SentThinking::Thinking {
            thinking,
            signature,
        }),
        ContentBlock::RedactedThinking { data } if !data.starts_with('[') => {
            Some(wire::SentThinking::RedactedThinking { data })
        }
        _ => None,
    });
    blocks.collect()
}

/// The list of signed reasoning of a session of version 0.1, which kept it in a block.
fn former_details(content: &[ContentBlock]) -> Option<(String, Value)> {
    content.iter().find_map(|block| match block {
        ContentBlock::RedactedThinking { data } if data.starts_with('[') => {
            let details = json::from_str(data).ok()?;
            Some(("reasoning_details".to_owned(), details))
        }
        _ => None,
    })
}

/// The text of the reasoning.
fn reasoning_text(content: &[ContentBlock]) -> String {
    content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Thinking { thinking, .. } => Some(thinking.as_str()),
            _ => None,
        })
        .collect()
}

/// Returns the id of a call in the form that the server accepts, the same for the call and its result.
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

/// The FNV-1a hash of `text`, which is the same in every run.
fn fnv(text: &str) -> u64 {
    let bytes = text.bytes().map(u64::from);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ byte).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns `value` as JSON.
pub fn json(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    serde_json::to_vec(value).expect("the wire's types have text for keys")
}
