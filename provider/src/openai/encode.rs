//! Encodes requests of chat completions. Nothing here does I/O.

use std::collections::BTreeMap;

use ah_conversation::{Continuity, Effort, Message, Model, Request};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::messages::{Form, Mark, append, begins_with_thinking, json, pieces};
use super::quirks::{AnswerField, OutputLimit, Quirks, ThinkingField};
use super::tags::TextTags;
use super::text_calls::CallForm;
use super::wire;
use crate::abilities::{Abilities, LearnedTemplate, ThinkingSetting, effort_for};
use crate::anthropic::wire::Thinking as ThinkingObject;
use crate::caching::{CacheControl, CacheTtl};
use crate::encoded::Encoded;
use crate::generation::Generation;
use crate::request_encoder::RequestEncoder;

/// Encodes requests to one model and caches their messages.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    additions: Additions,
    quirks: Quirks,
    encoded: Encoded<Mark>,
    template: LearnedTemplate,
    /// Lifetime of what the requests leave in the prompt cache.
    ttl: CacheTtl,
}

/// Additional content of every request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Fields of the body, which override the ones that are set here.
    pub body: Map<String, Value>,
    /// Headers that a gateway passes on to the server behind it.
    pub headers: BTreeMap<String, String>,
    /// Beta features of the Messages API to request.
    pub betas: Vec<String>,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn continuity(&self) -> Continuity {
        Continuity {
            binds_thinking: Generation::of(&self.model.name).binds_thinking,
            ..Continuity::default()
        }
    }

    fn abilities(&mut self) -> &mut Abilities {
        &mut self.abilities
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let head = self.head(request);
        let system = self.system(request);
        let template = self.template.get().unwrap_or(&self.abilities.template);
        let takes_one_call = self.quirks.one_call || template.parallel_calls == Some(false);
        let form = Form {
            model: &self.model,
            quirks: &self.quirks,
            hears: self.abilities.hears,
            one_by_one: takes_one_call.then_some(&request.messages),
        };
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, mark, bytes| {
                append(message, form, mark, bytes);
            });
        let mut body = vec![head];
        body.extend(system);
        let breakpoint = self.quirks.cache_control.then(|| self.ttl.field());
        body.extend(pieces(conversation, breakpoint));
        body
    }
}

impl Encoder {
    /// An encoder for requests to `model`.
    pub fn new(model: Model, abilities: Abilities, additions: Additions, quirks: Quirks) -> Self {
        Self {
            model,
            abilities,
            additions,
            quirks,
            encoded: Encoded::default(),
            template: LearnedTemplate::default(),
            ttl: CacheTtl::default(),
        }
    }

    /// Follows what is learned of the chat template.
    pub(crate) fn with_template(self, template: LearnedTemplate) -> Self {
        Self { template, ..self }
    }

