//! `cargo xtask models`: writes the built-in catalogue of models anew, from LiteLLM's list of prices and limits and what
//! the vendors' own pages say beyond it (`models/vendors.json`). What models accept is no part of it: that follows from
//! their names (`provider/src/rules.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use jiff::Span;
use jiff::civil::Date;
use serde_json::{Map, Number, Value, json};

use crate::newest;
use crate::workspace::root;

const CATALOGUE: &str = "provider/src/models.json";
const LIST: &str = "litellm/model_prices_and_context_window_backup.json";
/// What the vendors' pages say that the list does not, each with its source. It wins field by field.
const VENDORS: &str = include_str!("models/vendors.json");

/// Names of vendors in the list, and how the names of their models for agents begin.
const FAMILIES: [(&str, &[&str]); 10] = [
    ("anthropic", &["claude-"]),
    ("dashscope", &["qwen"]),
    ("deepseek", &["deepseek-"]),
    ("gemini", &["gemini-"]),
    ("minimax", &["MiniMax-"]),
    (
        "mistral",
        &[
            "codestral-",
            "devstral-",
            "magistral-",
            "ministral-",
            "mistral-",
        ],
    ),
    ("moonshot", &["kimi-"]),
    ("openai", &["chat-latest", "gpt-", "o1", "o3", "o4"]),
    ("xai", &["grok-"]),
    ("zai", &["glm-"]),
];
/// Parts of names of what is no model for agents, or an experiment that is over.
const OTHERS: [&str; 20] = [
    "-audio",
    "-beta",
    "-customtools",
    "-exp",
    "-fim",
    "-gemma",
    "-gv2",
    "-image",
    "-live",
    "-mamba",
    "-omni",
    "-robotics",
    "-search",
    "-tiny",
    "-tts",
    "-vl-",
    "computer-use",
    "deep-research",
    "deepseek-coder",
    "multi-agent",
];
/// Servers of others' models, by their names in the list and here. Only prices that differ from the vendor's are kept.
const SERVERS: [(&str, &str); 1] = [("fireworks_ai", "fireworks")];
/// Days for which a model stays in the catalogue after its end: its sessions are still read and counted.
const AFTERLIFE: i64 = 90;

/// Writes the catalogue, and prints what is different from before.
pub fn models() -> Result<()> {
    let release = newest::fetch("pypi:litellm", &[LIST])?;
    let today = jiff::Zoned::now().date();
    let models = at(today, release.file(LIST)?)?;
    let path = root().join(CATALOGUE);
    let before: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    print_changes(&before["models"], &models);
    let text = written(&models, &release.version, &today.to_string())?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!(
        "{CATALOGUE}: {} models of LiteLLM {}",
        models.len(),
        release.version
    );
    Ok(())
}

/// Returns the names of the models that the catalogue would have with `list`.
pub fn names(list: &str) -> Result<BTreeSet<String>> {
    Ok(at(jiff::Zoned::now().date(), list)?.into_keys().collect())
}

/// Returns the catalogue of a day.
fn at(today: Date, list: &str) -> Result<Models> {
    let list = serde_json::from_str(list)?;
    let vendors = serde_json::from_str(VENDORS)?;
    let oldest = today.checked_sub(Span::new().days(AFTERLIFE))?;
    Ok(catalogue(&list, vendors, &oldest.to_string()))
}

type Models = BTreeMap<String, Map<String, Value>>;

/// Returns the models of the list that did not end before `oldest`, and what the vendors say.
fn catalogue(list: &Map<String, Value>, vendors: Models, oldest: &str) -> Models {
    let mut models = Models::new();
    for (name, row) in list {
        let name = name.rsplit('/').next().unwrap_or(name);
        let ended = row["deprecation_date"]
            .as_str()
            .is_some_and(|end| end < oldest);
        if is_for_agents(name, row) && !ended {
            models.insert(name.to_owned(), entry(row));
        }
    }
    for (name, mut facts) in vendors {
        facts.remove("source");
        models.entry(name).or_default().extend(facts);
    }
    // A name with a date is looked up without it, too.
    let is_needed = |name: &String, entry: &Map<String, Value>| {
        without_date(name).is_none_or(|undated| models.get(undated) != Some(entry))
    };
    let mut needed: Models = models
        .clone()
        .into_iter()
        .filter(|(name, it)| is_needed(name, it))
        .collect();
    needed.extend(elsewhere(list, &models));
    needed
}

