//! What the lists of servers say of models, in the form of the catalogue. Pure. Servers give the same figures in fields
//! of different names, so all the usual ones are tried; a figure that no field gives is left out, never guessed.

use serde_json::{Map, Value, json};

/// Fields of the context window; a `/` leads into an object.
const WINDOW: [&str; 7] = [
    "/max_input_tokens",      // Messages API, LiteLLM
    "/context_length",        // OpenRouter
    "/max_model_len",         // vLLM
    "/context_window",        // Groq
    "/loaded_context_length", // LM Studio
    "/max_context_length",    // Mistral
    "/meta/n_ctx",            // llama.cpp
];
/// Fields of the output limit.
const OUTPUT: [&str; 4] = [
    "/max_output_tokens",                  // LiteLLM
    "/max_completion_tokens",              // Groq
    "/top_provider/max_completion_tokens", // OpenRouter
    "/max_tokens",                         // Messages API
];
/// Levels of effort, in ascending order.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Reads a list in the form of the Messages API or of OpenAI: `{"data": [{"id": …}, …]}`.
pub fn of_list(list: &Value) -> Map<String, Value> {
    let models = list["data"].as_array().into_iter().flatten();
    let named = models.filter_map(|model| Some((model["id"].as_str()?.to_owned(), facts(model))));
    named.collect()
}

/// Reads the list of a LiteLLM proxy, which has one entry for each server behind it. Of a model with several, the
/// smallest limits hold, and a price only if all have the same.
pub fn of_litellm(list: &Value) -> Map<String, Value> {
    let mut models = Map::new();
    for entry in list["data"].as_array().into_iter().flatten() {
        let about = &entry["model_info"];
        let Some(name) = entry["model_name"].as_str() else {
            continue;
        };
        let is_text = matches!(
            about["mode"].as_str(),
            None | Some("chat" | "completion" | "responses")
        );
        // `openai/*` stands for many models.
        if name.contains('*') || !is_text {
            continue;
        }
        let facts = facts(about);
        match models.get_mut(name) {
            Some(known) => narrow(known, &facts),
            None => {
                models.insert(name.to_owned(), facts);
            }
        }
    }
    models
}

/// Reads what Ollama says of a model; `None` for one that cannot chat. A window in the model's parameters is what the
/// server gives it; else its own is the greatest that it may have.
pub fn of_ollama(about: &Value) -> Option<Value> {
    if let Some(abilities) = about["capabilities"].as_array()
        && !abilities.iter().any(|it| it == "completion")
    {
        return None;
    }
    let parameters = about["parameters"].as_str().unwrap_or_default();
    let given = parameters.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("num_ctx")).then(|| words.next()?.parse::<u64>().ok())?
    });
    let of_model = || {
        let details = about["model_info"].as_object()?;
        let length = details
            .iter()
            .find(|(key, _)| key.ends_with(".context_length"))?;
        length.1.as_u64()
    };
    let mut facts = Map::new();
    if let Some(window) = given.or_else(of_model) {
        facts.insert("context_window".into(), window.into());
    }
    Some(Value::Object(facts))
}

