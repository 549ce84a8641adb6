//! A question to the model, as the bytes of a request of chat completions. Nothing here does I/O.

use std::collections::BTreeMap;

use ah_conversation::{Effort, Message, Model, Request};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::messages::{Mark, append, begins_with_thought, json, pieces};
use super::quirks::{OutputLimit, Quirks, ThinkingField};
use super::wire;
use crate::abilities::{Abilities, ThinkingSetting, effort_for};
use crate::anthropic::wire::Thinking as ThinkingObject;
use crate::encoded::Encoded;
use crate::http_model::RequestEncoder;

/// Encodes requests to one model and remembers their bytes.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    additions: Additions,
    quirks: Quirks,
    encoded: Encoded<Mark>,
}

/// What goes into every request beside the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Fields of the request's body, which take the place of ours.
    pub body: Map<String, Value>,
    /// Headers for the server behind the server, where it passes them on.
    pub headers: BTreeMap<String, String>,
    /// Features of the Messages API to ask for that are not for everybody yet.
    pub betas: Vec<String>,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let head = self.head(request);
        let system = self.system(request);
        let (model, quirks) = (&self.model, &self.quirks);
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, mark, bytes| {
                append(message, model, quirks, mark, bytes);
            });
        let mut body = vec![head];
        body.extend(system);
        body.extend(pieces(conversation, self.quirks.cache_control));
        body
    }
}

impl Encoder {
    /// An encoder for requests to `model`, which has these abilities.
    pub fn new(model: Model, abilities: Abilities, additions: Additions, quirks: Quirks) -> Self {
        Self {
            model,
            abilities,
            additions,
            quirks,
            encoded: Encoded::default(),
        }
    }

    /// All that comes before the messages. It has the same size in every request of a session, so it is not kept.
    fn head(&self, request: &Request) -> Bytes {
        let mut head = Map::new();
        head.insert("model".into(), model_name(&self.model, &self.quirks).into());
        head.insert("stream".into(), true.into());
        if !self.quirks.no_usage {
            head.insert("stream_options".into(), json!({"include_usage": true}));
        }
        self.add_output(request, &mut head);
        if !request.tools.is_empty() {
            head.insert("tools".into(), self.tools(request));
        }
        let headers = passed_on(&self.additions, &self.quirks);
        if !headers.is_empty() {
            head.insert("extra_headers".into(), Value::Object(headers));
        }
        head.extend(self.additions.body.clone());
        head.shift_remove("messages");
        let mut bytes = json(&head);
        bytes.pop();
        bytes.extend_from_slice(br#","messages":["#);
        bytes.into()
    }

    /// How much may be written and thought, and how hot.
    fn add_output(&self, request: &Request, head: &mut Map<String, Value>) {
        let begins_with_thought =
            |answer: &Message| begins_with_thought(answer, &self.model, &self.quirks);
        let settings =
            self.abilities
                .effective_in_turn(request, self.quirks.thinking, begins_with_thought);
        let limit = settings.max_output.into();
        match self.quirks.output_limit {
            OutputLimit::MaxTokens => head.insert("max_tokens".into(), limit),
            OutputLimit::MaxCompletionTokens => head.insert("max_completion_tokens".into(), limit),
            OutputLimit::None => None,
        };
        if let Some(thought) = settings.thinking {
            self.add_thinking(thought, settings.effort, head);
        }
        for (field, value) in [
            ("temperature", settings.temperature),
            ("top_p", settings.top_p),
        ] {
            if let Some(value) = value {
                head.insert(field.into(), value.into());
            }
        }
        if !settings.stop.is_empty() {
            head.insert("stop".into(), json!(settings.stop));
        }
    }

    fn add_thinking(
        &self,
        thought: ThinkingSetting,
        effort: Option<Effort>,
        head: &mut Map<String, Value>,
    ) {
        let budget = thought.tokens();
        let (field, value) = match (self.quirks.thinking, effort) {
            (ThinkingField::None, _) => return,
            // LiteLLM makes of the word what the vendor behind it wants.
            (ThinkingField::Thinking, Some(effort)) if budget > 0 => {
                ("reasoning_effort", effort.as_str().into())
            }
            (ThinkingField::Thinking, _) => ("thinking", json!(ThinkingObject::from(thought))),
            (ThinkingField::ReasoningEffort, effort) => {
                let effort = effort.or_else(|| self.abilities.effort(effort_for(budget)));
                let effort = effort.map(Effort::as_str);
                ("reasoning_effort", effort.into())
            }
            (ThinkingField::Reasoning, _) if budget == 0 => {
                ("reasoning", json!({"enabled": false}))
            }
            (ThinkingField::Reasoning, Some(effort)) => {
                ("reasoning", json!({"effort": effort.as_str()}))
            }
            (ThinkingField::Reasoning, None) => ("reasoning", json!({"max_tokens": budget})),
            (ThinkingField::EnableThinking, _) => {
                if budget > 0 {
                    head.insert("thinking_budget".into(), budget.into());
                }
                ("enable_thinking", (budget > 0).into())
            }
        };
        head.insert(field.into(), value);
    }

    fn tools(&self, request: &Request) -> Value {
        let last = request.tools.len() - 1;
        let tools = request.tools.iter().enumerate();
        let tools = tools.map(|(index, tool)| wire::Tool {
            function: wire::Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
            },
            cache_control: self.breakpoint(index == last),
        });
        json!(tools.collect::<Vec<_>>())
    }

    /// The system prompt as the first message.
    fn system(&self, request: &Request) -> Option<Bytes> {
        let parts = request.system.iter().map(String::as_str);
        let parts: Vec<_> = parts.filter(|part| !part.trim().is_empty()).collect();
        let last = parts.len().checked_sub(1)?;
        let content = match self.quirks.cache_control {
            false => wire::SentContent::Text(parts.join("\n\n")),
            true => {
                let parts = parts.into_iter().enumerate();
                let parts = parts.map(|(index, text)| wire::Part::Text {
                    text: text.into(),
                    cache_control: self.breakpoint(index == last),
                });
                wire::SentContent::Parts(parts.collect())
            }
        };
        let mut bytes = json(&wire::Message::System { content });
        if !request.messages.is_empty() {
            bytes.push(b',');
        }
        Some(bytes.into())
    }

    fn breakpoint(&self, is_last: bool) -> Option<wire::CacheControl> {
        (is_last && self.quirks.cache_control).then_some(wire::CacheControl::Ephemeral)
    }
}

/// The model's name as the server knows it.
pub fn model_name(model: &Model, quirks: &Quirks) -> String {
    match model.name.contains('/') {
        true => model.name.clone(),
        false => format!("{}{}", quirks.model_prefix, model.name),
    }
}

/// The headers that the server is to pass on.
pub fn passed_on(additions: &Additions, quirks: &Quirks) -> Map<String, Value> {
    let mut headers = Map::new();
    if quirks.extra_headers {
        let configured = additions.headers.iter();
        headers.extend(configured.map(|(name, value)| (name.clone(), value.clone().into())));
        if !additions.betas.is_empty() {
            headers.insert("anthropic-beta".into(), additions.betas.join(",").into());
        }
    }
    headers
}
