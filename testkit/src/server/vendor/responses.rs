//! Rules of vendors about requests of the Responses API.

use serde_json::Value;

use super::super::json::list;
use super::super::protocol::Protocol::Responses;
use super::super::responses::binding;
use super::super::responses::history::kind;
use super::fields::first_other;
use super::{Asked, Rule, gpt};

/// Longest id of an item.
const LONGEST_ID: usize = 64;

/// OpenAI: no fields at the top but those of the API.
pub const FIELDS: Rule = Rule::new(
    Responses,
    "npm openai 7.59.0, resources/responses/responses.d.ts",
    "2026-11-17",
    |asked| match first_other(asked.body, &KNOWN) {
        Some(field) => Err(format!("Unknown parameter: '{field}'.")),
        None => Ok(()),
    },
);

const KNOWN: [&str; 33] = [
    "access_programs",
    "background",
    "background_options",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];

/// OpenAI: models that always reason refuse the efforts `none` and `minimal`.
pub const EFFORT: Rule = Rule::new(
    Responses,
    "https://github.com/maximhq/bifrost/issues/7275",
    "2026-09-17",
    |asked| {
        effort(
            asked,
            &asked.body["reasoning"]["effort"],
            "reasoning.effort",
        )
    },
);

/// OpenAI: GPT-6 and later take no temperature or `top_p` but the default, unless they do not reason.
pub const SAMPLING: Rule = Rule::new(
    Responses,
    "https://developers.openai.com/api/docs/guides/latest-model/gpt-6.2-astra.md",
    "2026-11-28",
    |asked| sampling(asked, &asked.body["reasoning"]["effort"]),
);

/// OpenAI: an item's id begins with the sign of its type and has at most 64 characters.
pub const IDS: Rule = Rule::new(
    Responses,
    "https://github.com/nodetool-ai/nodetool/pull/4252 and https://github.com/can1357/oh-my-pi/issues/284",
    "2026-07-13",
    |asked| {
        for (number, item) in list(asked.body, "input").iter().enumerate() {
            let Some(id) = item["id"].as_str() else {
                continue;
            };
            let start = match kind(item) {
                "function_call" => "fc",
                "reasoning" => "rs",
                "assistant" => "msg",
                _ => "",
            };
            if id.len() > LONGEST_ID {
                return Err(format!(
                    "Invalid 'input[{number}].id': string too long. Expected a string with maximum length {LONGEST_ID}, but got a string with length {} instead.",
                    id.len()
                ));
            }
            if !id.starts_with(start) {
                return Err(format!(
                    "Invalid 'input[{number}].id': '{id}'. Expected an ID that begins with '{start}'."
                ));
            }
        }
        Ok(())
    },
);

/// OpenAI: an added tool stands in an item of the developer; a change of the configuration says what it changes.
pub const ITEMS: Rule = Rule::new(
    Responses,
    "npm openai 7.59.0, resources/responses/responses.d.ts",
    "2026-11-17",
    |asked| {
        for (number, item) in list(asked.body, "input").iter().enumerate() {
            let missing = match kind(item) {
                "additional_tools" if item["role"] != "developer" => "role",
                "additional_tools" if list(item, "tools").is_empty() => "tools",
                "configuration_update" if item["reasoning"].is_null() && item["text"].is_null() => {
                    "reasoning"
                }
                _ => continue,
            };
            return Err(format!(
                "Missing required parameter: 'input[{number}].{missing}'."
            ));
        }
        Ok(())
    },
);

/// OpenAI: only newer models take them, and an added tool does not replace one of the request. Measured by that package.
pub const ADDED_TOOLS: Rule = Rule::new(
    Responses,
    "npm @earendil-works/pi-ai 1.6.0, dist/api/openai-responses-shared.js",
    "2026-11-20",
    |asked| {
        let names: Vec<_> = { list(asked.body, "tools").iter() }
            .map(|tool| &tool["name"])
            .collect();
        let added = list(asked.body, "input").iter();
        let mut added = added.filter(|item| kind(item) == "additional_tools");
        let replaces = |item: &Value| {
            let mut tools = list(item, "tools").iter();
            tools.any(|tool| names.contains(&&tool["name"]))
        };
        match gpt::version(asked.model()) < Some((5, 6)) {
            true if added.next().is_some() => Err("Invalid value: 'additional_tools'.".to_owned()),
            false if added.any(replaces) => Err("Tool names must be unique.".to_owned()),
            _ => Ok(()),
        }
    },
);

/// OpenAI: no model before GPT-6 takes them, none with `pro`, and none two in a row.
pub const CONFIGURATION: Rule = Rule::new(
    Responses,
    "https://openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/gpt-6-astra and npm @ai-sdk/openai 4.0.118",
    "2026-11-28",
    |asked| {
        let is_update = |item: &Value| kind(item) == "configuration_update";
        let input = list(asked.body, "input");
        let model = asked.model();
        let takes = gpt::version(model) >= Some((6, 0)) && !model.contains("-pro");
        if input.iter().any(is_update) && !takes {
            return Err("The 'configuration_update' item type is not supported.".to_owned());
        }
        match input.windows(2).any(|pair| pair.iter().all(is_update)) {
            true => Err("Configuration updates cannot be consecutive.".to_owned()),
            false => Ok(()),
        }
    },
);

