//! Encodes requests of the Messages API. The bytes of messages are cached; the breakpoints of the prompt cache, which
//! move from request to request, are inserted between them. Nothing here does I/O.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    ContentBlock, Continuity, Image, Input, Message, Model, Origin, Price, Request, ResultBlock,
    Role, ToolResult, Update,
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::address::{address, address_of_model};
use super::wire;
use crate::abilities::{Abilities, ThinkingSetting};
use crate::caching::CacheTtl;
use crate::call_name::{self, call_name};
use crate::encoded::{Conversation, EMPTY_MESSAGE, Encoded};
use crate::generation::{FastMode, Generation};
use crate::held::{Held, HeldBody};
use crate::http_model::RequestEncoder;
use crate::openai::{Quirks, ThinkingField};
use crate::rope::Rope;

/// Beta feature with which tools are added by messages.
const INLINE_TOOLS: &str = "inline-tools-2026-09-15";
/// Beta feature with which the server writes summaries, needed as well to send one back.
const SUMMARIES: &str = "compact-2026-09-04";
/// Beta feature with which invalid thinking is left out instead of refused.
const BINDING_CONTROLS: &str = "thinking-binding-controls-2026-08-01";

/// Version of the API in bodies whose model is in the path, from npm `@anthropic-ai/vertex-sdk` 1.1.3.
const VERSION_IN_BODY: &str = "vertex-2023-10-16";
/// Beta feature with which the server holds conversations.
const THREADS: &str = "message-threads-2026-08-12";
/// The field of a request that asks for it.
const THREAD: &str = "thread";
/// How long the server holds a conversation after its last answer, less what a request may take to arrive (Anthropic's guide of
/// message threads, 2 November 2026: 5 minutes).
const HELD_FOR: Duration = Duration::from_secs(290);
/// What stands between an answer and the next message.
const BEHIND_ANSWER: &[u8] = b"]},";
/// Beta feature with which models answer faster that do so as a preview.
const FAST_MODE: &str = "fast-mode-2026-02-01";

/// Encodes requests to one model and caches their messages.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    /// The model at its usual price.
    usual: Model,
    abilities: Abilities,
    generation: Generation,
    encoded: Encoded<Mark>,
    /// Whether a message with tool results may hold nothing else.
    results_alone: bool,
    /// Whether the model's name is in the path.
    model_in_path: bool,
    /// Lifetime of what the requests leave in the prompt cache.
    ttl: CacheTtl,
    /// Further fields of each request, which replace those of the same name.
    further: Map<String, Value>,
    /// Whether the server is asked to hold conversations.
    holds: bool,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn continuity(&self) -> Continuity {
        Continuity {
            appends_tools: self.generation.takes_updates,
            appends_thinking: false,
            binds_thinking: self.generation.binds_thinking,
            summarizes: self.generation.summarizes,
        }
    }

    fn abilities(&mut self) -> &mut Abilities {
        &mut self.abilities
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let mut body = vec![self.head(request, None)];
        let model = &self.model;
        let alone = self.results_alone;
        let Generation {
            takes_updates,
            summarizes,
            ..
        } = self.generation;
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, mark, bytes| {
                mark.results_alone = alone;
                match &message.origin {
                    Origin::Update(update) if takes_updates && !update.is_empty() => {
                        append_update(message, update, mark, bytes);
                    }
                    Origin::Summary { .. } => append_summary(message, summarizes, mark, bytes),
                    _ => append(message, model, mark, bytes),
                }
            });
        body.extend(pieces(conversation, 0, self.ttl));
        body
    }

    fn held(&mut self, request: &Request, whole: &[Bytes]) -> Option<HeldBody> {
        let is_refused = || {
            self.abilities
                .refused_fields
                .iter()
                .any(|name| name == THREAD)
        };
        if !self.holds || request.summary.is_some() || is_refused() {
            return None;
        }
        let (head, messages) = whole.split_first()?;
        let rest = self.encoded.take_held(head).and_then(|(held, all, end)| {
            let is_fresh = held.at.elapsed() < HELD_FOR;
            let rest = pieces(all, end + BEHIND_ANSWER.len(), self.ttl);
            // An answer is followed by a message of its own.
            let begins = all.bytes().has_at(end, BEHIND_ANSWER);
            (is_fresh && begins).then_some((held, rest))
        });
        let (thread, pieces) = match &rest {
            Some((held, pieces)) => (
                wire::Thread::Continue {
                    previous_message_id: &held.answer,
                },
                pieces.as_slice(),
            ),
            None => (wire::Thread::Create, messages),
        };
        let mut body = vec![self.head(request, Some(thread))];
        body.extend_from_slice(pieces);
        let rest_of = rest.map(|(held, _)| held);
        Some(HeldBody { body, rest_of })
    }

    fn hold(&mut self, first: &Arc<Message>, held: Held) {
        self.encoded.hold(first, held);
    }

    fn hold_nothing(&mut self) {
        self.holds = false;
    }
}

