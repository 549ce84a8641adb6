//! Parts of a request that a server refuses: a picture that it cannot decode, a tool whose schema it does not take, the id
//! of a call. They would be refused with every later request too, so they are left out of what is sent; the transcript keeps
//! them. Pure.
//!
//! A refusal points into the JSON of its vendor (`messages.3.content.1.image`, `tools[5].function.name`). What stands there
//! in the body that was sent is looked for in the request by its content, so no index has to be translated. A refusal that
//! names nothing is taken to be about the newest pictures.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, ErrorClass, Image, Message, Origin, ProviderError, Request, ResultBlock, Role,
    ToolSpec, ToolUseId, json,
};
use bytes::Bytes;
use serde_json::Value;

/// What the model reads in the place of a picture or block.
const PLACEHOLDER: &str = "[left out: the model's server refuses what was here]";
/// Lists in a body that a refusal may point into.
const LISTS: [&str; 3] = ["messages", "input", "tools"];
/// Gemini's name of the tools, also behind its OpenAI-compatible address.
const DECLARATIONS: &str = "function_declarations";
/// Words of a refusal that is about pictures.
const PICTURES: [&str; 7] = [
    "image",
    "picture",
    " vision",
    "media",
    "multimodal",
    "jpeg",
    "png",
];
/// Words of one that is about all pictures, since the model or its server takes none.
const TAKES_NONE: [&str; 12] = [
    "at most 0 image", // vLLM
    "do not support",
    "does not support",
    "doesn't support",
    "input is not supported", // llama.cpp
    "input not supported",
    "inputs are not supported",
    "is not a multimodal", // vLLM
    "must be a string",    // Groq
    "no endpoints found",  // OpenRouter
    "only supported by",   // OpenAI, Together
    "unknown variant",     // DeepSeek
];
/// Words of one about a tool.
const TOOLS: [&str; 5] = ["schema", "function", "tool", "parameters", "declaration"];
/// Fields with the id of a call.
const IDS: [&str; 4] = ["id", "call_id", "tool_call_id", "tool_use_id"];
/// Refusals that say nothing; of Gemini, gateways and proxies.
const NOTHING: [&str; 12] = [
    "",
    "bad request",
    "error",
    "invalid argument",
    "invalid input",
    "invalid request",
    "invalid_request_error",
    "provider returned error",
    "request contains an invalid argument",
    "request failed",
    "the server gave no reason",
    "upstream error",
];

/// Part of a request. What has no name is known by its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A picture with this content.
    Picture(u64),
    /// A block that this version does not know, such as a document.
    Block(u64),
    /// A tool.
    Tool(String),
    /// A call, with its result.
    Call(String),
}

/// Parts that are left out of requests.
#[derive(Debug, Clone, Default)]
pub struct LeftOut {
    parts: BTreeSet<Part>,
    /// Messages with such parts, and what is sent in their place. Encoded messages are known by their address.
    replaced: Vec<(Arc<Message>, Arc<Message>)>,
}

impl LeftOut {
    /// Adds `parts`; returns whether one of them is new.
    pub fn add(&mut self, parts: Vec<Part>) -> bool {
        let before = self.parts.len();
        self.parts.extend(parts);
        let has_grown = self.parts.len() > before;
        if has_grown {
            self.replaced.clear();
        }
        has_grown
    }

    /// Returns `request` without the parts.
    pub fn apply(&mut self, mut request: Request) -> Request {
        if self.parts.is_empty() {
            return request;
        }
        let is_left = |tool: &ToolSpec| !self.parts.contains(&Part::Tool(tool.name.clone()));
        for tools in [&mut request.tools, &mut request.added] {
            if !tools.iter().all(is_left) {
                *tools = tools.iter().filter(|tool| is_left(tool)).cloned().collect();
            }
        }
        if request
            .messages
            .iter()
            .any(|message| self.concerns(message))
        {
            let messages = request.messages.iter();
            let messages = messages.map(|message| self.replacement(message)).collect();
            request.messages = Arc::new(messages);
        }
        request
    }

    fn replacement(&mut self, message: &Arc<Message>) -> Arc<Message> {
        if !self.concerns(message) {
            return message.clone();
        }
        let known = { self.replaced.iter() }.find(|(known, _)| Arc::ptr_eq(known, message));
        if let Some((_, replacement)) = known {
            return replacement.clone();
        }
        let replacement = Arc::new(self.without(message));
        self.replaced.push((message.clone(), replacement.clone()));
        replacement
    }

    fn concerns(&self, message: &Message) -> bool {
        let is_of_tool = |part: &Part| matches!(part, Part::Tool(_));
        parts_of(message).any(|part| self.parts.contains(&part))
            || matches!(&message.origin, Origin::Update(update) if !update.tools.is_empty())
                && self.parts.iter().any(is_of_tool)
    }

    fn has_picture(&self, image: &Image) -> bool {
        self.parts.contains(&Part::Picture(hash(&image.data)))
    }

