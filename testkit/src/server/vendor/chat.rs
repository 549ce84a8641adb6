//! Rules of vendors about requests of chat completions.

use serde_json::{Value, json};

use super::super::json::list;
use super::super::protocol::Protocol::Chat;
use super::fields::{CEREBRAS, FIREWORKS, GROQ, MISTRAL, Unknown};
use super::{Asked, Rule, digest, gpt};

/// OpenAI: no empty list of tools. vLLM refuses it as well since 0.20.
pub const SOME_TOOLS: Rule = Rule::new(
    Chat,
    "https://github.com/vllm-project/vllm/pull/39780",
    "2026-04-14",
    |asked| {
        match asked.body.get("tools") {
        Some(Value::Array(tools)) if tools.is_empty() => Err(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
                .to_owned(),
        ),
        _ => Ok(()),
    }
    },
);

/// OpenAI: models from GPT-5.4 on take function tools here only without an effort, from GPT-5.6 on only with `none`.
pub const TOOLS_BY_RESPONSES: Rule = Rule::new(
    Chat,
    "https://github.com/BerriAI/litellm/pull/34569",
    "2026-07-24",
    |asked| {
        let Some(version) = gpt::version(asked.model()) else {
            return Ok(());
        };
        let effort = asked.body["reasoning_effort"].as_str();
        let reasons = match effort {
            Some(effort) => effort != "none" && version >= (5, 4),
            None => version >= (5, 6),
        };
        if reasons && !list(asked.body, "tools").is_empty() {
            return Err(format!(
                "Function tools with reasoning_effort are not supported for {} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                asked.model()
            ));
        }
        Ok(())
    },
);

/// OpenAI: models that always reason refuse the efforts `none` and `minimal`.
pub const EFFORT: Rule = Rule::new(
    Chat,
    "https://github.com/maximhq/bifrost/issues/7275",
    "2026-09-17",
    |asked| super::responses::effort(asked, &asked.body["reasoning_effort"], "reasoning_effort"),
);

/// OpenAI: GPT-6 and later take no temperature or `top_p` but the default, unless they do not reason.
pub const SAMPLING: Rule = Rule::new(
    Chat,
    "https://developers.openai.com/api/docs/guides/latest-model/gpt-6.2-astra.md",
    "2026-11-28",
    |asked| super::responses::sampling(asked, &asked.body["reasoning_effort"]),
);