impl Encoder {
    /// An encoder for requests to `model`. Summaries are left to the server only if [that](Self::summarizing) is asked
    /// for.
    pub fn new(model: Model, abilities: Abilities) -> Self {
        Self {
            generation: Generation {
                summarizes: false,
                fast: FastMode::No,
                ..Generation::of(&model.name)
            },
            usual: model.clone(),
            model,
            abilities,
            encoded: Encoded::default(),
            results_alone: false,
            model_in_path: false,
            ttl: CacheTtl::default(),
            further: Map::new(),
            holds: false,
        }
    }

    /// Adds fields of the user's own to each request.
    #[must_use]
    pub fn with_fields(mut self, mut fields: Map<String, Value>) -> Self {
        fields.shift_remove("messages");
        self.further = fields;
        self
    }

    /// Adapts the requests to a server with these deviations.
    #[must_use]
    pub fn with_quirks(mut self, quirks: &Quirks) -> Self {
        self.results_alone = quirks.results_alone;
        self.model_in_path = quirks.model_in_path;
        self.generation.takes_updates &= !quirks.no_updates;
        self
    }

    /// Returns the address for the requests below that of the server.
    pub(super) fn address(&self, base: &str) -> String {
        match self.model_in_path {
            true => address_of_model(base, &self.model.name),
            false => address(base),
        }
    }

    /// Returns the encoder without the features that only newer servers know, and whether it had any.
    pub(super) fn plain(&self) -> (Self, bool) {
        let generation = Generation {
            binds_thinking: self.generation.binds_thinking,
            ..Generation::default()
        };
        let plain = Self {
            model: self.usual.clone(),
            usual: self.usual.clone(),
            abilities: self.abilities.clone(),
            generation,
            encoded: Encoded::default(),
            results_alone: self.results_alone,
            model_in_path: self.model_in_path,
            ttl: self.ttl,
            further: self.further.clone(),
            holds: false,
        };
        (plain, generation != self.generation)
    }