fn is_for_agents(name: &str, row: &Value) -> bool {
    let is_chat = matches!(row["mode"].as_str(), Some("chat" | "responses"));
    let mut families = FAMILIES.iter();
    let family = families.find(|(vendor, _)| row["litellm_provider"] == *vendor);
    let is_of_family =
        family.is_some_and(|(_, starts)| starts.iter().any(|it| name.starts_with(it)));
    is_chat && is_of_family && !OTHERS.iter().any(|part| name.contains(part))
}

/// Returns the models of other servers whose prices are not the vendor's.
fn elsewhere(list: &Map<String, Value>, models: &Models) -> Models {
    let mut found = Models::new();
    for (path, row) in list {
        let mut servers = SERVERS.iter();
        let Some((of_list, server)) = servers.find(|it| row["litellm_provider"] == it.0) else {
            continue;
        };
        // A name without a path is the list's own. Here it would say that the bare name is to be had from that server.
        let name = path.strip_prefix(&format!("{of_list}/"));
        let Some((name, last)) = name.and_then(|name| Some((name, name.rsplit_once('/')?.1)))
        else {
            continue;
        };
        let Some(vendor) = models.get(last) else {
            continue;
        };
        let mut facts = vendor.clone();
        let price = entry(row).remove("price");
        if let Some(price) = price.filter(|price| vendor.get("price") != Some(price)) {
            facts.remove("long_price");
            facts.insert("price".to_owned(), price);
            found.insert(format!("{server}/{name}"), facts);
        }
    }
    found
}

/// Returns the limits and prices of a row, as a catalogue has them.
fn entry(row: &Value) -> Map<String, Value> {
    let audio = (row["supports_audio_input"] == true).then_some(json!(true));
    let mut entry = Map::new();
    for (key, value) in [
        ("audio", audio),
        ("context_window", tokens(&row["max_input_tokens"])),
        ("efforts", efforts(row)),
        ("long_price", long_price(row)),
        ("max_output", tokens(&row["max_output_tokens"])),
        (
            "price",
            price(row, "")
                .or_else(|| price(&row["tiered_pricing"][0], ""))
                .map(Value::from),
        ),
    ] {
        entry.extend(value.map(|value| (key.to_owned(), value)));
    }
    entry
}

/// Returns the levels that the list names; none for a model that does not think.
fn efforts(row: &Value) -> Option<Value> {
    let Some(levels) = row["reasoning_effort_levels"].as_array() else {
        return (row["supports_reasoning"] != true).then(|| json!([]));
    };
    // Those two are no levels of ours.
    let levels = levels
        .iter()
        .filter(|level| !matches!(level.as_str(), Some("none" | "minimal")));
    Some(levels.cloned().collect())
}

fn long_price(row: &Value) -> Option<Value> {
    let of_tokens = |key: &String| {
        let rest = key.strip_prefix("input_cost_per_token_above_")?;
        rest.strip_suffix("k_tokens")?.parse::<u64>().ok()
    };
    let tier = &row["tiered_pricing"][1];
    let (above, price) = match row.as_object()?.keys().filter_map(of_tokens).min() {
        Some(above) => (
            json!(above * 1_000),
            price(row, &format!("_above_{above}k_tokens"))?,
        ),
        None => (tokens(&tier["range"][0])?, price(tier, "")?),
    };
    let mut long = Map::from_iter([("above".to_owned(), above)]);
    long.extend(price);
    Some(long.into())
}

