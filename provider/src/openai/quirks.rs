//! How servers that speak chat completions differ in what they want to be sent. What they send is read without asking
//! which server it is.

use serde::Deserialize;

/// How a server differs from what most take. The names are those of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quirks {
    /// What is put before the name of a model that has no `/` in it, as a gateway may want the vendor's name there.
    pub model_prefix: String,
    /// How it is told the most that it may write.
    pub output_limit: OutputLimit,
    /// Whether it refuses to be asked for the tokens of a streamed answer.
    pub no_usage: bool,
    /// How it is told to think.
    pub thinking: ThinkingField,
    /// What of its reasoning it wants back.
    pub returned_reasoning: ReturnedReasoning,
    /// Whether it takes breakpoints for the prompt cache, in the form of the Messages API.
    pub cache_control: bool,
    /// Whether it takes pictures in the results of tools.
    pub images_in_results: bool,
    /// Which ids of tool calls it takes.
    pub tool_call_ids: ToolCallIds,
    /// Whether it passes on to the server behind it what stands under `extra_headers`: betas go there then.
    pub extra_headers: bool,
}

/// The field that holds the most that a model may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    /// The usual one.
    #[default]
    MaxTokens,
    /// Its successor, which OpenAI's newer models insist on.
    MaxCompletionTokens,
    /// None: the server decides.
    None,
}

/// The field by which a model is told how much to think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingField {
    /// None: it thinks as it does by itself.
    #[default]
    None,
    /// An object with a number of tokens, as in the Messages API; LiteLLM translates it for others.
    Thinking,
    /// `low`, `medium` or `high`.
    ReasoningEffort,
    /// An object with a number of tokens, in OpenRouter's form.
    Reasoning,
    /// A switch with a number of tokens beside it, in Qwen's form.
    EnableThinking,
}

/// What of a model's reasoning is sent back to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnedReasoning {
    /// What it sealed, as it came.
    #[default]
    Sealed,
    /// The words, as some open models want them between their tool calls.
    Words,
    /// Nothing.
    None,
}

/// Which ids of tool calls a server takes; others are replaced, in calls and results alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallIds {
    /// Any. LiteLLM hides what Gemini wants back in ids of any length.
    #[default]
    Any,
    /// At most 40 characters, as OpenAI does.
    Short,
    /// Nine letters and digits, as Mistral does.
    Nine,
}

impl Quirks {
    /// Those of a LiteLLM proxy, which understands what Claude does.
    pub fn litellm() -> Self {
        Self {
            thinking: ThinkingField::Thinking,
            cache_control: true,
            images_in_results: true,
            extra_headers: true,
            ..Self::default()
        }
    }

    /// Those of OpenAI's own server.
    pub fn openai() -> Self {
        Self {
            output_limit: OutputLimit::MaxCompletionTokens,
            thinking: ThinkingField::ReasoningEffort,
            tool_call_ids: ToolCallIds::Short,
            ..Self::default()
        }
    }
}