/// What an entry of a list says.
fn facts(model: &Value) -> Value {
    let number = |fields: &[&str]| {
        let values = fields
            .iter()
            .filter_map(|field| model.pointer(field)?.as_u64());
        values.into_iter().find(|value| *value > 0)
    };
    let thinking = &model["capabilities"]["thinking"]["types"];
    let takes = |form: &str| thinking[form]["supported"].as_bool();
    let form = match (takes("adaptive"), takes("enabled")) {
        (Some(true), Some(false)) => Some(json!("adaptive")),
        _ => None,
    };
    let facts = [
        (
            "context_window",
            { number(&WINDOW) }
                .or_else(|| of_options(model))
                .map(Value::from),
        ),
        ("max_output", number(&OUTPUT).map(Value::from)),
        ("thinking", form),
        ("efforts", efforts(&model["capabilities"]["effort"])),
        ("audio", hears(model)),
        ("price", price(model, "")),
        ("long_price", long_price(model)),
    ];
    let facts = facts.into_iter();
    facts
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// The window in the options with which llama.cpp's router starts a model that is not loaded yet.
fn of_options(model: &Value) -> Option<u64> {
    let options = model["status"]["args"].as_array()?;
    let is_window = |option: &Value| matches!(option.as_str(), Some("--ctx-size" | "-c"));
    let at = options.iter().position(is_window)?;
    let window = options.get(at + 1)?.as_str()?.parse().ok()?;
    (window > 0).then_some(window)
}

/// Whether it takes sound, as LiteLLM or OpenRouter says.
fn hears(model: &Value) -> Option<Value> {
    let kinds = model["architecture"]["input_modalities"].as_array();
    let of_openrouter = || Some(kinds?.iter().any(|kind| kind == "audio"));
    let of_litellm = model["supports_audio_input"].as_bool();
    of_litellm.or_else(of_openrouter).map(Value::from)
}

fn efforts(ability: &Value) -> Option<Value> {
    if !ability["supported"].as_bool()? {
        return None;
    }
    let is_level = |level: &&str| ability[*level]["supported"].as_bool() == Some(true);
    let levels: Vec<_> = EFFORTS.into_iter().filter(is_level).collect();
    (!levels.is_empty()).then(|| json!(levels))
}

/// The prices of LiteLLM, whose fields end with `suffix`, or those of OpenRouter; `None` for a price of nothing, which
/// is what LiteLLM gives where it knows none.
fn price(model: &Value, suffix: &str) -> Option<Value> {
    let listed = &model["pricing"];
    let dollars = |field: &str, other: &str| {
        let of_litellm = model[format!("{field}{suffix}")].as_f64();
        let of_openrouter = || listed[other].as_str()?.parse().ok();
        of_litellm
            .or_else(|| suffix.is_empty().then(of_openrouter)?)
            .map(per_million)
    };
    let input = dollars("input_cost_per_token", "prompt")?;
    let output = dollars("output_cost_per_token", "completion")?;
    if (input, output) == (0.0, 0.0) {
        return None;
    }
    let mut price = json!({"input": input, "output": output});
    for (name, field, other) in [
        (
            "cache_read",
            "cache_read_input_token_cost",
            "input_cache_read",
        ),
        (
            "cache_write",
            "cache_creation_input_token_cost",
            "input_cache_write",
        ),
    ] {
        if let Some(dollars) = dollars(field, other) {
            price[name] = dollars.into();
        }
    }
    let longer = ["1hr", "12hr"].map(|life| {
        let field = format!("cache_creation_input_token_cost_above_{life}{suffix}");
        model[field].as_f64()
    });
    if let Some(dollars) = longer.into_iter().flatten().next() {
        price["cache_write_1h"] = per_million(dollars).into();
    }
    Some(price)
}

/// The prices of LiteLLM for long requests, such as `input_cost_per_token_above_200k_tokens`.
fn long_price(model: &Value) -> Option<Value> {
    let (suffix, above) = model.as_object()?.iter().find_map(|(field, value)| {
        let suffix = field.strip_prefix("input_cost_per_token")?;
        let thousands = suffix.strip_prefix("_above_")?.strip_suffix("k_tokens")?;
        value.as_f64()?;
        Some((suffix, thousands.parse::<u64>().ok()?.checked_mul(1_000)?))
    })?;
    let mut price = price(model, suffix)?;
    price["above"] = above.into();
    Some(price)
}

/// Converts dollars per token to dollars per million tokens, without the error of the multiplication.
fn per_million(dollars: f64) -> f64 {
    (dollars * 1e12).round() / 1e6
}

/// Reduces `known` to what holds for `other` as well.
fn narrow(known: &mut Value, other: &Value) {
    for limit in ["context_window", "max_output"] {
        if let Some(value) = other[limit].as_u64()
            && known[limit].as_u64().is_none_or(|known| value < known)
        {
            known[limit] = value.into();
        }
    }
    if other["audio"] == false {
        known["audio"] = false.into();
    }
    for price in ["price", "long_price"] {
        if known.get(price) != other.get(price)
            && let Some(known) = known.as_object_mut()
        {
            known.remove(price);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts_of(model: &str) -> String {
        facts(&serde_json::from_str(model).expect("JSON")).to_string()
    }

    #[test]
    fn figures_are_read_from_the_fields_of_every_server() {
        for (model, expected) in [
            (r#"{"id": "gpt-6-sol", "object": "model"}"#, "{}"),
            (
                r#"{"max_input_tokens": 1000000, "max_tokens": 128000, "capabilities": {
                    "effort": {"supported": true, "low": {"supported": true}, "high": {"supported": true},
                               "max": {"supported": false}},
                    "thinking": {"supported": true, "types": {"adaptive": {"supported": true}, "enabled": {"supported": false}}}
                }}"#,
                r#"{"context_window":1000000,"max_output":128000,"thinking":"adaptive","efforts":["low","high"]}"#,
            ),
            (
                r#"{"capabilities": {"effort": {"supported": false},
                    "thinking": {"types": {"adaptive": {"supported": true}, "enabled": {"supported": true}}}}}"#,
                "{}",
            ),
            (r#"{"supports_audio_input": true}"#, r#"{"audio":true}"#),
            (r#"{"supports_audio_input": null}"#, "{}"),
            (
                r#"{"architecture": {"input_modalities": ["text", "audio"]}}"#,
                r#"{"audio":true}"#,
            ),
            (
                r#"{"architecture": {"input_modalities": ["text", "image"]}}"#,
                r#"{"audio":false}"#,
            ),
            (r#"{"max_model_len": 12000}"#, r#"{"context_window":12000}"#),
            (r#"{"meta": {"n_ctx": 8192}}"#, r#"{"context_window":8192}"#),
            (
                r#"{"status": {"value": "unloaded", "args": ["llama-server", "--ctx-size", "4096", "-ngl", "9"]}}"#,
                r#"{"context_window":4096}"#,
            ),
            (r#"{"status": {"args": ["-c", "0"]}}"#, "{}"),
            (r#"{"status": {"args": ["-c"]}}"#, "{}"),
            (
                r#"{"max_context_length": 131072, "loaded_context_length": 4096}"#,
                r#"{"context_window":4096}"#,
            ),
            (
                r#"{"context_length": 200000, "top_provider": {"max_completion_tokens": 64000},
                    "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"}}"#,
                r#"{"context_window":200000,"max_output":64000,"price":{"input":3.0,"output":15.0,"cache_read":0.3}}"#,
            ),
            (
                r#"{"max_input_tokens": 90000, "max_output_tokens": null, "max_tokens": 4096,
                    "input_cost_per_token": 1e-07, "output_cost_per_token": 5e-07,
                    "cache_read_input_token_cost": 1e-08, "cache_creation_input_token_cost": 1.25e-07,
                    "cache_creation_input_token_cost_above_1hr": 2e-07,
                    "input_cost_per_token_above_100k_tokens": 5e-07, "output_cost_per_token_above_100k_tokens": 2.5e-06}"#,
                r#"{"context_window":90000,"max_output":4096,"price":{"input":0.1,"output":0.5,"cache_read":0.01,"cache_write":0.125,"cache_write_1h":0.2},"long_price":{"input":0.5,"output":2.5,"above":100000}}"#,
            ),
            // No price is known, which is not the same as nothing.
            (
                r#"{"input_cost_per_token": 0, "output_cost_per_token": 0.0}"#,
                "{}",
            ),
            (
                r#"{"max_input_tokens": 0, "max_tokens": "many", "pricing": {"prompt": "x"}}"#,
                "{}",
            ),
        ] {
            assert_eq!(facts_of(model), expected, "{model}");
        }
    }

    #[test]
    fn a_model_behind_several_servers_has_the_smallest_limits() {
        let entry = |name: &str, window: u64, input: f64| {
            json!({"model_name": name, "model_info": {"max_input_tokens": window,
                "input_cost_per_token": input, "output_cost_per_token": 1e-6}})
        };
        let list = json!({"data": [
            entry("team", 200_000, 1e-6), entry("team", 90_000, 1e-6), entry("mixed", 5, 1e-6),
            entry("mixed", 6, 2e-6), entry("openai/*", 1, 1e-6),
            {"model_name": "embed", "model_info": {"mode": "embedding"}}, {"model_name": "bare"}, 7
        ]});
        let models = Value::Object(of_litellm(&list)).to_string();
        assert_eq!(
            models,
            r#"{"team":{"context_window":90000,"price":{"input":1.0,"output":1.0}},"mixed":{"context_window":5},"bare":{}}"#
        );
    }

    #[test]
    fn ollama_says_the_window_that_it_gives_a_model() {
        for (about, expected) in [
            (
                json!({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}}),
                Some(r#"{"context_window":40960}"#),
            ),
            (
                json!({"parameters": "stop \"<|end|>\"\nnum_ctx                        8192", "capabilities": ["completion", "tools"],
                    "model_info": {"qwen3.context_length": 40960}}),
                Some(r#"{"context_window":8192}"#),
            ),
            (json!({}), Some("{}")),
            (json!({"capabilities": ["embedding"]}), None),
        ] {
            let facts = of_ollama(&about).map(|facts| facts.to_string());
            assert_eq!(facts.as_deref(), expected, "{about}");
        }
    }
}