/// Returns the prices whose names in the list end with `suffix`.
fn price(row: &Value, suffix: &str) -> Option<Map<String, Value>> {
    let of = |key: &str| row[format!("{key}{suffix}")].as_f64();
    let mut price = Map::new();
    for (key, cost) in [
        ("cache_read", of("cache_read_input_token_cost")),
        // The list has zero where nothing is known to be charged for it beside the input.
        (
            "cache_write",
            of("cache_creation_input_token_cost").filter(|cost| *cost > 0.0),
        ),
        (
            "cache_write_1h",
            of("cache_creation_input_token_cost_above_1hr"),
        ),
        ("input", Some(of("input_cost_per_token")?)),
        ("output", Some(of("output_cost_per_token")?)),
    ] {
        price.extend(cost.map(|cost| (key.to_owned(), dollars(cost).into())));
    }
    Some(price)
}

/// Returns dollars per million tokens, without the errors of binary fractions.
fn dollars(per_token: f64) -> Number {
    let rounded = (per_token * 1e12).round() / 1e6;
    #[expect(clippy::cast_possible_truncation, reason = "a float's `as` saturates")]
    let whole = rounded as i64;
    #[expect(clippy::cast_precision_loss, reason = "prices are small")]
    let is_whole = whole as f64 == rounded;
    let fraction = (!is_whole).then(|| Number::from_f64(rounded)).flatten();
    fraction.unwrap_or_else(|| whole.into())
}

/// Returns a number of tokens, which the list sometimes has as a fraction.
fn tokens(value: &Value) -> Option<Value> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float's `as` saturates"
    )]
    let whole = |number: f64| number as u64;
    value
        .as_u64()
        .or_else(|| value.as_f64().map(whole))
        .map(Value::from)
}

/// Returns a name without the date at its end, `-20251101` or `-2026-03-17`. The catalogue does the same.
fn without_date(name: &str) -> Option<&str> {
    ["-########", "-####-##-##"].into_iter().find_map(|shape| {
        let (undated, date) = name.split_at_checked(name.len().checked_sub(shape.len())?)?;
        let is_like = |(c, shape): (u8, u8)| c == shape || (shape == b'#' && c.is_ascii_digit());
        date.bytes()
            .zip(shape.bytes())
            .all(is_like)
            .then_some(undated)
    })
}

/// Returns the text of the catalogue, with a line for each model.
fn written(models: &Models, version: &str, today: &str) -> Result<String> {
    let lines: Vec<String> = { models.iter() }
        .map(|(name, entry)| {
            let entry: BTreeMap<_, _> = entry.iter().collect();
            let entry = serde_json::to_string(&entry)?;
            Ok(format!("    {}: {entry}", json!(name)))
        })
        .collect::<Result<_>>()?;
    let source = json!(format!(
        "USD per million tokens. LiteLLM {version}, and the pages named in xtask/src/models/vendors.json; written by `cargo xtask models`"
    ));
    let lines = lines.join(",\n");
    Ok(format!(
        "{{\n  \"source\": {source},\n  \"date\": \"{today}\",\n  \"models\": {{\n{lines}\n  }}\n}}\n"
    ))
}

