//! Errors in which a gateway quotes the server behind it. Pure. LiteLLM puts the whole answer of that server into a
//! sentence of its own (`litellm.BadRequestError: AnthropicException - b'{"error": …}'`); what the user can act on is the
//! sentence within.

use ah_conversation::json;
use serde_json::Value;

/// Most layers that are taken off: a proxy may be behind another one.
const MAX_LAYERS: usize = 8;
/// Words of LiteLLM after the quotation.
const TRAILERS: [&str; 5] = [
    "\n",
    " Received Model Group=",
    " Available Model Group Fallbacks=",
    " Handle with `litellm",
    " LiteLLM Retried:",
];

/// Returns the words of the server behind the gateway, as `message_in` finds them in its answer; `None` if `message`
/// quotes none.
pub fn quoted(message: &str, message_in: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let mut rest = message.trim().strip_prefix("litellm.")?;
    let mut is_quoted = false;
    for _ in 0..MAX_LAYERS {
        let Some((after, is_vendor)) = without_name(rest) else {
            break;
        };
        is_quoted |= is_vendor;
        rest = after;
    }
    let json = document(rest).or_else(|| document(&unescaped(rest)?));
    if let Some(words) = json.and_then(|json| message_in(&json)) {
        return Some(words);
    }
    let end = TRAILERS
        .iter()
        .filter_map(|trailer| rest.find(trailer))
        .min();
    let words = rest[..end.unwrap_or(rest.len())].trim();
    (is_quoted && !words.is_empty()).then(|| words.to_owned())
}

/// Takes off the name of an error (`litellm.RateLimitError: `), or of the vendor's (`AnthropicException - `), which is what
/// comes before a quotation.
fn without_name(text: &str) -> Option<(&str, bool)> {
    let is_name = |name: &str| {
        let ends = ["Error", "Exception"].iter().any(|end| name.ends_with(end));
        ends && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_'))
    };
    let vendor = text.split_once(" - ").filter(|(name, _)| is_name(name));
    let kind = || text.split_once(": ").filter(|(name, _)| is_name(name));
    match vendor {
        Some((_, rest)) => Some((rest, true)),
        None => kind().map(|(_, rest)| (rest, false)),
    }
}

/// The JSON object at the start of `text`.
fn document(text: &str) -> Option<Value> {
    if !text.starts_with('{') {
        return None;
    }
    let text = json::whole(text);
    let mut values = serde_json::Deserializer::from_str(text.as_str()).into_iter();
    values.next()?.ok()
}

/// The text of bytes in Python's notation: `b'…'`.
fn unescaped(text: &str) -> Option<String> {
    let inside = text
        .strip_prefix("b'")
        .or_else(|| text.strip_prefix("b\""))?;
    let mut plain = String::new();
    let mut characters = inside.chars();
    while let Some(c) = characters.next() {
        match (c, c == '\\') {
            (_, true) => match characters.next()? {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                'r' => plain.push('\r'),
                other => plain.push(other),
            },
            (c, false) => plain.push(c),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(message: &str) -> Option<String> {
        let words = |json: &Value| Some(json["error"]["message"].as_str()?.to_owned());
        quoted(message, words)
    }

    #[test]
    fn the_sentence_of_the_server_behind_is_found() {
        for (message, expected) in [
            (
                r#"litellm.AuthenticationError: AnthropicException - b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'. Received Model Group=team"#,
                Some("invalid x-api-key"),
            ),
            (
                r#"litellm.BadRequestError: AnthropicException - {"type": "error", "error": {"message": "max_tokens: 5 > 4, which is"}}. Received Model Group=a"#,
                Some("max_tokens: 5 > 4, which is"),
            ),
            (
                r#"litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError - {"error": {"message": "prompt is too long"}}"#,
                Some("prompt is too long"),
            ),
            (
                r#"litellm.BadRequestError: OpenAIException - b'{"error": {"message": "it\'s \\"no\\""}}'"#,
                Some(r#"it's "no""#),
            ),
            (
                "litellm.NotFoundError: OpenAIException - The model `x` does not exist. Received Model Group=x\nmore",
                Some("The model `x` does not exist."),
            ),
            (
                "litellm.InternalServerError: InternalServerError: Hosted_vllmException - Tool call validation failed: \
                 parameters",
                Some("Tool call validation failed: parameters"),
            ),
            // What the proxy says itself stays as it is.
            (
                "litellm.RateLimitError: this is a mock rate limit error\n\nLiteLLM: no",
                None,
            ),
            ("litellm.BadRequestError: AnthropicException - ", None),
            ("max_tokens - AnthropicException - x", None),
            ("", None),
        ] {
            assert_eq!(found(message).as_deref(), expected, "{message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            let _ = found(&format!("litellm.XError: YException - {text}"));
            let _ = found(&format!("litellm.XError: YException - b'{text}"));
        }
    }
}
