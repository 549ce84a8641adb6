//! Fields at the top of a request that a server does not know or does not take: it refuses the whole request, and says which
//! field it was. They are left out from then on. Pure.
//!
//! Each server has its own sentence. A field is believed to be meant if a sentence about fields names one that was sent.

use std::collections::BTreeSet;

use ah_conversation::{ErrorClass, ProviderError, json};
use bytes::Bytes;
use serde_json::{Map, Value};

/// What a request is nothing without, and what has a price or a meaning of its own, so that leaving it out takes more
/// ([`featured`](crate::featured)).
const KEPT: [&str; 10] = [
    "model",
    "messages",
    "input",
    "system",
    "instructions",
    "tools",
    "speed",
    "store",
    "compaction",
    "anthropic_version",
];
/// What OpenAI says of a field whose value alone is refused, in lower case.
const VALUE: &str = "unsupported value";
/// What refusals of a field say, in lower case.
const PHRASES: [&str; 14] = [
    "argument not supported",         // xAI
    "extra inputs are not permitted", // Anthropic, Mistral, Fireworks, vLLM
    "extra_forbidden",                // vLLM
    "extraneous key",                 // Bedrock
    "is unsupported",                 // Groq
    "not support parameter",          // xAI, LiteLLM
    "unknown field",                  // DeepSeek
    "unknown name",                   // Gemini
    "unknown parameter",              // OpenAI
    "unrecognized parameter",
    "unrecognized request argument", // OpenAI, Azure
    "unexpected keyword argument",   // servers in Python
    "unsupported parameter",         // OpenAI
    VALUE,
];

/// What stands before names that the server would take.
const ADVICE: [&str; 4] = [
    "did you mean",
    "expected one of",
    "supported values",
    " use ",
];

/// Returns the fields of `body` that the server refuses with `error`; none if it is about something else.
pub fn refused(error: &ProviderError, body: &[Bytes]) -> Vec<String> {
    let text = error.message.to_ascii_lowercase();
    let is_meant = error.class == ErrorClass::InvalidRequest
        && matches!(error.status, Some(400 | 422))
        && PHRASES.iter().any(|phrase| text.contains(phrase));
    if !is_meant {
        return Vec::new();
    }
    let ends = ADVICE.iter().filter_map(|words| text.find(words));
    let about = &error.message[..ends.min().unwrap_or(text.len())];
    let sent = body.first().and_then(head).unwrap_or_default();
    let sent = sent.keys().filter(|name| !KEPT.contains(&name.as_str()));
    let named = |is_quoted| -> Vec<String> {
        let mut names = names(about, is_quoted);
        if is_about_values(error) {
            // Of a value within a field, the field is left out.
            let outer = names.iter().filter_map(|name| name.split_once('.'));
            let outer: Vec<_> = outer.map(|(name, _)| name.to_owned()).collect();
            names.extend(outer);
        }
        sent.clone()
            .filter(|name| names.contains(&plain(name)))
            .cloned()
            .collect()
    };
    // Other words may be names of fields as well: `stop`, `text`.
    let quoted = named(true);
    match quoted.is_empty() {
        true => named(false),
        false => quoted,
    }
}

/// Whether a refusal is about values of fields, which may have others another time.
pub fn is_about_values(error: &ProviderError) -> bool {
    error.message.to_ascii_lowercase().contains(VALUE)
}

/// Returns what the user is told about these fields, which are left out after `error`.
pub fn notice(fields: &[String], error: &ProviderError) -> String {
    let fields = fields.join("`, `");
    format!(
        "the server refuses `{fields}`, which is no longer sent: {}",
        error.message
    )
}

/// Returns the body without these fields. Its first piece is what stands before the messages.
pub fn without(mut body: Vec<Bytes>, fields: &[String]) -> Vec<Bytes> {
    let Some((first, mut fields_sent)) = body
        .first_mut()
        .filter(|_| !fields.is_empty())
        .and_then(|first| head(first).map(|head| (first, head)))
    else {
        return body;
    };
    let before = fields_sent.len();
    fields_sent.retain(|name, _| !fields.contains(name));
    if fields_sent.len() < before {
        let mut bytes = json::line(&fields_sent).into_bytes();
        bytes.truncate(bytes.len() - END.len());
        *first = bytes.into();
    }
    body
}

/// What ends the list of messages and the body.
const END: &str = "]}";

/// Returns the fields of the first piece of a body, which ends at the beginning of the messages.
fn head(first: &Bytes) -> Option<Map<String, Value>> {
    json::from_slice(&[first, END.as_bytes()].concat()).ok()
}

