//! Whether a server refuses a request because the conversation is too long for the model. Pure.
//!
//! Each server has its own sentence, and new ones appear every month, so a rule decides rather than a list: the text speaks
//! of the whole input, of a length, and of more than is allowed. Limits of the output, of the account and of single parts of
//! a request speak of the same things, but each with words of its own.

/// What says it without the words of the rule, as [`plain`] returns it.
const SIGNS: [&str; 12] = [
    "maximum context length", // OpenAI and whoever speaks like it, also of a request with functions
    "prompt is too long",     // Messages API
    "reduce the length of",   // Groq, Cerebras
    "request too large",      // Messages API, Azure
    "request exceeds the maximum", // Messages API, of the whole body
    "body too large",         // GitHub Models, nginx
    "entity too large",       // nginx, Express
    "payload too large",      // gateways
    "exceed max message tokens", // Volcano Engine, which counts images in
    "context shift is disabled", // llama.cpp, in the middle of an answer
    "max input characters",   // Baidu
    "tokens limit reached",   // GitHub Models
];
/// Codes that stand for it alone: of Z.ai, and of Baidu.
const CODES: [&str; 2] = ["1261", "336103"];

/// The model's window. What is said of it is about the conversation, whatever else it names.
const WINDOWS: [&str; 8] = [
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum model length",
    "max seq len",
    "上下文",
    "输入长度",
];
/// The whole input.
const WHOLES: [&str; 9] = [
    "context",
    "conversation",
    "history",
    "input",
    "inputs",
    "messages",
    "prompt",
    "token",
    "tokens",
];
/// Its length.
const MEASURES: [&str; 11] = [
    " token", " length", " len ", " long", " window", " size", " large", " big", " many", "长",
    "超限",
];
/// More than is allowed.
const EXCESSES: [&str; 24] = [
    "too long",
    "too large",
    "too many",
    "too big",
    " exceed",
    " surpass",
    " overflow",
    "longer than",
    "larger than",
    "greater than",
    "bigger than",
    "more than",
    "less than",
    "fewer than",
    "at most",
    "up to",
    "beyond",
    "<=",
    "range of",
    "not fit",
    "not enough",
    "shorten",
    "过长",
    "超",
];

/// Limits of the account: waiting helps, or paying, but not a shorter conversation.
const ACCOUNT: [&str; 20] = [
    " per minute",
    " per min ",
    " per hour",
    " per day",
    " per second",
    " per month",
    " tpm",
    " tpd",
    "rate limit",
    " quota",
    " throttl",
    "too many requests",
    " please wait",
    " daily",
    " weekly",
    " monthly",
    " budget",
    " credit",
    " spend",
    " concurren",
];
/// Parts of a request. What is said of their size is not about the conversation.
const PARTS: [&str; 47] = [
    "array",
    "attachment",
    "attachments",
    "audio",
    "block",
    "blocks",
    "character",
    "characters",
    "depth",
    "description",
    "dimension",
    "dimensions",
    "document",
    "documents",
    "enum",
    "file",
    "files",
    "function",
    "functions",
    "grammar",
    "header",
    "headers",
    "image",
    "images",
    "item",
    "items",
    "key",
    "keys",
    "logprobs",
    "metadata",
    "nested",
    "nesting",
    "page",
    "pages",
    "pdf",
    "picture",
    "pictures",
    "pixels",
    "properties",
    "property",
    "schema",
    "schemas",
    "stop",
    "string",
    "tool",
    "tools",
    "video",
];
/// Limits of the output, in lower case.
const OUTPUT: [&str; 12] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max output tokens",
    "maximum output tokens",
    "maximum tokens you requested",
    "completion tokens",
    "output tokens",
    "budget_tokens",
    "thinking budget",
    "thinking_budget",
];
/// How a validator of values begins its sentences: `temperature: Input should be less than or equal to 1`.
const VALIDATOR: &str = "input should ";
/// Fields whose length is that of the conversation.
const WHOLE_FIELDS: [&str; 2] = ["invalid 'messages'", "invalid 'input'"];

/// Returns whether an error with this text says that the conversation is too long. `kinds` are its types and codes.
pub fn says_too_long(kinds: &[String], text: &str) -> bool {
    let lower = text.to_lowercase();
    let text = plain(&format!("{} {text}", kinds.join(" ")));
    if is_of_account(&text) {
        return false;
    }
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    let names = |words: &[&str]| text.split(' ').any(|word| words.contains(&word));
    if kinds.iter().any(|kind| CODES.contains(&kind.as_str())) || says(&SIGNS) {
        return true;
    }
    let is_of_window = says(&WINDOWS);
    let is_of_part = names(&PARTS) && !WHOLE_FIELDS.iter().any(|field| lower.contains(field));
    let is_of_whole = is_of_window || names(&WHOLES) && !is_of_part && !text.contains(VALIDATOR);
    let has_limit = is_of_window || says(&[" max", " limit"]);
    let is_excess = says(&EXCESSES) || has_limit && has_two_lengths(&text);
    is_of_whole && says(&MEASURES) && is_excess
}

/// Returns whether an error is about a limit of the account, such as one of tokens per minute.
pub fn says_account(text: &str) -> bool {
    is_of_account(&plain(text))
}

fn is_of_account(plain: &str) -> bool {
    ACCOUNT.iter().any(|words| plain.contains(words))
}

/// Returns the text as words in lower case with single blanks between and around them, without limits of the output: names
/// such as `context_length_exceeded` and `ContextLengthExceeded` become words too.
fn plain(text: &str) -> String {
    let mut lower = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for c in text.chars() {
        // 131,072
        if c == ',' && before.is_ascii_digit() {
            continue;
        }
        if before.is_lowercase() && c.is_uppercase() {
            lower.push(' ');
        }
        lower.extend(c.to_lowercase());
        before = c;
    }
    for name in OUTPUT {
        lower = lower.replace(name, " ");
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '<' | '=' | '>');
    let mut plain = String::from(" ");
    for word in lower
        .split(|c: char| !is_part(c))
        .filter(|word| !word.is_empty())
    {
        plain.push_str(word);
        plain.push(' ');
    }
    plain
}

/// Whether the text compares two numbers of the size of a window.
fn has_two_lengths(plain: &str) -> bool {
    let numbers = plain
        .split(' ')
        .filter(|word| word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.take(2).count() == 2
}

#[cfg(test)]
mod tests;
