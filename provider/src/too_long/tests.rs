//! Sentences of servers about conversations that are too long, and others with the same words.

use proptest::prelude::*;

use super::*;

/// Sentences of servers, each with the place where it was seen. Read in November 2026.
const TOO_LONG: &[(&str, &str)] = &[
    // Vendors' documentation and SDKs; recordings.
    (
        "Anthropic",
        "prompt is too long: 213462 tokens > 200000 maximum",
    ),
    (
        "Anthropic",
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000",
    ),
    (
        "Anthropic",
        "request_too_large: Request exceeds the maximum size",
    ),
    (
        "Anthropic, npm 1.14.0",
        "request_body_too_large_after_decoding",
    ),
    (
        "OpenAI",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    (
        "OpenAI",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the \
         messages, 2000 in the functions, and 6000 in the completion).",
    ),
    (
        "OpenAI, GPT-5",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 479832 tokens. \
         Please reduce the length of the messages.",
    ),
    ("OpenAI, its code alone", "context_length_exceeded"),
    (
        "OpenAI, the list of messages",
        "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with \
         length 2100 instead.",
    ),
    (
        "Azure, GitHub Models",
        "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    ),
    ("GitHub Models, its code", "tokens_limit_reached"),
    (
        "Gemini",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
    (
        "Vertex",
        "Unable to submit request because the input token count is 40000 but model only supports up to 32768. \
         Reduce the input token count and try again. You can also use the CountTokens API",
    ),
    ("Bedrock", "Input is too long for requested model."),
    (
        "Bedrock through LiteLLM",
        "litellm.BadRequestError: BedrockException - {\"message\":\"Input is too long for requested model.\"}. \
         Received Model Group=claude\nAvailable Model Group Fallbacks=None",
    ),
    (
        "Bedrock",
        "Malformed input request: expected maxLength: 200000, actual: 250000, please reformat your input and try \
         again.",
    ),
    (
        "Bedrock, Nova",
        "Too many input tokens. Max input tokens: 300000, request input token count: 310000",
    ),
    (
        "SageMaker",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
    ),
    // LiteLLM 1.110.2, exception_mapping_utils.py.
    (
        "Bedrock Mantle",
        "prompt tokens (250000) exceed model maximum (200000)",
    ),
    (
        "LiteLLM",
        "Requested token count exceeds the model's maximum context length of 131072 tokens",
    ),
    (
        "LiteLLM, a check before the call",
        "litellm.ContextWindowExceededError: Context Window exceeded for given call. No context_window_fallback",
    ),
    (
        "Cerebras",
        "Please reduce the length of the messages or completion. Current length is 12345 while limit is 8192",
    ),
    ("AI21", "Prompt has too many tokens"),
    (
        "Aleph Alpha",
        "This is longer than the model's maximum context length",
    ),
    (
        "Cohere",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a \
         shorter prompt.",
    ),
    // pi-ai 1.6.0, overflow.js.
    (
        "xAI",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    (
        "Groq",
        "Please reduce the length of the messages or completion.",
    ),
    (
        "OpenRouter",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens \
         (139000 of text input, 1000 in the output). Please reduce the length of either one",
    ),
    (
        "Poolside",
        "Input length 33000 exceeds the maximum allowed input length of 32000 tokens",
    ),
    (
        "SGLang, Together",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    ),
    (
        "OpenAI-compatible",
        "Input length (265330) exceeds model's maximum context length (262144).",
    ),
    (
        "GitHub Copilot",
        "prompt token count of 140000 exceeds the limit of 128000",
    ),
    (
        "GitHub Copilot, its code",
        "model_max_prompt_tokens_exceeded",
    ),
    (
        "MiniMax",
        "invalid params, context window exceeds limit (2013)",
    ),
    (
        "Moonshot",
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
    ),
    (
        "DS4",
        "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens",
    ),
    (
        "Mistral",
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    ),
    ("Z.ai", "Prompt exceeds max length"),
    ("Z.ai", "Prompt too long"),
    ("Zhipu", "Prompt 超长"),
    (
        "Alibaba",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    ),
    (
        "Ollama",
        "prompt too long; exceeded max context length by 4096 tokens",
    ),
    ("Ollama", "the input length exceeds the context length"),
    // Sources and issues of servers that people run.
    (
        "llama.cpp",
        "the request exceeds the available context size, try increasing it",
    ),
    (
        "llama.cpp",
        "request (4500 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ),
    ("llama.cpp", "Context size has been exceeded."),
    ("llama.cpp while it writes", "context shift is disabled"),
    (
        "LM Studio",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= \
         n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
    ),
    (
        "LM Studio",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with \
         context length of only 4096 tokens, which is not enough.",
    ),
    (
        "vLLM",
        "This model's maximum context length is 4096 tokens. However, you requested 0 output tokens and your \
         prompt contains at least 4097 input tokens, for a total of at least 4097 tokens.",
    ),
    (
        "vLLM",
        "You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is \
         only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the \
         input prompt. (parameter=input_tokens, value=99073)",
    ),
    (
        "vLLM",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that \
         `max_model_len` is no smaller than the number of text tokens plus multimodal tokens. For image inputs, \
         the number of image tokens depends on the number of images",
    ),
    (
        "Text Generation Inference",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
    ),
    (
        "Text Generation Inference, Together",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens \
         and 500 `max_new_tokens`",
    ),
    (
        "TensorRT-LLM, NVIDIA NIM",
        "Prompt length (5000) exceeds maximum input length (4096). Set log level to info and check TRTGptModel \
         logs for how maximum input length is set",
    ),
    (
        "TabbyAPI",
        "Prompt length 5000 is greater than max_seq_len 4096",
    ),
    (
        "SiliconFlow",
        "length of prompt_tokens (5000) must be less than max_seq_len (4096).",
    ),
    (
        "Fireworks",
        "The prompt is too long: 140000, model maximum context length: 131071",
    ),
    (
        "Cloudflare",
        "AiError: The estimated number of input and maximum output tokens (26000) exceeded this model context \
         window limit (24000).",
    ),
    ("Snowflake", "max tokens of 8192 exceeded"),
    (
        "Volcano Engine",
        "Total tokens of image and text exceed max message tokens. Request id: 0217",
    ),
    ("Baidu", "the max input characters is 11200"),
    (
        "opencode's list",
        "tokens in request more than max tokens allowed",
    ),
    // Nobody's words yet: the rule has to hold for the next server.
    ("a guess", "Conversation too long"),
    ("a guess", "The maximum input is 32768 tokens, got 40000"),
    ("a guess", "ERR_INPUT_TOO_LARGE"),
    (
        "a guess",
        "your messages do not fit into the context window",
    ),
    ("a guess", "输入长度超过模型限制"),
    (
        "a guess",
        "Your request (messages and tools) has 140000 tokens, more than the context window of 128000",
    ),
];

/// Sentences with the same words that are about something else.
const OTHERS: &[&str] = &[
    // The output.
    "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-opus-5-5",
    "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, whereas you provided 16384.",
    "`max_tokens` must be less than or equal to `8192`, the maximum value for this model",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "Range of max_tokens should be [1, 65536]",
    "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value",
    "Exceeding the limiting length: [max_tokens should be less or equal to 131072]",
    "`max_tokens` must be greater than `thinking.budget_tokens`",
    "Token limit reached",
    "Could not finish the message because max_tokens or model output limit was reached.",
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    // The account.
    "Rate limit reached for gpt-6 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000.",
    "Request too large for model `llama` in organization `o` on tokens per minute (TPM): Limit 6000, Requested 9000, \
     please reduce your message size and try again.",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
    "Number of request tokens has exceeded your daily rate limit",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Tokens per day limit exceeded",
    "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0",
    "You exceeded your current quota, please check your plan",
    "contract_spend_limit_reached",
    // Parts.
    "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6500712 bytes > 5242880 bytes",
    "messages.88.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for \
     many-image requests: 2000 pixels",
    "messages.0.content.0: A maximum of 100 PDF pages may be provided.",
    "tools.0.custom.name: String should have at most 128 characters",
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150",
    "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40",
    "Invalid 'input[2].name': string too long. Expected a string with maximum length 64",
    "tools.4.custom.input_schema: schema is too large",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    "prompt_cache_key: string too long",
    "Invalid 'user': string too long. Expected a string with maximum length 64",
    "Invalid schema for function 'x': In context=('properties', 'field'), array schema missing items.",
    // Other refusals.
    "temperature: Input should be less than or equal to 1",
    "messages: roles must alternate between \"user\" and \"assistant\"",
    "Unknown parameter: 'max_context_tokens'.",
    "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
    "The long context beta is not yet available for this subscription.",
    "Function call is missing a thought_signature in functionCall parts.",
    "Unexpected token < in JSON at position 0",
    "Your prompt was flagged by our safety system",
    // Servers in trouble.
    "context deadline exceeded",
    "exceeded request buffer limit while retrying upstream",
    "upstream sent too big header while reading response header from upstream",
    "Bad Request",
    "",
];

#[test]
fn a_conversation_that_is_too_long_is_known_in_the_words_of_every_server() {
    let missed: Vec<_> = { TOO_LONG.iter() }
        .filter(|(_, text)| !says_too_long(&[], text))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn limits_of_anything_else_are_told_apart() {
    let wrong: Vec<_> = { OTHERS.iter() }
        .filter(|text| says_too_long(&[], text))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_code_stands_for_the_sentence() {
    for (kind, expected) in [
        ("1261", true),
        ("context_length_exceeded", true),
        ("exceed_context_size_error", true),
        ("ContextWindowExceededError", true),
        ("too_many_prompt_tokens", true),
        ("1262", false),
        ("invalid_request_error", false),
        ("string_above_max_length", false),
    ] {
        assert_eq!(says_too_long(&[kind.to_owned()], "No."), expected, "{kind}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(kind in ".{0,20}", text in "(?s).{0,200}") {
        let _ = says_too_long(&[kind], &text);
    }
}
