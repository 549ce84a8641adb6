//! The prompt cache in `ah usage`: what it saved, and where it was missed.

use ah_conversation::{CallReason, Cost, Usage};
use ah_provider::catalog::Catalog;
use ah_store::ApiCall;
use ah_terminal::print::count;
use serde_json::{Value, json};

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
        if is_warming(call) {
            // It answers nothing: what it saves, the next request reads.
            return Some(-cost_of(call, catalog)?);
        }
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

/// Whether a request only kept the conversation in the cache.
fn is_warming(call: &ApiCall) -> bool {
    call.reason == Some(CallReason::KeepWarm)
}

fn cost_of(call: &ApiCall, catalog: &Catalog) -> Option<f64> {
    let model = catalog.model(call.provider.as_deref().unwrap_or_default(), &call.model);
    let cost = || model.cost(&call.usage);
    call.cost.or_else(cost).map(Cost::usd)
}

/// What it saved to keep conversations in the cache while nobody asked.
#[derive(Debug, Default, PartialEq)]
pub struct Warming {
    /// Number of requests for it.
    requests: u64,
    /// What they saved in dollars, negative if they cost more.
    saved: f64,
}

impl Warming {
    /// Returns what it saved in `calls` at the prices of `catalog`: what the request after a pause has read, it would have had to
    /// write. What is asked beside the conversation, or by a subagent, ends no pause.
    pub fn of(calls: &[ApiCall], catalog: &Catalog) -> Self {
        let mut sums = Self::default();
        let mut is_warm = false;
        for call in calls {
            if is_warming(call) {
                sums.requests += 1;
                sums.saved -= cost_of(call, catalog).unwrap_or_default();
                is_warm = true;
            } else if CallReason::is_of_conversation(call.reason)
                && call.agent_id.is_none()
                && std::mem::take(&mut is_warm)
            {
                sums.saved += spared(call, catalog).unwrap_or_default();
            }
        }
        sums
    }

    /// Returns a line about them; empty if there were none.
    pub fn line(&self) -> String {
        let requests = match self.requests {
            0 => return String::new(),
            1 => "1 request".to_owned(),
            requests => format!("{requests} requests"),
        };
        match self.saved {
            saved if saved >= 0.0 => {
                format!("{requests} kept the cache warm and saved ${saved:.4}\n")
            }
            lost => format!(
                "{requests} kept the cache warm and cost ${:.4} more than they saved\n",
                -lost
            ),
        }
    }

    /// Returns them as JSON.
    pub fn to_json(&self) -> Value {
        json!({"requests": self.requests, "saved_usd": self.saved})
    }
}

/// What a request would have cost more if it had written what it has read.
fn spared(call: &ApiCall, catalog: &Catalog) -> Option<f64> {
    let usage = call.usage;
    let written = Usage {
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens,
        ..usage
    };
    let model = catalog.model(call.provider.as_deref().unwrap_or_default(), &call.model);
    let cost = |usage| model.cost(usage).map(Cost::usd);
    Some(cost(&written)? - cost(&usage)?)
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

#[cfg(test)]
mod tests {
    use ah_conversation::{MessageId, Time};

    use super::*;

    fn call(read: u64, written: u64, is_answer: bool) -> ApiCall {
        ApiCall {
            message: is_answer.then(|| MessageId::from("m")),
            agent_id: None,
            at: Time(0),
            model: "claude-opus-4-6".to_owned(),
            provider: is_answer.then(|| "anthropic".to_owned()),
            usage: Usage {
                output_tokens: 1,
                cache_read_input_tokens: read,
                cache_creation_input_tokens: written,
                ..Usage::default()
            },
            cost: None,
            latency_ms: 1,
            reason: (!is_answer).then_some(CallReason::KeepWarm),
            broken: None,
            cache_miss: None,
        }
    }

    /// At 0.5 dollars for a million tokens read, 6.25 for those written and 25 for those of the output.
    #[test]
    fn what_keeps_the_cache_warm_saves_what_the_next_request_reads() {
        const MILLION: u64 = 1_000_000;
        let catalog = Catalog::built_in();
        let answer = |read, written| call(read, written, true);
        let warms = || call(MILLION, 0, false);
        for (calls, requests, saved) in [
            (vec![answer(0, MILLION), answer(MILLION, 0)], 0, 0.0),
            (
                vec![answer(0, MILLION), warms(), answer(MILLION, 0)],
                1,
                5.25,
            ),
            (
                vec![answer(0, MILLION), warms(), warms(), answer(MILLION, 0)],
                2,
                4.75,
            ),
            // Nobody came in time, or at all.
            (vec![warms(), answer(0, MILLION)], 1, -0.5),
            (vec![answer(0, MILLION), warms()], 1, -0.5),
        ] {
            let warming = Warming::of(&calls, &catalog);
            assert_eq!(warming.requests, requests);
            assert!((warming.saved - saved).abs() < 0.001, "{warming:?} {saved}");
            // What it costs does not count as saved by the cache.
            let answers: Vec<_> = calls.iter().filter(|it| !is_warming(it)).cloned().collect();
            let all = super::saved(&answers, &catalog).unwrap_or_default();
            let all = all - requests as f64 * 0.5;
            let told = super::saved(&calls, &catalog).unwrap_or_default();
            assert!((told - all).abs() < 0.001, "{told} {all}");
        }
    }

    /// What was asked aside reads the cache as well, and neither keeps it warm nor is spared anything by that.
    #[test]
    fn only_what_says_so_kept_the_cache_warm() {
        let catalog = Catalog::built_in();
        let aside = |reason| ApiCall {
            reason: Some(reason),
            ..call(1_000_000, 0, false)
        };
        let of_subagent = ApiCall {
            agent_id: Some("agent".to_owned()),
            ..call(1_000_000, 0, true)
        };
        for other in [
            aside(CallReason::SideQuestion),
            aside(CallReason::Title),
            aside(CallReason::Refused),
            aside(CallReason::Tool),
            of_subagent,
        ] {
            let calls = [call(0, 1_000_000, true), other, call(1_000_000, 0, true)];
            assert_eq!(Warming::of(&calls, &catalog), Warming::default());
            let calls = [&calls[..1], &[call(1_000_000, 0, false)], &calls[1..]].concat();
            let warming = Warming::of(&calls, &catalog);
            assert!(
                warming.requests == 1 && (warming.saved - 5.25).abs() < 0.001,
                "{warming:?}"
            );
        }
    }
}
