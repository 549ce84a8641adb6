//! Encodes requests of the Messages API. The bytes of messages are cached; the breakpoints of the prompt cache, which
//! move from request to request, are inserted between them. Nothing here does I/O.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Continuity, Message, Model, Origin, Price, Request};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::address::{address, address_of_model};
use super::messages::{Mark, append, append_summary, append_update, blocks, json, pieces};
use super::wire;
use crate::abilities::{Abilities, ThinkingSetting};
use crate::caching::CacheTtl;
use crate::encoded::Encoded;
use crate::generation::{FastMode, Generation};
use crate::held::{Held, HeldBody};
use crate::openai::{Quirks, ThinkingField};
use crate::request_encoder::RequestEncoder;

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
/// Fields of which a user's own would replace what a held conversation needs.
const OF_THREADS: [&str; 3] = ["system", "thread", "tools"];
/// How long the server holds a conversation after its last request, less what a request may take to arrive (Anthropic's guide of
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
        if !self.generation.holds || request.summary.is_some() {
            return None;
        }
        let (head, messages) = whole.split_first()?;
        let held = self.encoded.take_held(&request.messages, head);
        let rest = held.and_then(|(held, all, end)| {
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

    fn said(&self, first: &Arc<Message>, messages: usize) -> Option<String> {
        self.encoded.said(first, messages)
    }

    fn hold_nothing(&mut self) {
        self.generation.holds = false;
    }

    fn outlives_connection(&self) -> bool {
        self.generation.holds
    }
}

impl Encoder {
    /// An encoder for requests to `model`. Summaries and conversations are left to the server only if [that](Self::summarizing) is
    /// asked for.
    pub fn new(model: Model, abilities: Abilities) -> Self {
        Self {
            generation: Generation {
                summarizes: false,
                holds: false,
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
            holds,
            fast,
        } = self.generation;
        let betas = [
            takes_updates.then_some(INLINE_TOOLS),
            (binds_thinking && always_thinks).then_some(BINDING_CONTROLS),
            summarizes.then_some(SUMMARIES),
            (fast == FastMode::Preview).then_some(FAST_MODE),
            holds.then_some(THREADS),
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

    /// Asks the server to hold conversations, if `is_wanted` and no field of the user's own is in the way.
    pub fn holding(mut self, is_wanted: bool) -> Self {
        let is_own = |name: &&str| self.further.contains_key(*name);
        self.generation.holds = is_wanted && !OF_THREADS.iter().any(is_own);
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
    let mut head = serde_json::json!(head);
    if let Some(fields) = head.as_object_mut() {
        fields.extend(further.clone());
    }
    head
}