/// OpenAI: only newer models take options for the cache, and these lifetimes.
pub const CACHE: Rule = Rule::new(
    Responses,
    "npm openai 7.59.0, resources/responses/responses.d.ts",
    "2026-11-17",
    |asked| {
        let options = &asked.body["prompt_cache_options"];
        if !options.is_null() && gpt::version(asked.model()) < Some((5, 6)) {
            return Err("Unknown parameter: 'prompt_cache_options'.".to_owned());
        }
        match options["ttl"].as_str() {
            None | Some("30m" | "12h") => Ok(()),
            Some(ttl) => Err(format!(
                "Invalid value: '{ttl}' in 'prompt_cache_options.ttl'."
            )),
        }
    },
);

/// OpenAI: the phase of an answer comes back with it.
pub const PHASE: Rule = Rule::new(
    Responses,
    "npm openai 7.59.0, resources/responses/responses.d.ts",
    "2026-11-17",
    |asked| {
        if !gpt::has_phases(asked.model()) {
            return Ok(());
        }
        for item in list(asked.body, "input") {
            let text = item.pointer("/content/0/text").unwrap_or(&item["content"]);
            let Some(given) = text.as_str().and_then(|text| asked.given.phase(text)) else {
                continue;
            };
            if kind(item) == "assistant" && item["phase"] != given {
                return Err(format!(
                    "an answer of the phase `{given}` came back as {}",
                    item["phase"]
                ));
            }
        }
        Ok(())
    },
);

/// OpenAI: from GPT-6.2 on, reasoning is left out if anything before it has changed.
pub const PREFIX: Rule = Rule::new(
    Responses,
    "https://developers.openai.com/api/docs/guides/keep-prefix-unchanged.md",
    "2026-11-28",
    |asked| match binding::dropped(asked.body) {
        Some(id) => Err(format!("reasoning {id} is dropped: prefix_mismatch")),
        None => Ok(()),
    },
);

/// OpenAI: from GPT-6.2 on, `instructions` stand behind the input, where they are never read from the cache.
pub const INSTRUCTIONS: Rule = Rule::new(
    Responses,
    "https://developers.openai.com/api/docs/guides/latest-model/gpt-6.2-astra.md",
    "2026-11-28",
    |asked| {
        let stands_behind = gpt::version(asked.model()).is_some_and(|version| version >= (6, 2));
        match asked.body.get("instructions") {
            Some(_) if stands_behind => {
                Err("`instructions` are paid for anew each time".to_owned())
            }
            _ => Ok(()),
        }
    },
);

/// xAI: not every model takes an effort.
pub const GROK: Rule = Rule::new(
    Responses,
    "https://github.com/NousResearch/hermes-agent/pull/23435",
    "2026-05-10",
    |asked| grok(asked, &asked.body["reasoning"]["effort"]),
);

/// Checks the effort in the field `param` of a model of OpenAI.
pub fn effort(asked: &Asked<'_>, effort: &Value, param: &str) -> Result<(), String> {
    let effort = effort.as_str().unwrap_or_default();
    let is_refused = match effort {
        "none" => gpt::always_reasons(asked.model()),
        // https://github.com/livekit/agents/pull/7169 of 8 September.
        "minimal" => gpt::version(asked.model()).is_some_and(|version| version >= (5, 6)),
        _ => false,
    };
    if is_refused {
        return Err(format!(
            "Unsupported value: '{param}' does not support '{effort}' with this model. Supported values are: 'low', 'medium', 'high', and 'xhigh'."
        ));
    }
    Ok(())
}

/// Checks the sampling of a model of OpenAI.
pub fn sampling(asked: &Asked<'_>, effort: &Value) -> Result<(), String> {
    if !gpt::fixes_sampling(asked.model()) || effort == "none" {
        return Ok(());
    }
    for field in ["temperature", "top_p"] {
        match asked.body[field].as_f64() {
            Some(value) if value != 1.0 => {
                return Err(format!(
                    "Unsupported value: '{field}' does not support {value} with this model. Only the default (1) value is supported."
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks what models of xAI do not have.
pub fn grok(asked: &Asked<'_>, effort: &Value) -> Result<(), String> {
    let model = asked.model();
    let is_new = model.starts_with("grok-4") || model.starts_with("grok-code-fast");
    let parameters = [
        ("stop", "stop"),
        ("presence_penalty", "presencePenalty"),
        ("frequency_penalty", "frequencyPenalty"),
    ];
    let mut refused = parameters.into_iter();
    let refused = refused.find(|(field, _)| is_new && asked.body.get(*field).is_some());
    let takes_effort = [
        "grok-3-mini",
        "grok-4.20-multi-agent",
        "grok-4.3",
        "grok-4.5",
        "grok-4.6",
        "grok-4.7",
    ];
    let takes_effort = takes_effort.iter().any(|start| model.starts_with(start));
    let effort = (effort.is_string() && !takes_effort).then_some("reasoningEffort");
    match refused.map(|(_, name)| name).or(effort) {
        Some(name) => Err(format!("Model {model} does not support parameter {name}.")),
        None => Ok(()),
    }
}