/// OpenAI: reasoning models take `max_completion_tokens` in the place of `max_tokens`.
pub const OUTPUT_LIMIT: Rule = Rule::new(
    Chat,
    "npm openai 7.59.0, resources/chat/completions",
    "2026-11-17",
    |asked| {
        let name = asked.model().rsplit('/').next().unwrap_or_default();
        let is_o = name.starts_with('o') && name[1..].starts_with(|c: char| c.is_ascii_digit());
        let reasons = is_o || gpt::version(name).is_some_and(|version| version >= (5, 0));
        match asked.body.get("max_tokens") {
            Some(_) if reasons => Err(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    },
);

/// Gemini 3 and later: the first call of each step of the current turn has its signature, and no signature is another's.
pub const THOUGHT_SIGNATURES: Rule = Rule::new(
    Chat,
    "https://ai.google.dev/gemini-api/docs/thought-signatures",
    "2026-11-28",
    |asked| {
        let given = |_: &Value, call: &Value| {
            let signature = call.pointer("/extra_content/google/thought_signature");
            signature.and_then(Value::as_str).map(str::to_owned)
        };
        signatures(asked, given)
    },
);

/// OpenRouter: `reasoning_details` of Gemini come back with its calls, since they hold the signatures.
pub const GEMINI_DETAILS: Rule = Rule::new(
    Chat,
    "https://github.com/OpenRouterTeam/ai-sdk-provider/issues/239",
    "2025-11-29",
    |asked| {
        let given = |message: &Value, call: &Value| {
            let details = list(message, "reasoning_details").iter();
            let mut data = details
                .filter(|detail| {
                    detail["type"] == "reasoning.encrypted" && detail["id"] == call["id"]
                })
                .filter_map(|detail| detail["data"].as_str());
            data.next().map(str::to_owned)
        };
        signatures(asked, given).map_err(|upstream| {
            format!(
                "Gemini models require OpenRouter reasoning details to be preserved in each request. Upstream error: {upstream}"
            )
        })
    },
);

/// Gemini: fields of other vendors are refused.
pub const NAMES: Rule = Rule::new(
    Chat,
    "https://github.com/MinLL/SkyrimNet-GamePlugin/issues/77",
    "2025-08-04",
    |asked| {
        let mut others = [
            "frequency_penalty",
            "google",
            "reasoning",
            "thinking",
            "top_k",
        ]
        .into_iter();
        match others.find(|field| asked.body.get(*field).is_some()) {
            Some(field) => Err(format!(
                "Invalid JSON payload received. Unknown name \"{field}\": Cannot find field."
            )),
            None => Ok(()),
        }
    },
);

/// Gemini: a tool's name begins with a letter or an underscore.
pub const FIRST_LETTER: Rule = Rule::new(
    Chat,
    "https://github.com/google-gemini/gemini-cli/issues/7878",
    "2025-09-06",
    |asked| match bad_name(asked, |first| first.is_ascii_alphabetic() || first == '_') {
        Some(at) => Err(format!(
            "tools[0].function_declarations[{at}].name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores, dots and dashes, with a maximum length of 64."
        )),
        None => Ok(()),
    },
);

/// DeepSeek: between two messages of the user, if there were calls, each answer has its `reasoning_content`, which may be
/// empty. Without calls it is ignored.
pub const REASONING_OF_CALLS: Rule = Rule::new(
    Chat,
    "https://api-docs.deepseek.com/guides/thinking_mode",
    "2026-11-28",
    |asked| {
        if asked.body["thinking"]["type"] == "disabled" {
            return Ok(());
        }
        let messages = list(asked.body, "messages");
        for turn in messages.split(|message| message["role"] == "user") {
            let answers = || turn.iter().filter(|it| it["role"] == "assistant");
            let calls = answers().any(|answer| answer["tool_calls"].is_array());
            if calls && answers().any(|answer| !answer["reasoning_content"].is_string()) {
                return Err(
                    "The `reasoning_content` in the thinking mode must be passed back to the API."
                        .to_owned(),
                );
            }
        }
        Ok(())
    },
);

/// Moonshot: each answer with calls has a `reasoning_content` that is not empty, unless thinking is off.
pub const REASONING_WITH_CALLS: Rule = Rule::new(
    Chat,
    "https://github.com/theopenco/llmgateway/pull/2093",
    "2026-04-26",
    |asked| {
        let thinks =
            asked.model().starts_with("kimi-") && asked.body["thinking"]["type"] != "disabled";
        let messages = list(asked.body, "messages").iter().enumerate();
        let mut answers = messages.filter(|(_, message)| message["tool_calls"].is_array());
        let lacks = |message: &Value| {
            message["reasoning_content"]
                .as_str()
                .is_none_or(str::is_empty)
        };
        match answers.find(|(_, message)| thinks && lacks(message)) {
            Some((at, _)) => Err(format!(
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
            )),
            None => Ok(()),
        }
    },
);

/// Moonshot: a tool's name begins with a letter.
pub const LETTER_FIRST: Rule = Rule::new(
    Chat,
    "https://github.com/MoonshotAI/kimi-cli/issues/1773",
    "2026-04-07",
    |asked| {
        match bad_name(asked, |first| first.is_ascii_alphabetic()) {
        Some(_) => Err(
            "function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes"
                .to_owned(),
        ),
        None => Ok(()),
    }
    },
);

/// Moonshot: models that reason take no temperature but 1.
pub const WARM: Rule = Rule::new(
    Chat,
    "PyPI litellm 1.110.2, llms/moonshot/chat/transformation.py",
    "2026-11-28",
    |asked| match asked.body["temperature"].as_f64() {
        Some(temperature) if temperature != 1.0 && asked.model().starts_with("kimi-") => {
            Err("invalid temperature: only 1 is allowed for this model".to_owned())
        }
        _ => Ok(()),
    },
);

/// Mistral: the id of a call is nine letters and digits.
pub const NINE: Rule = Rule::new(
    Chat,
    "https://github.com/nearai/ironclaw/issues/1241",
    "2026-03-16",
    |asked| {
        let messages = list(asked.body, "messages");
        let calls = messages.iter().flat_map(|it| list(it, "tool_calls"));
        let of_calls = calls.map(|call| &call["id"]);
        let results = messages.iter().filter(|it| it["role"] == "tool");
        let mut ids = of_calls.chain(results.map(|result| &result["tool_call_id"]));
        let is_nine = |id: &str| id.len() == 9 && id.bytes().all(|it| it.is_ascii_alphanumeric());
        match ids.find(|id| !id.as_str().is_some_and(is_nine)) {
            Some(id) => Err(format!(
                "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9.",
                id.as_str().unwrap_or("null")
            )),
            None => Ok(()),
        }
    },
);

/// Mistral: which role may follow which. One of the user may follow a result since 1.12 of 22 September.
pub const ORDER: Rule = Rule::new(
    Chat,
    "PyPI mistral-common 1.13.1, protocol/instruct/validator.py",
    "2026-11-28",
    |asked| {
        let roles: Vec<_> = { list(asked.body, "messages").iter() }
            .map(|message| message["role"].as_str().unwrap_or_default())
            .collect();
        for pair in roles.windows(2) {
            let following: &[_] = match pair[0] {
                "system" => &["user", "assistant", "system"],
                "user" => &["assistant", "system", "user"],
                "assistant" => &["assistant", "user", "tool"],
                _ => &["assistant", "tool", "user"],
            };
            if !following.contains(&pair[1]) {
                return Err(format!(
                    "Unexpected role '{}' after role '{}'",
                    pair[1], pair[0]
                ));
            }
        }
        match roles.last() {
            Some(&("user" | "tool")) => Ok(()),
            last => Err(format!(
                "Expected last role User or Tool (or Assistant with prefix True) for serving but got {}",
                last.unwrap_or(&"none")
            )),
        }
    },
);

/// Mistral: no fields but those of its own API; `stream_options` and `reasoning_content` are none.
pub const MISTRAL_FIELDS: Rule = Rule::new(
    Chat,
    "PyPI mistralai 3.7.0, client/models/chatcompletionstreamrequest.py",
    "2026-11-28",
    |asked| match MISTRAL.unknown(asked.body) {
        Some(Unknown { message, field }) => {
            let place = match message {
                Some((number, role)) => json!(["body", "messages", number, role, field]),
                None => json!(["body", field]),
            };
            let detail = json!([{
                "type": "extra_forbidden",
                "loc": place,
                "msg": "Extra inputs are not permitted",
            }]);
            Err(detail.to_string())
        }
        None => Ok(()),
    },
)
.with_status(422);

/// Groq: no fields but its own, at the top and in messages.
pub const GROQ_FIELDS: Rule = Rule::new(
    Chat,
    "https://github.com/tashfeenahmed/freellmapi/issues/1070 and PyPI groq 1.7.0",
    "2026-08-30",
    |asked| match GROQ.unknown(asked.body) {
        Some(Unknown { message, field }) => Err(match message {
            Some((number, role)) => format!(
                "'messages.{number}' : for 'role:{role}' the following must be satisfied[('messages.{number}' : property '{field}' is unsupported)]"
            ),
            None => format!("property '{field}' is unsupported"),
        }),
        None => Ok(()),
    },
);

/// Cerebras: no fields but its own, at the top and in messages.
pub const CEREBRAS_FIELDS: Rule = Rule::new(
    Chat,
    "https://github.com/proxysoul/Empryo/pull/209 and PyPI cerebras-cloud-sdk 1.91.0",
    "2026-09-19",
    |asked| match CEREBRAS.unknown(asked.body) {
        Some(Unknown { message, field }) => {
            let place = match message {
                Some((number, role)) => format!("messages.{number}.{role}.{field}"),
                None => field.to_owned(),
            };
            Err(format!("{place}: property '{place}' is unsupported"))
        }
        None => Ok(()),
    },
);

/// Fireworks: no fields at the top but its own.
pub const FIREWORKS_FIELDS: Rule = Rule::new(
    Chat,
    "https://github.com/web-infra-dev/midscene/issues/1322 and PyPI litellm 1.110.2, llms/fireworks_ai",
    "2026-11-28",
    |asked| match FIREWORKS.unknown(asked.body) {
        Some(Unknown { field, .. }) => Err(format!(
            "Extra inputs are not permitted, field: '{field}', value: {}",
            asked.body[field]
        )),
        None => Ok(()),
    },
);

/// xAI: Grok 4 and later take neither stop sequences nor penalties, and not every model takes an effort.
pub const GROK: Rule = Rule::new(
    Chat,
    "https://github.com/NousResearch/hermes-agent/pull/23435 and PyPI litellm 1.110.2, llms/xai",
    "2026-11-28",
    |asked| {
        let effort = &asked.body["reasoning_effort"];
        super::responses::grok(asked, effort)
    },
);

/// Z.ai: no role `developer`.
pub const FOUR_ROLES: Rule = Rule::new(
    Chat,
    "https://github.com/earendil-works/pi/issues/547",
    "2026-01-07",
    |asked| {
        let mut messages = list(asked.body, "messages").iter();
        match messages.find(|message| message["role"] == "developer") {
            Some(_) => Err("Incorrect role information".to_owned()),
            None => Ok(()),
        }
    },
);

/// MiniMax: a tool has parameters, be they empty.
pub const PARAMETERS: Rule = Rule::new(
    Chat,
    "https://github.com/QwenLM/qwen-code/issues/11834",
    "2026-09-14",
    |asked| {
        let mut tools = list(asked.body, "tools").iter();
        match tools.find(|tool| !tool["function"]["parameters"].is_object()) {
            Some(_) => Err("invalid params, function parameters is empty (2013)".to_owned()),
            None => Ok(()),
        }
    },
);

/// Qwen at Alibaba: no empty list of calls.
pub const SOME_CALLS: Rule = Rule::new(
    Chat,
    "https://github.com/microsoft/autogen/issues/5814",
    "2025-03-05",
    |asked| {
        let mut messages = list(asked.body, "messages").iter();
        let is_empty =
            |message: &Value| message["tool_calls"].as_array().is_some_and(Vec::is_empty);
        match messages.find(|message| is_empty(message)) {
            Some(_) => Err(
                "<400> InternalError.Algo.InvalidParameter: Empty tool_calls is not supported in message."
                    .to_owned(),
            ),
            None => Ok(()),
        }
    },
);

/// LiteLLM in front of Claude: an answer that waits for results begins with its thinking while thinking is on.
pub const THINKING_BLOCKS: Rule = Rule::new(
    Chat,
    "https://docs.litellm.ai/docs/reasoning_content",
    "2026-11-28",
    |asked| {
        let messages = list(asked.body, "messages");
        let is_result = |message: &&Value| message["role"] == "tool";
        let waits = messages.last().as_ref().is_some_and(is_result);
        let thinks =
            asked.body["thinking"]["type"] == "enabled" && asked.model().contains("claude");
        let answer = messages
            .iter()
            .rfind(|message| message["role"] == "assistant");
        let lacks = |answer: &Value| list(answer, "thinking_blocks").is_empty();
        if waits && thinks && answer.is_some_and(lacks) {
            return Err(
                "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)."
                    .to_owned(),
            );
        }
        Ok(())
    },
);

/// OpenRouter and MiniMax: what the model thought before its calls comes back.
pub const DETAILS_COME_BACK: Rule = Rule::new(
    Chat,
    "https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks",
    "2026-11-28",
    |asked| {
        let own = |call: &Value| {
            let id = call["id"].as_str().unwrap_or_default();
            asked.given.has_reasoned(id, asked.model())
        };
        let messages = list(asked.body, "messages").iter();
        let mut answers = messages.filter(|message| list(message, "tool_calls").iter().any(own));
        match answers.find(|message| list(message, "reasoning_details").is_empty()) {
            Some(_) => Err("an answer with calls lacks its `reasoning_details`".to_owned()),
            None => Ok(()),
        }
    },
);

/// Returns the signature of a call of the tool `name`. A name that no tool can have comes back as a similar one.
pub fn signature(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    format!("sig.{}", digest(&name.replace(|c| !is_plain(c), "_")))
}

/// Checks the signatures of calls: `given` returns the one that a message has for its first call.
fn signatures(
    asked: &Asked<'_>,
    given: impl Fn(&Value, &Value) -> Option<String>,
) -> Result<(), String> {
    let name = asked.model().rsplit('/').next().unwrap_or_default();
    let version = name.strip_prefix("gemini-").unwrap_or_default();
    if !version.starts_with(|c: char| ('3'..='9').contains(&c)) {
        return Ok(());
    }
    let messages = list(asked.body, "messages");
    let turn = messages.iter().rposition(|it| it["role"] == "user");
    for (number, message) in messages.iter().enumerate() {
        let Some(call) = list(message, "tool_calls").first() else {
            continue;
        };
        let tool = call["function"]["name"].as_str().unwrap_or_default();
        match given(message, call) {
            // That of a call which another model has made.
            Some(given) if given == "skip_thought_signature_validator" => {}
            Some(given) if given != signature(tool) => {
                return Err("Corrupted thought signature.".to_owned());
            }
            None if turn.is_none_or(|turn| number > turn) => {
                return Err(format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{tool}` , position {number}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the number of the first tool whose name does not begin as it has to.
fn bad_name(asked: &Asked<'_>, is_first: impl Fn(char) -> bool) -> Option<usize> {
    let tools = list(asked.body, "tools").iter();
    let mut names = tools.map(|tool| tool["function"]["name"].as_str().unwrap_or_default());
    names.position(|name| !name.starts_with(&is_first))
}