/// Returns what may be names of fields in a message, quoted or not.
fn names(message: &str, is_quoted: bool) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut names = BTreeSet::new();
    let mut rest = message;
    while let Some(start) = rest.find(is_part) {
        let before = rest[..start].chars().next_back();
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let quotes = ['\'', '"', '`', '['];
        if !is_quoted || before.is_some_and(|c| quotes.contains(&c)) {
            names.insert(plain(word[..end].trim_end_matches('.')));
        }
        rest = &word[end..];
    }
    names
}

/// A name as it is compared: some servers answer in the words of their own code, `reasoningEffort`.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body with fields of all protocols.
    fn body() -> Vec<Bytes> {
        let head = serde_json::json!({
            "model": "m", "stream": true, "stream_options": {}, "max_tokens": 1, "temperature": 0.5, "top_p": 0.9,
            "stop": ["x"], "reasoning": {"effort": "low"}, "reasoning_effort": "low", "prompt_cache_key": "k", "tools": [],
            "speed": "fast", "text": {}, "store": false, "messages": [],
        });
        let mut head = head.to_string();
        head.truncate(head.len() - END.len());
        vec![head.into(), "{}".into(), END.into()]
    }

    #[test]
    fn a_refusal_names_the_fields_that_it_is_about() {
        for (status, message, expected) in [
            (
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                "max_tokens",
            ),
            (
                400,
                "Unknown parameter: 'prompt_cache_key'.",
                "prompt_cache_key",
            ),
            (
                400,
                "Unrecognized request arguments supplied: stream_options, top_p",
                "stream_options top_p",
            ),
            (
                400,
                "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is \
                 supported.",
                "temperature",
            ),
            (
                400,
                "Unsupported value: 'reasoning.effort' does not support 'max' with this model.",
                "reasoning",
            ),
            (400, "top_p: Extra inputs are not permitted", "top_p"),
            (
                422,
                "stop: Extra inputs are not permitted; top_p: Extra inputs are not permitted",
                "top_p stop",
            ),
            (
                400,
                "Extra inputs are not permitted, field: 'reasoning_effort'",
                "reasoning_effort",
            ),
            (
                400,
                "[{'type': 'extra_forbidden', 'loc': ('body', 'top_p'), 'msg': 'Extra inputs are not permitted'}]",
                "top_p",
            ),
            (
                400,
                "property 'stream_options' is unsupported, did you mean 'stream'?",
                "stream_options",
            ),
            (
                400,
                "Invalid JSON payload received. Unknown name \"stop\": Cannot find field.",
                "stop",
            ),
            (
                422,
                "unknown field `prompt_cache_key`, expected one of `messages`, `stop`",
                "prompt_cache_key",
            ),
            (
                400,
                "extraneous key [top_p] is not permitted, please reformat your input",
                "top_p",
            ),
            (
                400,
                "openai does not support parameters: ['reasoning_effort'], for model=x",
                "reasoning_effort",
            ),
            (
                400,
                "Model grok-4 does not support parameter reasoningEffort.",
                "reasoning_effort",
            ),
            // What is about something else, or is no help.
            (400, "Unknown parameter: 'input[2].phase'.", ""),
            (400, "property 'reasoning_content' is unsupported", ""),
            (
                400,
                "Unsupported parameter: 'tools' is not supported with this model.",
                "",
            ),
            (400, "speed: Extra inputs are not permitted", ""),
            // Without it, the server would store the conversation.
            (400, "Unknown parameter: 'store'.", ""),
            (400, "reasoning.summary: Extra inputs are not permitted", ""),
            (400, "Invalid value for 'temperature'", ""),
            (500, "Unknown parameter: 'stop'", ""),
        ] {
            let error = ProviderError {
                status: Some(status),
                ..ProviderError::new(ErrorClass::InvalidRequest, message)
            };
            assert_eq!(refused(&error, &body()).join(" "), expected, "{message}");
        }
    }

    #[test]
    fn the_other_fields_and_the_messages_stay() {
        let fields = ["top_p".to_owned(), "absent".to_owned()];
        let parsed = |body: Vec<Bytes>| json::from_slice::<Map<String, Value>>(&body.concat());
        let mut expected = parsed(body()).unwrap();
        expected.shift_remove("top_p");
        assert_eq!(parsed(without(body(), &fields)).unwrap(), expected);
        assert_eq!(without(body(), &fields[1..]), body());
    }
}
