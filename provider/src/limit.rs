//! The limits that a server names when it refuses a request: of the output, and of the window. Pure. Every server has its own
//! sentence; what they share are the numbers.

use std::sync::Arc;

use ah_conversation::{Message, Model, Request, Role, estimate_message, estimate_text};

/// Fewest output tokens with which a request is worth sending again.
pub const MIN_OUTPUT: u64 = 1_024;

/// A limit that a server names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Most output tokens that the model writes in one response.
    Output(u64),
    /// Context window of the model, and the part of it that the input of this request leaves free.
    Window {
        /// Input and output together, in tokens.
        window: u64,
        /// Output tokens that there is room for.
        room: u64,
    },
}

/// Returns the limit that an error message names.
pub fn named(message: &str) -> Option<Limit> {
    let text = message.to_ascii_lowercase().replace(['`', '\'', '"'], "");
    window(&text).or_else(|| output(&text))
}

/// The window, where input and output together are too long. Each sentence gives it with the length of the input.
fn window(text: &str) -> Option<Limit> {
    let after = |phrase| number_after(text, phrase);
    // The Messages API: `exceed context limit: 190000 + 16384 > 200000`.
    let sum = || {
        let (_, sum) = text.split_once("exceed context limit:")?;
        let (parts, window) = sum.split_once('>')?;
        let (input, _) = parts.split_once('+')?;
        Some((first_number(window)?, first_number(input)?))
    };
    // OpenAI and vLLM: `maximum context length is 12000 tokens. However, you requested 20043 tokens (3659 in the messages,
    // 16384 in the completion)`.
    let requested = || {
        let window = after("maximum context length is")?;
        let (before, _) = text.split_once(" in the completion")?;
        let output = last_number(before)?;
        Some((window, after("you requested")?.checked_sub(output)?))
    };
    // vLLM: `maximum context length is 12000 tokens and your request has 3659 input tokens`, or `you passed 3659 input
    // tokens … context length is only 12000 tokens`.
    let passed = || {
        let window =
            after("maximum context length is").or_else(|| after("context length is only"))?;
        let input = after("your request has").or_else(|| after("you passed"))?;
        text.contains("input tokens").then_some((window, input))
    };
    // Text Generation Inference: `inputs tokens + max_new_tokens must be <= 32769. Given: 3659 inputs tokens`.
    let given = || Some((after("max_new_tokens must be <=")?, after("given:")?));
    let (window, input) = sum().or_else(requested).or_else(passed).or_else(given)?;
    let room = window.checked_sub(input)?;
    Some(Limit::Window { window, room })
}

/// What a refusal for too much input says before the window, in lower case without quotes.
const BEFORE_WINDOW: [&str; 23] = [
    "maximum context length is",
    "model maximum context length:",
    "maximum context length of",
    "maximum context length (",
    "context length is only",
    "context length of only",
    "context length (",
    "n_ctx:",
    "available context size (",
    "context size is",
    "configured limit of",
    "maximum prompt length is",
    "maximum number of tokens allowed (",
    "maximum allowed input length of",
    "maximum input length (",
    "exceeds the limit of",
    "model token limit:",
    "model maximum (",
    "prompt cannot exceed",
    "input length should be [1,",
    "maximum model length of",
    "only supports up to",
    "window limit (",
];
/// What it says behind the window.
const BEHIND_WINDOW: [&str; 2] = [" maximum context length", " maximum"];
/// Smallest window that is believed.
const MIN_WINDOW: u64 = 1_024;

/// Returns the context window that the refusal of a conversation names.
pub fn window_in(message: &str) -> Option<u64> {
    let text = message.to_ascii_lowercase().replace(['`', '\'', '"'], "");
    let digits = |at: usize| text[..at].ends_with(|c: char| c.is_ascii_digit());
    // `300,000`; lists have a blank behind the comma.
    let text: String = { text.char_indices() }
        .filter(|(at, c)| !(*c == ',' && digits(*at)) || text[at + 1..].starts_with(' '))
        .map(|(_, c)| c)
        .collect();
    let sum = || {
        let (_, sum) = text.split_once("exceed context limit:")?;
        first_number(sum.split_once('>')?.1)
    };
    let before = || { BEFORE_WINDOW.iter() }.find_map(|phrase| number_after(&text, phrase));
    // `213462 tokens > 200000 maximum`, `too large for model with 32768 maximum context length`
    let behind = || {
        { BEHIND_WINDOW.iter() }.find_map(|phrase| {
            let (before, _) = text.split_once(phrase)?;
            before
                .ends_with(|c: char| c.is_ascii_digit())
                .then(|| last_number(before))?
        })
    };
    let window = sum().or_else(before).or_else(behind)?;
    (window >= MIN_WINDOW).then_some(window)
}

