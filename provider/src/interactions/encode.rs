//! Encodes requests of the Interactions API. Nothing is stored on the server unless the user has it so: a request holds the
//! whole conversation, with the signed thoughts of the model, or what is new to a server that stores the rest. Nothing here does
//! I/O.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Effort, Image, Message, Model, ProviderError, Request, ResultBlock, Role,
    ToolResult, ToolSpec,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::wire;
use crate::abilities::Abilities;
use crate::call_name::{self, call_name};
use crate::encoded::{EMPTY_MESSAGE, Encoded};
use crate::held::{Held, HeldBody, may_be_forgotten};
use crate::openai::encode::model_name;
use crate::openai::messages::{json, taken, tool_call_id};
use crate::openai::{Additions, AnswerField, Quirks, ReturnedReasoning};
use crate::request_encoder::RequestEncoder;
use crate::responses::encode::{effort, system};

/// Fields of which a user's own would replace what a held conversation needs.
const OF_HELD: [&str; 4] = ["background", "input", "previous_interaction_id", "stream"];
/// What ends the list of steps and the body.
const END: &[u8] = b"]}";

/// Encodes requests to one model and caches their messages.
#[derive(Debug)]
pub struct Encoder {
    model: Model,
    abilities: Abilities,
    additions: Additions,
    quirks: Quirks,
    encoded: Encoded<()>,
    /// Whether the server is asked to go on with what it stores.
    holds: bool,
}

impl RequestEncoder for Encoder {
    fn model(&self) -> &Model {
        &self.model
    }

    fn abilities(&mut self) -> &mut Abilities {
        &mut self.abilities
    }

    fn encode(&mut self, request: &Request) -> Vec<Bytes> {
        let mut body = vec![self.head(request, None)];
        let (model, quirks) = (&self.model, &self.quirks);
        let conversation = self
            .encoded
            .conversation(&request.messages, |message, (), bytes| {
                for step in steps(message, model, quirks) {
                    bytes.begin_item();
                    bytes.push(&json(&step));
                }
            });
        body.extend(conversation.bytes().split_by(0, &[], ""));
        body.push(Bytes::from_static(END));
        body
    }

    fn held(&mut self, request: &Request, whole: &[Bytes]) -> Option<HeldBody> {
        // A request without tools is hardly continued.
        let is_fit = self.holds && !request.whole && !request.tools.is_empty();
        let head = whole.first().filter(|_| is_fit)?;
        // With nothing held, the body is the same as to a server that holds nothing.
        let (held, mut steps) = self.encoded.take_rest(&request.messages, head)?;
        steps.insert(0, self.head(request, Some(&held.answer)));
        steps.push(Bytes::from_static(END));
        Some(HeldBody {
            body: steps,
            rest_of: Some(held),
        })
    }

    fn hold(&mut self, first: &Arc<Message>, held: Held) {
        self.encoded.hold(first, held);
    }

    fn said(&self, first: &Arc<Message>, messages: usize) -> Option<String> {
        self.encoded.said(first, messages)
    }

    fn hold_nothing(&mut self) {
        self.holds = false;
    }

    fn outlives_connection(&self) -> bool {
        self.holds
    }

    /// Google refuses to say whether there is what it does not show.
    fn may_be_forgotten(&self, error: &ProviderError) -> bool {
        may_be_forgotten(error) || error.status == Some(403)
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
            holds: false,
        }
    }

    /// Asks the server to go on with what it stores, if `is_wanted`, the user has it store, and no field of the user's own is in
    /// the way.
    pub fn holding(mut self, is_wanted: bool) -> Self {
        let body = &self.additions.body;
        let stores = body.get("store") == Some(&Value::Bool(true));
        self.holds = is_wanted && stores && !OF_HELD.iter().any(|it| body.contains_key(*it));
        self
    }

    /// The body up to the messages, after the answer `previous` if the server holds that.
    fn head(&self, request: &Request, previous: Option<&str>) -> Bytes {
        let mut head = Map::new();
        head.insert("model".into(), model_name(&self.model, &self.quirks).into());
        if let Some(previous) = previous {
            head.insert("previous_interaction_id".into(), previous.into());
        }
        head.insert("stream".into(), (!request.whole).into());
        head.insert("store".into(), false.into());
        head.insert("generation_config".into(), self.settings(request).into());
        if let Some(words) = system(request) {
            head.insert("system_instruction".into(), words.into());
        }
        if request.tools.len() + request.added.len() > 0 {
            let tools = request.tools.iter().chain(&*request.added).map(tool);
            head.insert("tools".into(), json!(tools.collect::<Vec<_>>()));
        }
        if let (Some(answer), AnswerField::Usual | AnswerField::ResponseFormat) =
            (&request.answer, self.quirks.answer_form)
        {
            let schema = &*answer.schema;
            let format = json!({"type": "text", "mime_type": "application/json", "schema": schema});
            head.insert("response_format".into(), format);
        }
        head.extend(self.additions.body.clone());
        head.shift_remove("input");
        let mut bytes = json(&head);
        bytes.pop();
        bytes.extend_from_slice(br#","input":["#);
        bytes.into()
    }

    fn settings(&self, request: &Request) -> Map<String, Value> {
        let settings = self.abilities.effective(request, self.quirks.thinking);
        let mut fields = Map::new();
        fields.insert("max_output_tokens".into(), settings.max_output.into());
        if let Some(effort) = effort(&self.abilities, &self.quirks, request) {
            // There is no level above.
            let level = effort.min(Effort::ExtraHigh).as_str();
            fields.insert("thinking_level".into(), level.into());
            fields.insert("thinking_summaries".into(), "auto".into());
        }
        for (field, value) in [
            ("temperature", settings.temperature),
            ("top_p", settings.top_p),
        ] {
            if let Some(value) = value {
                fields.insert(field.into(), value.into());
            }
        }
        if !settings.stop.is_empty() {
            fields.insert("stop_sequences".into(), json!(settings.stop));
        }
        if let (Some(answer), AnswerField::ToolChoice) = (&request.answer, self.quirks.answer_form)
        {
            let choice = json!({"allowed_tools": {"mode": "any", "tools": [answer.tool]}});
            fields.insert("tool_choice".into(), choice);
        }
        fields
    }
}

