//! Encodes requests of the Responses API. Nothing is stored on the server unless the user has it so: a request holds the whole
//! conversation, with the encrypted reasoning of the model, or what is new to a server that holds the rest. Nothing here does I/O.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Continuity, Effort, Image, Message, Model, Origin, Request, ResultBlock, Role,
    ToolResult, ToolSpec, Update, json,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::generation::Generation;
use super::wire;
use crate::abilities::{Abilities, effort_for};
use crate::caching::CacheTtl;
use crate::call_name::{self, call_name};
use crate::encoded::{EMPTY_MESSAGE, Encoded};
use crate::held::{Held, HeldBody};
use crate::openai::encode::{model_name, passed_on};
use crate::openai::messages::taken;
use crate::openai::messages::{ERROR_PREFIX, arguments, data_url, heading, json, tool_call_id};
use crate::openai::{Additions, AnswerField, Quirks, ReturnedReasoning};
use crate::request_encoder::RequestEncoder;

/// Prefixes of models that do not reason, and reject a request for encrypted reasoning.
const WITHOUT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-4"];

/// Fields of which a user's own would replace what a held conversation needs.
const OF_HELD: [&str; 4] = [
    "background",
    "conversation",
    "previous_response_id",
    "stream",
];
/// What ends the list of items and the body.
const END: &[u8] = b"]}";

/// Role of what the engine itself says.
const DEVELOPER: &str = "developer";

/// Encodes requests to one model and caches their messages.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    additions: Additions,
    quirks: Quirks,
    generation: Generation,
    encoded: Encoded<()>,
    ttl: CacheTtl,
    /// How the server is asked to hold conversations, if it is.
    holds: Option<Way>,
}

/// A way in which a server holds conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As long as a WebSocket is open.
    Socket,
    /// With its other data, as the user allows.
    Stored,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn continuity(&self) -> Continuity {
        Continuity {
            appends_tools: self.generation.takes_updates,
            appends_thinking: self.generation.takes_effort,
            binds_thinking: self.generation.binds_thinking,
            summarizes: false,
        }
    }

    fn abilities(&mut self) -> &mut Abilities {
        &mut self.abilities
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let mut body = vec![self.head(request, None)];
        body.push(self.standing_words(request).unwrap_or_default());
        let (model, quirks, generation) = (&self.model, &self.quirks, self.generation);
        let effort = |request: &Request| effort(&self.abilities, &self.quirks, request);
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, (), bytes| {
                let inputs = match &message.origin {
                    Origin::Update(update) if generation.takes_updates && !update.is_empty() => {
                        let thinking = update.thinking.filter(|_| generation.takes_effort);
                        let effort = thinking.map(|thinking| {
                            effort(&Request {
                                thinking,
                                ..Request::default()
                            })
                        });
                        told(message, update, &request.tools, effort)
                    }
                    _ => inputs(message, model, quirks),
                };
                for input in inputs {
                    bytes.begin_item();
                    bytes.push(&json(&input));
                }
            });
        body.extend(conversation.bytes().split_by(0, &[], ""));
        body.push(Bytes::from_static(END));
        body
    }

    fn beginning(&self, whole: &[Bytes]) -> Bytes {
        let [head, words, ..] = whole else {
            return Bytes::new();
        };
        [&head[..], &words[..]].concat().into()
    }

    fn held(&mut self, request: &Request, whole: &[Bytes]) -> Option<HeldBody> {
        // A request without tools is hardly continued, and one without a stream is none over a socket.
        let is_fit = !request.whole && !request.tools.is_empty();
        let way = self.holds.filter(|_| is_fit)?;
        let (_, all) = whole.split_first()?;
        let beginning = self.beginning(whole);
        let rest = self.encoded.take_rest(&request.messages, &beginning);
        let (rest_of, items) = match rest {
            Some((held, mut items)) => {
                items.push(Bytes::from_static(END));
                (Some(held), items)
            }
            None => (None, all.to_vec()),
        };
        let previous = rest_of.as_ref().map(|held| &*held.answer);
        let mut body = vec![self.head(request, Some((way, previous)))];
        body.extend(items);
        Some(HeldBody { body, rest_of })
    }

    fn hold(&mut self, first: &Arc<Message>, held: Held) {
        self.encoded.hold(first, held);
    }

    fn said(&self, first: &Arc<Message>, messages: usize) -> Option<String> {
        self.encoded.said(first, messages)
    }

    fn hold_nothing(&mut self) {
        self.holds = None;
    }

    fn outlives_connection(&self) -> bool {
        self.holds == Some(Way::Stored)
    }

    fn needs_sockets(&self) -> bool {
        self.holds == Some(Way::Socket)
    }
}