/// What is known of the window of one model, besides its name.
#[derive(Debug, Default)]
pub struct Windows {
    /// Most tokens, by our estimate, that the server has answered.
    answered: u64,
}

impl Windows {
    /// Returns the window that `message`, the refusal of `request`, names, if it is smaller than the known one. A window into
    /// which less would fit than was answered before is not believed: the server speaks of something else.
    pub fn learn(&mut self, message: &str, request: &Request, model: &Model) -> Option<u64> {
        self.answered = self.answered.max(answered(request, model));
        let window = window_in(message)?;
        (window < model.context_window && self.answered <= window + window / 4).then_some(window)
    }
}

/// Estimates the tokens of the request that the last answer of `model` answered.
fn answered(request: &Request, model: &Model) -> u64 {
    let is_answer = |message: &Arc<Message>| {
        message.role == Role::Assistant && message.was_written_by(&model.provider, &model.name)
    };
    let Some(at) = request.messages.iter().rposition(is_answer) else {
        return 0;
    };
    let messages = request.messages[..at].iter();
    let system = request.system.iter().map(|text| estimate_text(text));
    messages
        .map(|message| estimate_message(message))
        .chain(system)
        .sum()
}

fn output(text: &str) -> Option<Limit> {
    if ![
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maximum tokens",
    ]
    .iter()
    .any(|field| text.contains(field))
    {
        return None;
    }
    // The Messages API: `max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens`.
    let allowed = || {
        let (before, _) = text.split_once(", which is the maximum allowed")?;
        last_number(before)
    };
    let phrases = [
        "model supports at most",        // OpenAI
        "must be less than or equal to", // Groq
        "exceeds the model limit of",    // Bedrock
        "must be at most",
    ];
    // DeepSeek, Qwen: `the valid range of max_tokens is [1, 8192]`.
    let range = || {
        let (_, range) = text.split_once("range of max_tokens")?;
        let (range, _) = range.split_once(']')?;
        last_number(range)
    };
    let found = allowed()
        .or_else(|| phrases.iter().find_map(|phrase| number_after(text, phrase)))
        .or_else(range);
    found.filter(|limit| *limit > 0).map(Limit::Output)
}

/// The number that follows `phrase`, with at most a few characters between them.
fn number_after(text: &str, phrase: &str) -> Option<u64> {
    let (_, rest) = text.split_once(phrase)?;
    let start = rest.find(|c: char| c.is_ascii_digit())?;
    (start <= 3).then(|| first_number(rest))?
}