    fn has_call(&self, id: &ToolUseId) -> bool {
        self.parts.contains(&Part::Call(id.as_str().to_owned()))
    }

    fn without(&self, message: &Message) -> Message {
        let mut replacement = message.clone();
        if let Origin::Update(update) = &mut replacement.origin {
            let tools = &mut update.tools;
            tools.retain(|tool| !self.parts.contains(&Part::Tool(tool.name.clone())));
        }
        // Results stand before anything else in a message.
        let mut last = Vec::new();
        let content = std::mem::take(&mut replacement.content);
        for block in content {
            match block {
                ContentBlock::Image(image) if self.has_picture(&image) => {
                    replacement.content.push(ContentBlock::text(PLACEHOLDER));
                }
                ContentBlock::Other { raw } if self.parts.contains(&Part::Block(hash(&raw))) => {
                    replacement.content.push(ContentBlock::text(PLACEHOLDER));
                }
                ContentBlock::ToolUse(call) if self.has_call(&call.id) => {
                    let input = call.input.to_value();
                    let text = format!("[called {}: {input}]", call.name);
                    replacement.content.push(ContentBlock::text(text));
                }
                ContentBlock::ToolResult(result) if self.has_call(&result.tool_use_id) => {
                    let text = format!("[result of {}: {}]", result.tool_name, result.text());
                    last.push(ContentBlock::text(text));
                }
                ContentBlock::ToolResult(mut result) => {
                    for block in &mut result.content {
                        if matches!(block, ResultBlock::Image(image) if self.has_picture(image)) {
                            let text = PLACEHOLDER.to_owned();
                            *block = ResultBlock::Text { text };
                        }
                    }
                    replacement.content.push(ContentBlock::ToolResult(result));
                }
                block => replacement.content.push(block),
            }
        }
        replacement.content.extend(last);
        replacement
    }
}

/// Returns the parts of `request`, sent as `body`, that the server refuses with `error`; none if it is about something else.
pub fn refused(error: &ProviderError, request: &Request, body: &[Bytes]) -> Vec<Part> {
    let text = error.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    // A server that runs a model itself fails while it decodes a picture.
    let is_failure = error.status == Some(500) && says(&PICTURES);
    if error.class != ErrorClass::InvalidRequest && !is_failure {
        return Vec::new();
    }
    let is_of_pictures = says(&PICTURES) || says(&TAKES_NONE);
    let places = places(&text);
    if !places.is_empty() {
        let body: Value = json::from_slice(&body.concat()).unwrap_or_default();
        let found = places.iter().flat_map(|place| at(place, &body, request));
        let is_meant = |part: &Part| is_of_pictures || !matches!(part, Part::Picture(_));
        let found: Vec<_> = found.filter(is_meant).collect();
        if !found.is_empty() {
            return found;
        }
    }
    let is_named = |name: &str| {
        let quotes = ['\'', '"', '`'];
        quotes
            .iter()
            .any(|quote| error.message.contains(&format!("{quote}{name}{quote}")))
    };
    let mut tools = request.all_tools().map(|tool| &tool.name);
    if says(&TOOLS)
        && let Some(name) = tools.find(|name| is_named(name))
    {
        return vec![Part::Tool(name.clone())];
    }
    if let Some(call) = calls(request).find(|id| id.len() > 5 && error.message.contains(id)) {
        return vec![Part::Call(call.to_owned())];
    }
    match (says(&PICTURES), says(&TAKES_NONE)) {
        (true, true) => request
            .messages
            .iter()
            .flat_map(|it| pictures_of(it))
            .collect(),
        (true, false) => newest_pictures(&request.messages),
        (false, _) if error.status == Some(400) && says_nothing(&error.message) => {
            newest_pictures(since_answer(request))
        }
        (false, _) => Vec::new(),
    }
}

/// Returns what the user is told about `parts`, which are left out after `error`.
pub fn notice(parts: &[Part], error: &ProviderError) -> String {
    let what = match parts {
        [Part::Picture(_)] => "a picture".to_owned(),
        [Part::Picture(_), ..] => format!("{} pictures", parts.len()),
        [Part::Tool(name), ..] => format!("the tool `{name}`"),
        [Part::Call(_), ..] => "a tool call (its text stays)".to_owned(),
        [Part::Block(_), ..] | [] => "a block of the conversation".to_owned(),
    };
    format!(
        "the server refuses {what}, so the model no longer sees it: {}",
        error.message
    )
}

/// Whether an error message says nothing about its cause.
pub fn says_nothing(message: &str) -> bool {
    let message = message.split(" (request ").next().unwrap_or_default();
    let message = message
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    NOTHING.contains(&message.as_str())
}