    /// Returns what gives the tags that the server leaves in the text of the next answer.
    pub(super) fn text_tags(&self) -> impl Fn() -> TextTags + Send + Sync + 'static {
        let (tags, known) = (self.quirks.text_tags, self.abilities.template);
        let (of_model, template) = (CallForm::of_model(&self.model.name), self.template.clone());
        move || {
            let is_unread = template.get().unwrap_or(&known).calls == Some(false);
            let tool_call = match tags.tool_call {
                CallForm::OfModel => of_model,
                CallForm::None if is_unread => of_model,
                form => form,
            };
            TextTags { tool_call, ..tags }
        }
    }

    /// Keeps what the requests leave in the prompt cache for `ttl`.
    pub fn cached_for(mut self, ttl: CacheTtl) -> Self {
        self.ttl = ttl;
        self
    }

    /// The body up to the messages. Its size does not grow with the session, so it is not cached.
    fn head(&self, request: &Request) -> Bytes {
        let mut head = Map::new();
        head.insert("model".into(), model_name(&self.model, &self.quirks).into());
        head.insert("stream".into(), (!request.whole).into());
        if !self.quirks.no_usage && !request.whole {
            head.insert("stream_options".into(), json!({"include_usage": true}));
        }
        if request.tells_progress {
            head.insert("return_progress".into(), true.into());
        }
        self.add_output(request, &mut head);
        if request.all_tools().len() > 0 {
            head.insert("tools".into(), self.tools(request));
        }
        let choice = |tool: &str| json!({"type": "function", "function": {"name": tool}});
        match (&request.answer, self.quirks.answer_form) {
            (None, _) | (_, AnswerField::None) => {}
            (Some(answer), AnswerField::ToolChoice) => {
                head.insert("tool_choice".into(), choice(&answer.tool));
            }
            (Some(answer), AnswerField::Usual | AnswerField::ResponseFormat) => {
                let form = json!({"name": "answer", "schema": *answer.schema});
                let format = json!({"type": "json_schema", "json_schema": form});
                head.insert("response_format".into(), format);
            }
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

    /// Adds output limit, thinking and sampling.
    fn add_output(&self, request: &Request, head: &mut Map<String, Value>) {
        let begins_with_thinking =
            |answer: &Message| begins_with_thinking(answer, &self.model, &self.quirks);
        let settings =
            self.abilities
                .effective_in_turn(request, self.quirks.thinking, begins_with_thinking);
        let limit = settings.max_output.into();
        match self.quirks.output_limit {
            OutputLimit::MaxTokens => head.insert("max_tokens".into(), limit),
            OutputLimit::MaxCompletionTokens => head.insert("max_completion_tokens".into(), limit),
            OutputLimit::None => None,
        };
        if let Some(thinking) = settings.thinking {
            self.add_thinking(thinking, settings.effort, head);
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
        thinking: ThinkingSetting,
        effort: Option<Effort>,
        head: &mut Map<String, Value>,
    ) {
        let budget = thinking.tokens();
        let (field, value) = match (self.quirks.thinking, effort) {
            (ThinkingField::None, _) => return,
            // LiteLLM converts the effort for the vendor behind it.
            (ThinkingField::Thinking, Some(effort)) if budget > 0 => {
                ("reasoning_effort", effort.as_str().into())
            }
            (ThinkingField::Thinking, _) => ("thinking", json!(ThinkingObject::from(thinking))),
            (ThinkingField::ReasoningEffort, effort) => {
                let effort = effort
                    .or_else(|| self.abilities.effort(effort_for(budget)))
                    .map(Effort::as_str);
                ("reasoning_effort", effort.into())
            }
            (ThinkingField::Reasoning, _) if budget == 0 => {
                ("reasoning", json!({"enabled": false}))
            }
            (ThinkingField::Reasoning, Some(effort)) => {
                ("reasoning", json!({"effort": effort.as_str()}))
            }
            (ThinkingField::Reasoning, None) => ("reasoning", json!({"max_tokens": budget})),
            (ThinkingField::ReasoningBudget, _) if budget == 0 => {
                ("chat_template_kwargs", json!({"enable_thinking": false}))
            }
            (ThinkingField::ReasoningBudget, _) => ("reasoning_budget_tokens", budget.into()),
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
        let last = request.all_tools().len() - 1;
        let tools: Vec<_> = request
            .all_tools()
            .enumerate()
            .map(|(index, tool)| wire::Tool {
                function: wire::Function {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.input_schema,
                },
                cache_control: self.breakpoint(index == last),
            })
            .collect();
        json!(tools)
    }

    /// The system prompt as the first message.
    fn system(&self, request: &Request) -> Option<Bytes> {
        let parts: Vec<_> = request
            .system
            .iter()
            .map(String::as_str)
            .filter(|part| !part.trim().is_empty())
            .collect();
        let last = parts.len().checked_sub(1)?;
        let content = if self.quirks.cache_control {
            let parts = parts
                .into_iter()
                .enumerate()
                .map(|(index, text)| wire::Part::Text {
                    text: text.into(),
                    cache_control: self.breakpoint(index == last),
                });
            wire::SentContent::Parts(parts.collect())
        } else {
            wire::SentContent::Text(parts.join("\n\n"))
        };
        let mut bytes = json(&wire::Message::System { content });
        if !request.messages.is_empty() {
            bytes.push(b',');
        }
        Some(bytes.into())
    }

    fn breakpoint(&self, is_last: bool) -> Option<CacheControl> {
        (is_last && self.quirks.cache_control).then(|| self.ttl.control())
    }
}

/// Returns the model's name at the server.
pub fn model_name(model: &Model, quirks: &Quirks) -> String {
    if model.name.contains('/') {
        model.name.clone()
    } else {
        format!("{}{}", quirks.model_prefix, model.name)
    }
}

/// Returns the headers for the server behind a gateway.
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
