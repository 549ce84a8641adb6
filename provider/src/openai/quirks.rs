//! Differences between servers of chat completions in the requests that they accept. Answers are read in the same way for
//! all servers.

use serde::Deserialize;

use super::tags::TextTags;

/// Deviations of a server from what most accept. The names are those of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quirks {
    /// Prefix for the names of models without a `/`; a gateway may require the vendor's name.
    pub model_prefix: String,
    /// Field of the output limit.
    pub output_limit: OutputLimit,
    /// Whether it rejects `stream_options`, which asks for the token counts of a streamed answer.
    pub no_usage: bool,
    /// Field of the thinking setting.
    pub thinking: ThinkingField,
    /// Reasoning that is sent back to it.
    pub returned_reasoning: ReturnedReasoning,
    /// Fields of its own that it takes back with an answer or a call, for a server that refuses some that it has sent. Unset,
    /// it takes back all.
    pub returned_fields: Option<Vec<String>>,
    /// Whether it accepts `cache_control`, the prompt cache breakpoints of the Messages API.
    pub cache_control: bool,
    /// Whether it accepts images in tool results.
    pub images_in_results: bool,
    /// Ids of tool calls that it accepts.
    pub tool_call_ids: ToolCallIds,
    /// How it is asked to hold an answer to a form.
    pub answer_form: AnswerField,
    /// Whether it takes one call in an answer at most. Several are sent one by one, each with its result.
    pub one_call: bool,
    /// Whether its models (Gemini 3 and later) refuse a call without the signature that they give with the first of an answer. One
    /// that another model has made gets the word for that.
    pub signed_calls: bool,
    /// Thinking and tool calls that it leaves in the text of answers.
    pub text_tags: TextTags,
    /// Whether a message of the Messages API with tool results may hold nothing else.
    pub results_alone: bool,
    /// Whether it refuses new tools and system messages within a conversation of the Messages API.
    pub no_updates: bool,
    /// Whether the path of the Messages API ends with the model's name, and the body has the version of the API in its place.
    pub model_in_path: bool,
    /// Whether it passes on the headers in `extra_headers` to the server behind it; betas are sent there then.
    pub extra_headers: bool,
}

/// Field of the output limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    /// `max_tokens`, the usual one.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which newer models of OpenAI require.
    MaxCompletionTokens,
    /// None; the server decides.
    None,
}

/// Field of the thinking setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingField {
    /// None; the model decides.
    #[default]
    None,
    /// `thinking` with a budget, as in the Messages API; LiteLLM converts it for other vendors.
    Thinking,
    /// `reasoning_effort`: `low`, `medium` or `high`.
    ReasoningEffort,
    /// `reasoning` with an effort or a budget, as in OpenRouter.
    Reasoning,
    /// `enable_thinking` and `thinking_budget`, as in Qwen.
    EnableThinking,
    /// `reasoning_budget_tokens`, and `enable_thinking` for the chat template, as in llama.cpp.
    ReasoningBudget,
}

/// Field that holds an answer to a form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerField {
    /// `tool_choice` at vendors and gateways, `response_format` at others.
    #[default]
    Usual,
    /// `response_format` with the schema: the answer is text.
    ResponseFormat,
    /// `tool_choice` with the name of a tool: the answer is a call.
    ToolChoice,
    /// None: it is only asked for.
    None,
}

/// Reasoning that is sent back to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnedReasoning {
    /// As it came: in the same fields, signed reasoning unchanged.
    #[default]
    Sealed,
    /// As text in `reasoning_content`, also where the server left it in the text of the answer.
    Words,
    /// The text with each answer, and a space for one without any: a server that refuses an answer with calls otherwise, even if
    /// another model gave it.
    Always,
    /// None.
    None,
}

/// Ids of tool calls that a server accepts. Others are replaced, in calls and results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallIds {
    /// Any. LiteLLM puts data that Gemini expects back into ids of any length.
    #[default]
    Any,
    /// At most 40 characters, as OpenAI requires.
    Short,
    /// Nine letters and digits, as Mistral requires.
    Nine,
}
