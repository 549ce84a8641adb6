//! The prompt cache in `ah usage`: what it saved, and where it was missed.

use ah_conversation::{Cost, Usage};
use ah_provider::catalog::Catalog;
use ah_store::ApiCall;
use ah_terminal::print::count;

/// Returns what the cache saved in dollars at the prices of `catalog`, negative if writing to it cost more than reading
/// saved; `None` if no price is known or it was not used.
pub fn saved(calls: &[ApiCall], catalog: &Catalog) -> Option<f64> {
    let of_call = |call: &ApiCall| {
        let usage = &call.usage;
        let without = Usage {
            input_tokens: usage.effective_input(),
            output_tokens: usage.output_tokens,
            ..Usage::default()
        };
        let is_used = without.input_tokens > usage.input_tokens;
        let model = catalog.model(call.provider.as_deref().unwrap_or_default(), &call.model);
        let cost = |usage| model.cost(usage).map(Cost::usd);
        is_used.then(|| Some(cost(&without)? - cost(usage)?))?
    };
    calls
        .iter()
        .filter_map(of_call)
        .reduce(|sum, saved| sum + saved)
}

/// Returns a line about what the cache saved, and one for each call that missed it.
pub fn lines(calls: &[ApiCall], catalog: &Catalog) -> String {
    let saved = saved(calls, catalog).map(|dollars| match dollars {
        saved if saved >= 0.0 => format!("the cache saved ${saved:.4}\n"),
        lost => format!("the cache cost ${:.4} more than it saved\n", -lost),
    });
    let misses = calls.iter().enumerate().filter_map(|(index, call)| {
        let miss = call.cache_miss.as_ref()?;
        let (number, read, expected) = (index + 1, count(miss.read), count(miss.expected));
        let reason = match &miss.change {
            Some(change) => format!("{change}, compared with the previous request"),
            None => {
                "the request continues the previous one, so the server had dropped it from its cache".to_owned()
            }
        };
        Some(format!(
            "call {number} read {read} of {expected} cached tokens: {reason}\n"
        ))
    });
    saved.into_iter().chain(misses).collect()
}