fn print_changes(before: &Value, models: &Models) {
    let now = |name: &str| models.get(name).map_or(Value::Null, |it| it.clone().into());
    let earlier = before
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str);
    let mut names: Vec<&str> = earlier.chain(models.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        match (&before[name], now(name)) {
            (before, now) if *before == now => {}
            (Value::Null, now) => println!("new      {name} {now}"),
            (_, Value::Null) => println!("gone     {name}"),
            (before, now) => println!("changed  {name}\n  - {before}\n  + {now}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_list_become_entries() {
        let list = json!({
            "deepseek/deepseek-v4-pro": {
                "litellm_provider": "deepseek", "mode": "chat", "supports_reasoning": true,
                "max_input_tokens": 1_000_000.0, "max_output_tokens": 393_216,
                "input_cost_per_token": 1.32e-6, "output_cost_per_token": 3.96e-6,
                "cache_read_input_token_cost": 4.4e-8, "cache_creation_input_token_cost": 0.0,
            },
            "grok-4.7": {
                "litellm_provider": "xai", "mode": "chat",
                "input_cost_per_token": 2e-6, "output_cost_per_token": 6e-6,
                "input_cost_per_token_above_200k_tokens": 4e-6, "output_cost_per_token_above_200k_tokens": 1.2e-5,
            },
            "dashscope/qwen-flash": {
                "litellm_provider": "dashscope", "mode": "chat", "supports_reasoning": true,
                "tiered_pricing": [
                    {"range": [0, 256_000.0], "input_cost_per_token": 5e-8, "output_cost_per_token": 4e-7},
                    {"range": [256_000.0, 1_000_000.0], "input_cost_per_token": 2.5e-7, "output_cost_per_token": 2e-6},
                ],
            },
            "moonshot/kimi-k3": {
                "litellm_provider": "moonshot", "mode": "chat", "supports_reasoning": true,
                "reasoning_effort_levels": ["none", "low", "max"],
            },
            "claude-x-1": {"litellm_provider": "anthropic", "mode": "chat", "supports_reasoning": true},
            "claude-x-1-20260101": {"litellm_provider": "anthropic", "mode": "chat", "supports_reasoning": true},
            // Not for agents, of another vendor, gone.
            "gpt-audio": {"litellm_provider": "openai", "mode": "chat"},
            "gpt-image-1": {"litellm_provider": "openai", "mode": "image_generation"},
            "azure/gpt-5": {"litellm_provider": "azure", "mode": "chat"},
            "o1": {"litellm_provider": "openai", "mode": "chat", "deprecation_date": "2026-01-01"},
            "fireworks_ai/kimi-k3": {
                "litellm_provider": "fireworks_ai", "mode": "chat",
                "input_cost_per_token": 1e-6, "output_cost_per_token": 3e-6,
            },
            "fireworks_ai/accounts/x/deepseek-v4-pro": {
                "litellm_provider": "fireworks_ai", "mode": "chat",
                "input_cost_per_token": 1.2e-6, "output_cost_per_token": 3e-6,
            },
        });
        let vendors = json!({"kimi-k3": {"source": "a page", "price": {"input": 3, "output": 15}}});
        let vendors = serde_json::from_value(vendors).unwrap();
        let models = catalogue(list.as_object().unwrap(), vendors, "2026-08-30");
        insta::assert_snapshot!(written(&models, "1.2.3", "2026-11-28").unwrap(), @r#"
        {
          "source": "USD per million tokens. LiteLLM 1.2.3, and the pages named in xtask/src/models/vendors.json; written by `cargo xtask models`",
          "date": "2026-11-28",
          "models": {
            "claude-x-1": {},
            "deepseek-v4-pro": {"context_window":1000000,"max_output":393216,"price":{"cache_read":0.044,"input":1.32,"output":3.96}},
            "fireworks/accounts/x/deepseek-v4-pro": {"context_window":1000000,"max_output":393216,"price":{"input":1.2,"output":3}},
            "grok-4.7": {"efforts":[],"long_price":{"above":200000,"input":4,"output":12},"price":{"input":2,"output":6}},
            "kimi-k3": {"efforts":["low","max"],"price":{"input":3,"output":15}},
            "qwen-flash": {"long_price":{"above":256000,"input":0.25,"output":2},"price":{"input":0.05,"output":0.4}}
          }
        }
        "#);
    }

    #[test]
    fn names_lose_their_dates() {
        for (name, expected) in [
            ("claude-opus-4-5-20251101", Some("claude-opus-4-5")),
            ("gpt-5.4-mini-2026-03-17", Some("gpt-5.4-mini")),
            ("gpt-4-0613", None),
            ("o1", None),
        ] {
            assert_eq!(without_date(name), expected);
        }
    }
}