fn tool(tool: &ToolSpec) -> wire::Tool<'_> {
    wire::Tool {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
    }
}

/// The steps of `message`.
fn steps<'a>(message: &'a Message, model: &Model, quirks: &Quirks) -> Vec<wire::Sent<'a>> {
    match message.role {
        Role::User => user_steps(message, quirks),
        Role::Assistant => assistant_steps(message, model, quirks),
    }
}

fn user_steps<'a>(message: &'a Message, quirks: &Quirks) -> Vec<wire::Sent<'a>> {
    let mut steps: Vec<_> = { message.tool_results() }
        .map(|result| outcome(result, quirks))
        .collect();
    let parts = message.content.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => Some(self::image(image)),
        block => block.as_text().and_then(text),
    });
    let mut content: Vec<_> = parts.collect();
    if content.is_empty() && steps.is_empty() {
        content.extend(text(EMPTY_MESSAGE));
    }
    if !content.is_empty() {
        steps.push(wire::Sent::UserInput { content });
    }
    steps
}

fn assistant_steps<'a>(
    message: &'a Message,
    model: &Model,
    quirks: &Quirks,
) -> Vec<wire::Sent<'a>> {
    let is_own = message.was_written_by(&model.provider, &model.name);
    let opaque = message.opaque_of(&model.provider, &model.name);
    let blocks = message.content.iter().enumerate();
    let steps = blocks.filter_map(|(place, block)| {
        let step = assistant_step(block, is_own, quirks)?;
        Some(match opaque.and_then(|opaque| opaque.of_block(place)) {
            Some(given) => step.with(taken(given.clone(), quirks)),
            None => step,
        })
    });
    let mut steps: Vec<_> = steps.collect();
    // The server demands a signature before the first call, also of another model's answer.
    let first_call = steps.iter().position(wire::Sent::is_call);
    if first_call.is_some_and(|call| !steps[..=call].iter().any(wire::Sent::is_signed)) {
        steps.insert(0, wire::Sent::UNSIGNED);
    }
    steps
}

fn assistant_step<'a>(
    block: &'a ContentBlock,
    is_own: bool,
    quirks: &Quirks,
) -> Option<wire::Sent<'a>> {
    match block {
        ContentBlock::Thinking {
            thinking,
            signature: Some(signature),
        } if is_own && quirks.returned_reasoning != ReturnedReasoning::None => {
            Some(wire::Sent::Thought {
                signature,
                summary: text(thinking).into_iter().collect(),
            })
        }
        ContentBlock::ToolUse(call) => Some(wire::Sent::FunctionCall {
            id: tool_call_id(call.id.as_str(), quirks.tool_call_ids),
            name: call_name(&call.name, call_name::OPENAI),
            arguments: match &call.input {
                ah_conversation::Input::Object(map) => Value::Object(map.clone()),
                ah_conversation::Input::Malformed(_) => json!({}),
            },
        }),
        block => {
            let content = vec![text(block.as_text()?)?];
            Some(wire::Sent::ModelOutput { content })
        }
    }
}

fn outcome<'a>(result: &'a ToolResult, quirks: &Quirks) -> wire::Sent<'a> {
    let has_images = { result.content.iter() }.any(|it| matches!(it, ResultBlock::Image(_)));
    let parts = result.content.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => self::text(text),
        ResultBlock::Image(image) => Some(self::image(image)),
        ResultBlock::Audio(_) => None,
    });
    wire::Sent::FunctionResult {
        call_id: tool_call_id(result.tool_use_id.as_str(), quirks.tool_call_ids),
        name: call_name(&result.tool_name, call_name::OPENAI),
        result: match has_images {
            true => wire::Outcome::Parts(parts.collect()),
            false => wire::Outcome::Text(result.text()),
        },
        is_error: result.is_error,
    }
}

/// A text, unless it says nothing.
fn text(text: &str) -> Option<wire::Part<'_>> {
    let text = Cow::Borrowed(text);
    (!text.trim().is_empty()).then_some(wire::Part::Text { text })
}

fn image(image: &Image) -> wire::Part<'_> {
    wire::Part::Image {
        mime_type: &image.media_type,
        data: &image.data,
    }
}