fn first_number(text: &str) -> Option<u64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[start..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn last_number(text: &str) -> Option<u64> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = text[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + 1);
    text[start..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_read_from_the_sentences_of_servers() {
        let window = |window, room| Some(Limit::Window { window, room });
        let output = |limit| Some(Limit::Output(limit));
        for (message, expected) in [
            (
                "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-opus-5-5",
                output(128_000),
            ),
            (
                "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, whereas you \
                 provided 16384.",
                output(4_096),
            ),
            (
                "`max_tokens` must be less than or equal to `8192`, the maximum value for this model",
                output(8_192),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                output(8_192),
            ),
            ("Range of max_tokens should be [1, 65536]", output(65_536)),
            (
                "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value",
                output(4_096),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length or \
                 `max_tokens` and try again",
                window(200_000, 10_000),
            ),
            (
                "This model's maximum context length is 12000 tokens. However, you requested 20043 tokens (3659 in the \
                 messages, 16384 in the completion). Please reduce the length of the messages or completion.",
                window(12_000, 8_341),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the \
                 messages, 2000 in the functions, and 6000 in the completion).",
                window(8_192, 5_192),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is \
                 12000 tokens and your request has 3659 input tokens (16384 > 12000 - 3659).",
                window(12_000, 8_341),
            ),
            (
                "You passed 3659 input tokens and requested 16384 output tokens. However, the model's context length \
                 is only 12000 tokens",
                window(12_000, 8_341),
            ),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 32769. Given: 3659 `inputs` tokens and 40000 \
                 `max_new_tokens`",
                window(32_769, 29_110),
            ),
            // The input alone is too long, or the error is another.
            ("prompt is too long: 210000 tokens > 200000 maximum", None),
            (
                "This model's maximum context length is 12000 tokens. However, your messages resulted in 20000 tokens",
                None,
            ),
            (
                "input length and `max_tokens` exceed context limit: 300000 + 16384 > 200000",
                None,
            ),
            ("max_tokens: field required", None),
            ("max_tokens must be at most", None),
            ("model supports at most 5 stop sequences", None),
            ("", None),
        ] {
            assert_eq!(named(message), expected, "{message}");
        }
    }

    #[test]
    fn windows_are_read_from_the_sentences_of_servers() {
        for (message, expected) in [
            (
                "prompt is too long: 213462 tokens > 200000 maximum",
                Some(200_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease",
                Some(200_000),
            ),
            (
                "This model's maximum context length is 12,000 tokens. However, you requested 20043 tokens",
                Some(12_000),
            ),
            (
                "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 479832 tokens.",
                Some(272_000),
            ),
            (
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
                Some(1_048_575),
            ),
            (
                "the input token count is 40000 but model only supports up to 32768.",
                Some(32_768),
            ),
            (
                "prompt tokens (250000) exceed model maximum (200000)",
                Some(200_000),
            ),
            (
                "maximum prompt length is 131072 but the request contains 537812 tokens.",
                Some(131_072),
            ),
            (
                "Input length 33000 exceeds the maximum allowed input length of 32000 tokens",
                Some(32_000),
            ),
            (
                "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
                Some(4_096),
            ),
            (
                "Input length (265330) exceeds model's maximum context length (262144).",
                Some(262_144),
            ),
            (
                "prompt token count of 140000 exceeds the limit of 128000",
                Some(128_000),
            ),
            (
                "Your request exceeded model token limit: 131072 (requested: 140000)",
                Some(131_072),
            ),
            (
                "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens",
                Some(131_072),
            ),
            (
                "Prompt contains 65673 tokens, too large for model with 32768 maximum context length",
                Some(32_768),
            ),
            ("Range of input length should be [1, 129024]", Some(129_024)),
            (
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
                Some(4_081),
            ),
            (
                "request (4500 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4_096),
            ),
            (
                "is greater than the context length (n_keep: 5000>= n_ctx: 4096). Try to load the model",
                Some(4_096),
            ),
            (
                "the model is loaded with context length of only 4096 tokens",
                Some(4_096),
            ),
            (
                "Prompt length (5000) exceeds maximum input length (4096).",
                Some(4_096),
            ),
            (
                "The prompt is too long: 140000, model maximum context length: 131071",
                Some(131_071),
            ),
            (
                "exceeded this model context window limit (24000).",
                Some(24_000),
            ),
            // Numbers of something else, or none.
            (
                "prompt too long; exceeded max context length by 4096 tokens",
                None,
            ),
            ("invalid params, context window exceeds limit (2013)", None),
            ("Input is too long for requested model.", None),
            ("maximum context length is 12 tokens", None),
            ("", None),
        ] {
            assert_eq!(window_in(message), expected, "{message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,200}", digits in "[0-9,]{0,30}") {
            let _ = named(&text);
            let _ = window_in(&text);
            for phrase in BEFORE_WINDOW {
                let _ = window_in(&format!("{text}{phrase} {digits}{text}"));
            }
        }

        #[test]
        fn any_numbers_are_read(a: u64, b: u64, c in "[0-9]{1,30}") {
            for text in [
                format!("exceed context limit: {a} + {b} > {c}"),
                format!("maximum context length is {a}. you requested {b} tokens ({c} in the completion"),
                format!("range of max_tokens [{a}, {c}]"),
            ] {
                let _ = named(&text);
            }
        }
    }
}