/// Returns the places in a body that a text names, each as the names and indices that lead there.
fn places(text: &str) -> Vec<Vec<&str>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
    let words = text.split(|c: char| !is_part(c));
    let place = |word| {
        let steps = |c: char| matches!(c, '.' | '[' | ']');
        let steps: Vec<&str> = str::split(word, steps)
            .filter(|step| !step.is_empty())
            .collect();
        let index = |at: usize| {
            steps
                .get(at)
                .is_some_and(|step| step.parse::<usize>().is_ok())
        };
        let declared = steps.iter().position(|step| *step == DECLARATIONS);
        if let Some(at) = declared.filter(|at| index(at + 1)) {
            return Some(vec!["tools", steps[at + 1]]);
        }
        let at = steps.iter().position(|step| LISTS.contains(step))?;
        index(at + 1).then(|| steps[at..].to_vec())
    };
    words.filter_map(place).collect()
}

/// Returns the parts of `request` that stand at `place` in `body`.
fn at(place: &[&str], body: &Value, request: &Request) -> Vec<Part> {
    let (mut value, mut element) = (body, &Value::Null);
    for step in place {
        // Some steps are types of blocks, which the body has as values.
        let next = match (value, step.parse::<usize>()) {
            (Value::Array(list), Ok(index)) => list.get(index).inspect(|found| element = found),
            (value, _) => value.get(*step),
        };
        value = next.unwrap_or(value);
    }
    let mut texts = Vec::new();
    collect_texts(element, &mut texts);
    if place[0] == "tools" {
        let is_here = |tool: &&ToolSpec| texts.contains(&tool.name.as_str());
        let tool = request.all_tools().find(is_here);
        return tool
            .map(|tool| Part::Tool(tool.name.clone()))
            .into_iter()
            .collect();
    }
    let is_here = |image: &Image| {
        !image.data.is_empty() && texts.iter().any(|text| text.ends_with(&image.data))
    };
    let messages = request.messages.iter();
    let images = messages.clone().flat_map(|message| images_of(message));
    let pictures = images.filter(|image| is_here(image)).map(picture);
    let is_id = place.last().is_some_and(|last| IDS.contains(last));
    let calls = calls(request).filter(|id| is_id && texts.contains(id));
    let blocks = messages.flat_map(|message| &message.content);
    let blocks = blocks.filter_map(|block| match block {
        ContentBlock::Other { raw } if is_part_of(raw, element) => Some(Part::Block(hash(raw))),
        _ => None,
    });
    pictures
        .chain(calls.map(|id| Part::Call(id.to_owned())))
        .chain(blocks)
        .collect()
}

/// Whether all fields of `block` are in `element`, which may have a breakpoint besides.
fn is_part_of(block: &Value, element: &Value) -> bool {
    let fields = block.as_object();
    fields.is_some_and(|fields| {
        let mut fields = fields.iter();
        fields.all(|(name, value)| element.get(name) == Some(value))
    })
}

fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(list) => list.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(fields) => fields
            .values()
            .for_each(|value| collect_texts(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the pictures of the newest message that has any.
fn newest_pictures(messages: &[Arc<Message>]) -> Vec<Part> {
    let pictures = messages
        .iter()
        .rev()
        .map(|it| pictures_of(it).collect::<Vec<_>>());
    pictures
        .into_iter()
        .find(|pictures| !pictures.is_empty())
        .unwrap_or_default()
}

/// Returns the messages behind the last answer: all before it was taken once.
fn since_answer(request: &Request) -> &[Arc<Message>] {
    let answer = { request.messages.iter() }.rposition(|it| it.role == Role::Assistant);
    &request.messages[answer.map_or(0, |at| at + 1)..]
}

fn parts_of(message: &Message) -> impl Iterator<Item = Part> {
    let blocks = message.content.iter().filter_map(|block| match block {
        ContentBlock::Other { raw } => Some(Part::Block(hash(raw))),
        ContentBlock::ToolUse(call) => Some(Part::Call(call.id.as_str().to_owned())),
        ContentBlock::ToolResult(result) => {
            Some(Part::Call(result.tool_use_id.as_str().to_owned()))
        }
        _ => None,
    });
    pictures_of(message).chain(blocks)
}

fn pictures_of(message: &Message) -> impl Iterator<Item = Part> {
    images_of(message).map(picture)
}

fn images_of(message: &Message) -> impl Iterator<Item = &Image> {
    message.content.iter().flat_map(|block| {
        let (own, results) = match block {
            ContentBlock::Image(image) => (Some(image), &[][..]),
            ContentBlock::ToolResult(result) => (None, &result.content[..]),
            _ => (None, &[][..]),
        };
        let of_results = results.iter().filter_map(|block| match block {
            ResultBlock::Image(image) => Some(image),
            ResultBlock::Text { .. } | ResultBlock::Audio(_) => None,
        });
        own.into_iter().chain(of_results)
    })
}

fn calls(request: &Request) -> impl Iterator<Item = &str> {
    let calls = request
        .messages
        .iter()
        .flat_map(|message| message.tool_uses());
    calls.map(|call| call.id.as_str())
}

fn picture(image: &Image) -> Part {
    Part::Picture(hash(&image.data))
}

fn hash(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