impl Encoder {
    /// An encoder for requests to `model`.
    pub fn new(model: Model, abilities: Abilities, additions: Additions, quirks: Quirks) -> Self {
        Self {
            generation: Generation::of(&model.name),
            model,
            abilities,
            additions,
            quirks,
            encoded: Encoded::default(),
            ttl: CacheTtl::default(),
            holds: None,
        }
    }

    /// Asks the server to hold conversations, if `is_wanted` and no field of the user's own is in the way: with its other data
    /// where the user has it store them, or else as long as a WebSocket is open.
    pub fn holding(mut self, is_wanted: bool) -> Self {
        let is_own = |name: &&str| self.additions.body.contains_key(*name);
        let way = match self.additions.body.get("store") {
            Some(Value::Bool(true)) => Way::Stored,
            _ => Way::Socket,
        };
        self.holds = Some(way).filter(|_| is_wanted && !OF_HELD.iter().any(is_own));
        self
    }

    /// Keeps what the requests leave in the prompt cache for `ttl`, as far as the server can be asked for that.
    pub fn cached_for(mut self, ttl: CacheTtl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Returns the encoder without the features that only newer servers know, and whether it had any.
    pub(super) fn plain(&self) -> (Self, bool) {
        let generation = Generation {
            binds_thinking: self.generation.binds_thinking,
            ..Generation::default()
        };
        let plain = Self {
            model: self.model.clone(),
            abilities: self.abilities.clone(),
            additions: self.additions.clone(),
            quirks: self.quirks.clone(),
            generation,
            encoded: Encoded::default(),
            ttl: self.ttl,
            holds: self.holds,
        };
        (plain, generation != self.generation)
    }

    /// The body up to the messages. Its size does not grow with the session, so it is not cached. `held` is the way in which the
    /// server holds the conversation, and the answer up to which it does.
    fn head(&self, request: &Request, held: Option<(Way, Option<&str>)>) -> Bytes {
        let generation = self.generation;
        let mut head = self.first_fields(request, held);
        head.insert("store".into(), false.into());
        if self.reasons() {
            head.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        if let Some(first) = request
            .messages
            .first()
            .filter(|_| generation.takes_cache_key)
        {
            head.insert("prompt_cache_key".into(), first.id.as_str().into());
        }
        if generation.takes_cache_options && self.ttl == CacheTtl::Hour {
            // Entries live for half an hour or for twelve.
            head.insert("prompt_cache_options".into(), json!({"ttl": "12h"}));
        }
        // There is no field for stop sequences.
        let settings = self.abilities.effective(request, self.quirks.thinking);
        head.insert("max_output_tokens".into(), settings.max_output.into());
        let effort = match generation.takes_effort {
            true => self.effort(&Request {
                thinking: request.first_thinking,
                ..Request::default()
            }),
            false => self.effort(request),
        };
        if let Some(effort) = effort {
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
        if let Some(words) = system(request).filter(|_| !generation.takes_updates) {
            head.insert("instructions".into(), words.into());
        }
        let added = match generation.takes_updates {
            true => &[],
            false => &request.added[..],
        };
        if request.tools.len() + added.len() > 0 {
            let tools: Vec<_> = request.tools.iter().chain(added).map(tool).collect();
            head.insert("tools".into(), json!(tools));
        }
        match (&request.answer, self.quirks.answer_form) {
            (None, _) | (_, AnswerField::None) => {}
            (Some(answer), AnswerField::ToolChoice) => {
                let choice = json!({"type": "function", "name": answer.tool});
                head.insert("tool_choice".into(), choice);
            }
            (Some(answer), AnswerField::Usual | AnswerField::ResponseFormat) => {
                let schema = &*answer.schema;
                let format = json!({"type": "json_schema", "name": "answer", "schema": schema});
                head.insert("text".into(), json!({"format": format}));
            }
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

    /// The fields that depend on how the request is sent.
    fn first_fields(
        &self,
        request: &Request,
        held: Option<(Way, Option<&str>)>,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        let is_over_socket = matches!(held, Some((Way::Socket, _)));
        if is_over_socket {
            fields.insert("type".into(), "response.create".into());
        }
        fields.insert("model".into(), model_name(&self.model, &self.quirks).into());
        if let Some((_, Some(previous))) = held {
            fields.insert("previous_response_id".into(), previous.into());
        }
        if !is_over_socket {
            fields.insert("stream".into(), (!request.whole).into());
        }
        fields
    }

    /// The system prompt as the first message. `instructions` stand behind the conversation for models since GPT-6.2, so
    /// that they would be paid for in full with each request (OpenAI's guide of GPT-6.2, 17 November 2026). Others keep
    /// them: Ollama leaves out developer messages (its issue 18305, 8 September 2026), and other servers of open models
    /// refuse them.
    fn standing_words(&self, request: &Request) -> Option<Bytes> {
        let words = system(request).filter(|_| self.generation.takes_updates)?;
        let mut bytes = json(&developer(words.into()));
        if !request.messages.is_empty() {
            bytes.push(b',');
        }
        Some(bytes.into())
    }

    /// Returns the effort that the thinking setting of `request` asks for.
    fn effort(&self, request: &Request) -> Option<Effort> {
        effort(&self.abilities, &self.quirks, request)
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

/// Returns the effort that the thinking setting of `request` asks for.
pub(crate) fn effort(abilities: &Abilities, quirks: &Quirks, request: &Request) -> Option<Effort> {
    let settings = abilities.effective(request, quirks.thinking);
    let of_budget = || abilities.effort(effort_for(settings.thinking?.tokens()));
    settings.effort.or_else(of_budget)
}

/// Returns the system prompt, if it says anything.
pub(crate) fn system(request: &Request) -> Option<String> {
    let parts: Vec<_> = request
        .system
        .iter()
        .map(String::as_str)
        .filter(|part| !part.trim().is_empty())
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn tool(tool: &ToolSpec) -> wire::Tool<'_> {
    wire::Tool {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
        strict: false,
    }
}

fn developer(text: Cow<'_, str>) -> wire::Input<'_> {
    wire::Input::Message {
        role: DEVELOPER,
        content: wire::InputContent::Text(text),
    }
}

/// The items of an update: what others can edit for the user, what the engine itself decides for the developer. A tool that
/// stands in the head of the request as well cannot be replaced by an item (measured in npm `@earendil-works/pi-ai` 1.6.0,
/// October 2026), so its change is told in words.
fn told<'a>(
    message: &'a Message,
    update: &'a Update,
    first: &[ToolSpec],
    effort: Option<Option<Effort>>,
) -> Vec<wire::Input<'a>> {
    let [facts, mode, of_tools, _] = message.words_of(update);
    let is_first = |name: &str| first.iter().any(|tool| tool.name == name);
    let (changed, new): (Vec<_>, Vec<_>) =
        { update.tools.iter() }.partition(|tool| is_first(&tool.name));
    let mut items = Vec::new();
    items.extend(facts.map(|text| wire::Input::Message {
        role: "user",
        content: wire::InputContent::Text(text.into()),
    }));
    if !new.is_empty() {
        let tools = new.into_iter().map(|tool| wire::Tool {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
            strict: false,
        });
        items.push(wire::Input::AdditionalTools(wire::AdditionalTools {
            role: DEVELOPER,
            tools: tools.collect(),
        }));
    }
    let of_changed = of_tools.filter(|_| !changed.is_empty());
    items.extend(
        [mode, of_changed]
            .into_iter()
            .flatten()
            .map(|text| developer(text.into())),
    );
    items.extend(effort.map(|effort| {
        let effort = effort.map(Effort::as_str);
        wire::Input::ConfigurationUpdate(wire::ConfigurationUpdate {
            reasoning: wire::Reasoning { effort },
        })
    }));
    items
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
    let opaque = message.opaque_of(&model.provider, &model.name);
    let inputs = message
        .content
        .iter()
        .enumerate()
        .filter_map(|(place, block)| {
            let input = assistant_item(block, is_own, quirks)?;
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
    is_own: bool,
    quirks: &Quirks,
) -> Option<wire::Input<'a>> {
    match block {
        ContentBlock::Thinking {
            signature: Some(signature),
            ..
        } if is_own && quirks.returned_reasoning != ReturnedReasoning::None => {
            let item: &RawValue = json::own(signature).ok()?;
            Some(wire::Input::Reasoning(item))
        }
        // An item that only its server understands.
        ContentBlock::Other { raw } if is_own => Some(wire::Input::Given(raw.clone())),
        ContentBlock::ToolUse(call) => Some(wire::Input::FunctionCall(wire::FunctionCall {
            call_id: tool_call_id(call.id.as_str(), quirks.tool_call_ids),
            name: call_name(&call.name, call_name::OPENAI),
            arguments: arguments(&call.input),
        })),
        block => {
            let text = block.as_text().filter(|text| !text.trim().is_empty())?;
            let content = wire::InputContent::Text(text.into());
            let role = "assistant";
            Some(wire::Input::Answer(wire::Answer { role, content }))
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
