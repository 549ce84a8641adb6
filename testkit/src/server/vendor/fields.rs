//! Fields that a request may have, for vendors that refuse others.

use serde_json::Value;

use super::super::json::list;

/// Known fields of requests of chat completions.
pub struct Fields {
    /// Those at the top.
    pub request: &'static [&'static str],
    /// Those of messages by role; messages of a role that is not listed are not checked.
    pub messages: &'static [(&'static str, &'static [&'static str])],
}

/// A field that is not known.
pub struct Unknown<'a> {
    /// Number and role of its message; `None` for one at the top.
    pub message: Option<(usize, &'a str)>,
    /// Its name.
    pub field: &'a str,
}

impl Fields {
    /// Returns the first unknown field of `body`.
    pub fn unknown<'a>(&self, body: &'a Value) -> Option<Unknown<'a>> {
        if let Some(field) = first_other(body, self.request) {
            let message = None;
            return Some(Unknown { message, field });
        }
        let mut messages = list(body, "messages").iter().enumerate();
        messages.find_map(|(number, message)| {
            let role = message["role"].as_str()?;
            let (_, known) = self.messages.iter().find(|(known, _)| *known == role)?;
            let field = first_other(message, known)?;
            let message = Some((number, role));
            Some(Unknown { message, field })
        })
    }
}

/// Returns the first field of `object` that is not `known`.
pub fn first_other<'a>(object: &'a Value, known: &[&str]) -> Option<&'a str> {
    let mut fields = object.as_object()?.keys().map(String::as_str);
    fields.find(|field| !known.contains(field))
}

/// Those of Mistral.
pub const MISTRAL: Fields = Fields {
    request: &[
        "model",
        "messages",
        "temperature",
        "top_p",
        "max_tokens",
        "stream",
        "stop",
        "random_seed",
        "metadata",
        "response_format",
        "tools",
        "tool_choice",
        "presence_penalty",
        "frequency_penalty",
        "min_tokens",
        "repetition_penalty",
        "top_k",
        "logprobs",
        "top_logprobs",
        "prompt_logprobs",
        "top_prompt_logprobs",
        "n",
        "prediction",
        "parallel_tool_calls",
        "reasoning_effort",
        "prompt_mode",
        "guardrails",
        "prompt_cache_key",
        "safe_prompt",
    ],
    messages: &[
        ("system", &["role", "content"]),
        ("user", &["role", "content"]),
        ("assistant", &["role", "content", "tool_calls", "prefix"]),
        ("tool", &["role", "content", "tool_call_id", "name"]),
    ],
};

/// Those of Groq.
pub const GROQ: Fields = Fields {
    request: &[
        "messages",
        "model",
        "citation_options",
        "compound_custom",
        "disable_tool_validation",
        "documents",
        "exclude_domains",
        "frequency_penalty",
        "function_call",
        "functions",
        "include_domains",
        "include_reasoning",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "reasoning_format",
        "response_format",
        "search_settings",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        // Not in the package, but in the documentation: https://github.com/withceleste/celeste-python/pull/351.
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    ],
    messages: &[
        ("system", &["role", "content", "name"]),
        ("user", &["role", "content", "name"]),
        (
            "assistant",
            &[
                "role",
                "content",
                "function_call",
                "name",
                "reasoning",
                "tool_calls",
            ],
        ),
        ("tool", &["role", "content", "tool_call_id"]),
    ],
};

/// Those of Cerebras.
pub const CEREBRAS: Fields = Fields {
    request: &[
        "messages",
        "model",
        "clear_thinking",
        "disable_reasoning",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "min_completion_tokens",
        "min_tokens",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning_effort",
        "reasoning_format",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    ],
    messages: &[
        ("system", &["role", "content", "name"]),
        ("user", &["role", "content", "name"]),
        (
            "assistant",
            &["role", "content", "name", "reasoning", "tool_calls"],
        ),
        ("tool", &["role", "content", "tool_call_id", "name"]),
    ],
};

/// Those of Fireworks.
pub const FIREWORKS: Fields = Fields {
    request: &[
        "messages",
        "model",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "reasoning_history",
        "thinking",
        "stream",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "frequency_penalty",
        "presence_penalty",
        "n",
        "stop",
        "response_format",
        "user",
        "logprobs",
        "prompt_truncate_len",
        "context_length_exceeded_behavior",
        "seed",
        "top_logprobs",
        "min_p",
        "typical_p",
        "repetition_penalty",
        "logit_bias",
        "prompt_cache_key",
        "prompt_cache_isolation_key",
        "service_tier",
        "prediction",
        "stream_options",
        "metadata",
    ],
    messages: &[],
};
