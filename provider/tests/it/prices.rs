//! Comparison of the catalogue with the list that it was made from, if that is available.

use std::collections::BTreeMap;
use std::path::Path;

use ah_provider::catalog::{Catalog, ModelEntry};
use serde_json::{Value, json};

/// Models whose figures are newer than the list: they are from the vendors' own pages.
const NEWER: [&str; 4] = [
    "claude-fable-5-2",
    "claude-haiku-5-5",
    "claude-mythos-5-2",
    "gpt-6.1-terra",
];

/// Every model of the list is in the catalogue with the same figures.
#[test]
fn the_catalogue_has_the_figures_of_the_list() {
    let Some(list) = list() else { return };
    let catalog = Catalog::built_in();
    let known: BTreeMap<_, _> = catalog.models().collect();
    let models = list["models"].as_object().expect("models");
    // Entries that are not models have a vendor and nothing else.
    let models = models
        .iter()
        .filter(|(_, facts)| facts.as_object().is_some_and(|facts| facts.len() > 1));
    let models: BTreeMap<&str, _> = models.map(|(name, facts)| (name.as_str(), facts)).collect();
    assert!(models.len() > 100, "{} models", models.len());
    for (name, facts) in models.iter().filter(|(name, _)| !NEWER.contains(name)) {
        let entry = known.get(name).copied();
        let entry = entry.unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(figures_of(entry), listed(facts), "{name}");
    }
    let further: Vec<_> = known
        .keys()
        .filter(|name| !models.contains_key(**name) && !NEWER.contains(name))
        .collect();
    assert!(
        further.is_empty(),
        "the catalogue has further models: {further:?}"
    );
}

#[expect(clippy::print_stderr, reason = "says what a test left out")]
fn list() -> Option<Value> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings/model_prices.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{} is missing",
            path.display()
        );
        eprintln!("left out: {} is missing", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// Context window, output limit, and prices in pico-dollars, also for long requests.
fn figures_of(entry: &ModelEntry) -> Value {
    let prices = |price: ah_conversation::Price| {
        let ah_conversation::Price {
            input,
            output,
            cache_read,
            cache_write,
            cache_write_1h,
        } = price;
        json!([input, output, cache_read, cache_write, cache_write_1h])
    };
    let long = entry
        .long_price
        .map(|(above, price)| (above, prices(price)));
    json!([
        entry.context_window,
        entry.abilities.max_output,
        entry.price.map(prices),
        long
    ])
}

/// The same figures of the list. Without a price for a use of the cache, the price of input holds.
fn listed(facts: &Value) -> Value {
    let prices = |facts: &Value| {
        let price = |name: &str| facts[format!("{name}_per_mtok")].as_f64().map(pico_dollars);
        let input = price("input")?;
        let write = price("cache_write_5m").unwrap_or(input);
        Some(json!([
            input,
            price("output"),
            price("cache_read").unwrap_or(input),
            write,
            price("cache_write_1h").unwrap_or(write),
        ]))
    };
    let long = facts.get("long_context").map(|long| {
        let above = long["above_tokens_k"].as_u64().expect("a number") * 1_000;
        (above, prices(long))
    });
    json!([
        facts.get("context_window").unwrap_or(&json!(200_000)),
        facts.get("max_output"),
        prices(facts),
        long
    ])
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's `as` saturates"
)]
fn pico_dollars(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

/// The example in the documentation.
#[test]
fn the_example_of_the_documentation_is_a_catalogue() {
    let page = include_str!("../../../docs/providers.md");
    let (_, rest) = page.split_once("## Effort").expect("the section");
    let (_, rest) = rest.split_once("```json\n").expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let mut catalog = Catalog::built_in();
    catalog.extend(example, "docs").expect("a catalogue");
    let entry = catalog.entry("anywhere", "my-model");
    assert_eq!(
        figures_of(&entry).to_string(),
        "[128000,8192,[500000,1500000,50000,500000,500000],null]"
    );
}
