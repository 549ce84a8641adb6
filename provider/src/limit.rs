//! The limit that a server names when it refuses a request for too many output tokens. Pure. Every server has its own
//! sentence; what they share are the numbers.

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

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            let _ = named(&text);
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