    /// Returns the beta features that the requests use.
    pub(super) fn betas(&self) -> impl Iterator<Item = &'static str> + use<> {
        let Generation {
            takes_updates,
            binds_thinking,
            always_thinks,
            hides_thoughts: _,
            summarizes,
            fast,
        } = self.generation;
        let betas = [
            takes_updates.then_some(INLINE_TOOLS),
            (binds_thinking && always_thinks).then_some(BINDING_CONTROLS),
            summarizes.then_some(SUMMARIES),
            (fast == FastMode::Preview).then_some(FAST_MODE),
            self.holds.then_some(THREADS),
        ];
        betas.into_iter().flatten()
    }

    /// Returns the thinking of a request. A model that thinks by itself is asked to show its thoughts, which include what it
    /// says between its calls, and to leave out invalid thinking instead of refusing the request.
    fn thinking(&self, setting: Option<ThinkingSetting>) -> Option<wire::Thinking> {
        let Generation {
            always_thinks,
            hides_thoughts,
            ..
        } = self.generation;
        let is_adaptive = match setting {
            None => always_thinks,
            Some(setting) => matches!(setting, ThinkingSetting::Adaptive(_)),
        };
        if !hides_thoughts || !is_adaptive {
            return setting.map(wire::Thinking::from);
        }
        let binding = wire::BlockBinding {
            prefix_mismatch_behavior: wire::MismatchBehavior::DropBlock,
        };
        Some(wire::Thinking::Adaptive {
            display: Some(wire::Display::Summarized),
            block_binding: (self.generation.binds_thinking && always_thinks).then_some(binding),
        })
    }

    /// Keeps what the requests leave in the prompt cache for `ttl`.
    pub fn cached_for(mut self, ttl: CacheTtl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Leaves summaries to the server, if `is_wanted` and it offers that for the model.
    pub fn summarizing(mut self, is_wanted: bool) -> Self {
        let offered = Generation::of(&self.model.name).summarizes;
        self.generation.summarizes = is_wanted && offered;
        self
    }

    /// Asks the server to hold conversations, if `is_wanted`.
    pub fn holding(mut self, is_wanted: bool) -> Self {
        self.holds = is_wanted;
        self
    }

    /// Asks for faster answers at a higher price, if `is_wanted` and the model has them.
    pub fn fast(mut self, is_wanted: bool) -> Self {
        let offered = Generation::of(&self.model.name).fast;
        if is_wanted && offered != FastMode::No {
            self.generation.fast = offered;
            let price = |price: Price| price.times(FastMode::PRICE);
            self.model.price = self.usual.price.map(price);
            let long = self.usual.long_price;
            self.model.long_price = long.map(|(above, long)| (above, price(long)));
        }
        self
    }

    /// The body up to the messages. Its size does not grow with the session, so it is not cached. A server that continues a
    /// conversation has its system prompt and its tools.
    fn head(&self, request: &Request, thread: Option<wire::Thread<'_>>) -> Bytes {
        let continues = matches!(thread, Some(wire::Thread::Continue { .. }));
        let begins_with_thinking = |answer: &Message| {
            let first = blocks(answer, &self.model).into_iter().next();
            first.as_ref().is_some_and(wire::Block::is_thinking)
        };
        let settings = self.abilities.effective_in_turn(
            request,
            ThinkingField::Thinking,
            begins_with_thinking,
        );
        let added = match self.generation.takes_updates {
            true => &[],
            false => &request.added[..],
        };
        let last_tool = (request.tools.len() + added.len()).saturating_sub(1);
        let tools = request
            .tools
            .iter()
            .chain(added)
            .filter(|_| !continues)
            .enumerate()
            .map(|(index, tool)| wire::Tool {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.input_schema,
                cache_control: (index == last_tool).then_some(self.ttl.control()),
            });
        let mut system: Vec<_> = request
            .system
            .iter()
            .map(String::as_str)
            .filter(|text| !text.trim().is_empty() && !continues)
            .map(|text| wire::SystemBlock {
                text,
                cache_control: None,
            })
            .collect();
        if let Some(last) = system.last_mut() {
            last.cache_control = Some(self.ttl.control());
        }
        let thinking = self.thinking(settings.thinking);
        // While a model thinks, none can be chosen for it.
        let thinks = !matches!(thinking, None | Some(wire::Thinking::Disabled));
        let head = wire::Head {
            model: (!self.model_in_path).then_some(&*self.model.name),
            anthropic_version: self.model_in_path.then_some(VERSION_IN_BODY),
            max_tokens: settings.max_output,
            // Where the model is in the path, so is the stream.
            stream: !request.whole || self.model_in_path,
            thinking,
            output_config: settings.effort.map(|effort| wire::OutputConfig {
                effort: effort.as_str(),
            }),
            temperature: settings.temperature,
            top_p: settings.top_p,
            speed: (self.generation.fast != FastMode::No).then_some("fast"),
            stop_sequences: settings.stop,
            tools: tools.collect(),
            tool_choice: { request.answer.as_ref() }
                .filter(|_| !thinks)
                .map(|answer| wire::ToolChoice::Tool { name: &answer.tool }),
            system,
            compaction: { request.summary.as_deref() }
                .filter(|_| self.generation.summarizes)
                .map(|instructions| wire::Compaction::Summarize {
                    instructions: Some(instructions).filter(|text| !text.is_empty()),
                }),
            thread,
        };
        let mut head = match self.further.is_empty() {
            true => json(&head),
            false => json(&extended(&head, &self.further)),
        };
        head.pop();
        head.extend_from_slice(br#","messages":["#);
        head.into()
    }
}

/// Returns `head` with further fields, which replace those of the same name.
fn extended(head: &wire::Head<'_>, further: &Map<String, Value>) -> Value {
    let mut head = json!(head);
    if let Some(fields) = head.as_object_mut() {
        fields.extend(further.clone());
    }
    head
}

/// State of the encoder after a message. The bytes do not include the end of the last message.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    /// Role of the message that is still open; further blocks of this role are added to it.
    open: Option<wire::Role>,
    /// Offsets for breakpoints at the ends of the last two user messages, in order. As long as there is one, the first is
    /// that of its first block.
    breakpoints: [Option<usize>; 2],
    /// Whether a message with tool results may hold nothing else.
    results_alone: bool,
    /// Whether the last block is a tool result.
    is_result: bool,
}

/// Appends the bytes of `message`, to the open message if it has the same role.
fn append(message: &Message, model: &Model, mark: &mut Mark, bytes: &mut Rope) {
    let role = match message.role {
        Role::User => wire::Role::User,
        Role::Assistant => wire::Role::Assistant,
    };
    push(role, blocks(message, model), mark, bytes);
}

/// Appends the bytes of an update: what others can edit for the user, what the engine itself decides as a system
/// message. That must follow a message of the user and precede an answer, which the order of the messages ensures.
fn append_update(message: &Message, update: &Update, mark: &mut Mark, bytes: &mut Rope) {
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
fn append_summary(message: &Message, as_written: bool, mark: &mut Mark, bytes: &mut Rope) {
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
fn pieces(conversation: &Conversation<Mark>, from: usize, ttl: CacheTtl) -> Vec<Bytes> {
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
fn blocks<'a>(message: &'a Message, model: &Model) -> Vec<wire::Block<'a>> {
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

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the wire's types have text for keys")
}
