//! `ah usage`: tokens and cost of a session, in total, by model, and by call.

use ah_conversation::{Cost, Usage};
use ah_store::ApiCall;
use serde_json::{Value, json};

mod cache;
mod held;

use super::place::tree;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_engine::sessions::plan::SessionPlan;
use ah_terminal::print::count;
use ah_terminal::print::table::{Align, table};

/// Prints the requests of a session and their totals.
pub fn run(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    let mut calls = tree.api_calls()?;
    let held = held::Held::of(&tree.events()?);
    calls.retain(is_of_model);
    let catalog = config.catalog()?;
    if form.json {
        let mut all = to_json(&calls);
        all["cache_saved_usd"] = json!(cache::saved(&calls, &catalog));
        all["kept_warm"] = cache::Warming::of(&calls, &catalog).to_json();
        all["held"] = held.to_json();
        print_json(&all)
    } else {
        let warming = cache::Warming::of(&calls, &catalog).line();
        let cache = cache::lines(&calls, &catalog) + &warming;
        print(&(lines(&calls) + &breaks(&calls) + &cache + &held.line()))
    }
}

/// Whether a model was asked, and not a script.
fn is_of_model(call: &ApiCall) -> bool {
    call.provider.as_deref() != Some(ah_tools::SCRIPTS)
}

/// Returns the model of a request with its provider, if known.
fn model(call: &ApiCall) -> String {
    match call.provider.as_deref() {
        None | Some("") | Some("anthropic") => call.model.clone(),
        Some(provider) => format!("{provider}/{}", call.model),
    }
}

/// Totals of requests.
#[derive(Debug, Default)]
struct Sums {
    calls: usize,
    usage: Usage,
    cost: Cost,
    /// Number of requests of unknown cost.
    unpriced: usize,
}

impl Sums {
    fn of<'a>(calls: impl IntoIterator<Item = &'a ApiCall>) -> Self {
        let mut sums = Self::default();
        for call in calls {
            sums.calls += 1;
            sums.usage += call.usage;
            match call.cost {
                Some(cost) => sums.cost = sums.cost + cost,
                None => sums.unpriced += 1,
            }
        }
        sums
    }

    /// Returns the known cost; `None` if nothing is known.
    fn known(&self) -> Option<Cost> {
        (self.unpriced < self.calls).then_some(self.cost)
    }

    fn cost(&self) -> String {
        match (self.known(), self.unpriced) {
            (None, 0) => Cost::default().to_string(),
            (None, _) => "unknown".to_owned(),
            (Some(cost), 0) => cost.to_string(),
            (Some(cost), 1) => format!("{cost} and 1 call of unknown cost"),
            (Some(cost), unpriced) => format!("{cost} and {unpriced} calls of unknown cost"),
        }
    }

    /// Input, read from and written to the cache, and output.
    fn tokens(&self) -> [String; 4] {
        let usage = &self.usage;
        [
            usage.effective_input(),
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
        ]
        .map(count)
    }

    fn hits(&self) -> String {
        let (read, all) = (
            self.usage.cache_read_input_tokens,
            self.usage.effective_input(),
        );
        let percent = (read * 100).checked_div(all);
        percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
    }

    fn to_json(&self) -> Value {
        json!({
            "api_calls": self.calls,
            "usage": self.usage,
            "input_tokens": self.usage.effective_input(),
            "total_tokens": self.usage.total(),
            "cost_usd": self.known().map(Cost::usd),
            "unpriced_calls": self.unpriced,
        })
    }
}

/// Returns the totals by model, in the order of first use.
fn by_model(calls: &[ApiCall]) -> Vec<(String, Sums)> {
    let mut models: Vec<String> = Vec::new();
    for call in calls {
        let model = model(call);
        if !models.contains(&model) {
            models.push(model);
        }
    }
    let sums = |model: String| {
        let its = calls.iter().filter(|call| self::model(call) == model);
        let sums = Sums::of(its);
        (model, sums)
    };
    models.into_iter().map(sums).collect()
}

fn lines(calls: &[ApiCall]) -> String {
    use Align::{Left, Right};
    let head = [
        "", "MODEL", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "HITS", "COST",
    ];
    let row = |name: String, model: String, sums: &Sums| {
        let [input, read, written, output] = sums.tokens();
        [
            name,
            model,
            input,
            read,
            written,
            output,
            sums.hits(),
            sums.cost(),
        ]
    };
    let mut rows = vec![head.map(str::to_owned)];
    for (index, call) in calls.iter().enumerate() {
        rows.push(row((index + 1).to_string(), model(call), &Sums::of([call])));
    }
    let models = by_model(calls);
    if models.len() > 1 {
        for (model, sums) in models {
            rows.push(row(calls_of(sums.calls), model, &sums));
        }
    }
    rows.push(row(
        calls_of(calls.len()),
        "total".to_owned(),
        &Sums::of(calls),
    ));
    table(
        [Right, Left, Right, Right, Right, Right, Right, Left],
        &rows,
    )
}

/// Returns a line for each request that did not continue the earlier ones of its branch, or not by its server's judgement.
fn breaks(calls: &[ApiCall]) -> String {
    let broken = calls.iter().enumerate().filter_map(|(index, call)| {
        let broken = call.broken?;
        let (number, reason) = (index + 1, broken.as_str());
        Some(match broken.is_of_server() {
            true => {
                format!(
                    "call {number} was answered without earlier thinking, by its server: {reason}\n"
                )
            }
            false => {
                format!("call {number} missed the prompt cache: {reason}\n")
            }
        })
    });
    broken.collect()
}

fn calls_of(count: usize) -> String {
    match count {
        1 => "1 call".to_owned(),
        count => format!("{count} calls"),
    }
}

fn to_json(calls: &[ApiCall]) -> Value {
    let mut all = Sums::of(calls).to_json();
    let models = by_model(calls)
        .into_iter()
        .map(|(model, sums)| (model, sums.to_json()));
    all["models"] = Value::Object(models.collect());
    let each = calls.iter().map(|call| {
        json!({
            "message_id": call.message,
            "at": call.at.seconds(),
            "model": call.model,
            "provider": call.provider,
            "usage": call.usage,
            "cost_usd": call.cost.map(Cost::usd),
            "latency_ms": call.latency_ms,
            "reason": call.reason,
            "prefix_broken": call.broken,
            "cache_miss": call.cache_miss,
        })
    });
    all["calls"] = each.collect();
    all
}

#[cfg(test)]
mod tests {
    use ah_conversation::{CacheMiss, Time};
    use ah_provider::catalog::Catalog;

    use super::*;

    fn call(provider: Option<&str>, model: &str, cost: Option<Cost>) -> ApiCall {
        ApiCall {
            agent_id: None,
            message: None,
            at: Time(0),
            model: model.to_owned(),
            provider: provider.map(str::to_owned),
            usage: Usage {
                input_tokens: 1_000,
                output_tokens: 500,
                cache_read_input_tokens: 9_000,
                ..Usage::default()
            },
            cost,
            latency_ms: 1,
            reason: None,
            broken: None,
            cache_miss: None,
        }
    }

    fn shown(calls: &[ApiCall]) -> String {
        lines(calls)
    }

    #[test]
    fn calls_are_shown_and_summed_up_by_model() {
        let sonnet = "claude-sonnet-4-5-20250929";
        insta::assert_snapshot!(shown(&[
            call(Some("anthropic"), sonnet, Some(Cost::from_usd(0.0132))),
            call(Some("litellm"), "unheard-of", None),
            // A cost reported by the server overrides any price.
            call(Some("litellm"), sonnet, Some(Cost::from_usd(0.02))),
        ]), @r#"
         MODEL                               INPUT  CACHED  WRITTEN  OUTPUT  HITS  COST
      1  claude-sonnet-4-5-20250929          10.0k    9.0k        0     500   90%  $0.0132
      2  litellm/unheard-of                  10.0k    9.0k        0     500   90%  unknown
      3  litellm/claude-sonnet-4-5-20250929  10.0k    9.0k        0     500   90%  $0.0200
 1 call  claude-sonnet-4-5-20250929          10.0k    9.0k        0     500   90%  $0.0132
 1 call  litellm/unheard-of                  10.0k    9.0k        0     500   90%  unknown
 1 call  litellm/claude-sonnet-4-5-20250929  10.0k    9.0k        0     500   90%  $0.0200
3 calls  total                               30.0k   27.0k        0    1.5k   90%  $0.0332 and 1 call of unknown cost
"#);
        insta::assert_snapshot!(shown(&[call(None, "unheard-of", None)]), @r#"
        MODEL       INPUT  CACHED  WRITTEN  OUTPUT  HITS  COST
     1  unheard-of  10.0k    9.0k        0     500   90%  unknown
1 call  total       10.0k    9.0k        0     500   90%  unknown
"#);
        insta::assert_snapshot!(shown(&[]), @r#"
         MODEL  INPUT  CACHED  WRITTEN  OUTPUT  HITS  COST
0 calls  total      0       0        0       0     -  $0.0000
"#);
    }

    #[test]
    fn a_break_is_named_as_ours_or_the_servers() {
        use ah_conversation::PrefixBreak::{PrefixMismatch, Summary};
        let broken = |broken| ApiCall {
            broken,
            ..call(None, "m", None)
        };
        let calls = [
            broken(None),
            broken(Some(Summary)),
            broken(Some(PrefixMismatch)),
        ];
        insta::assert_snapshot!(breaks(&calls), @"
        call 2 missed the prompt cache: the conversation was compacted
        call 3 was answered without earlier thinking, by its server: messages before earlier thinking have changed
        ");
    }

    #[test]
    fn what_the_cache_saved_and_where_it_was_missed() {
        let missed = |change: Option<&str>| ApiCall {
            cache_miss: Some(CacheMiss {
                expected: 12_000,
                read: 9_000,
                change: change.map(str::to_owned),
            }),
            ..call(Some("anthropic"), "claude-sonnet-4-5", None)
        };
        let written = ApiCall {
            usage: Usage {
                cache_creation_input_tokens: 100_000,
                cache_creation_1h_input_tokens: 100_000,
                ..Usage::default()
            },
            ..call(Some("anthropic"), "claude-sonnet-4-5", None)
        };
        let catalog = Catalog::built_in();
        let lines = |calls: &[ApiCall]| cache::lines(calls, &catalog);
        insta::assert_snapshot!(lines(&[missed(Some("`tools[1]` is new")), missed(None)]), @"
        the cache saved $0.0486
        call 1 read 9.0k of 12.0k cached tokens: `tools[1]` is new, compared with the previous request
        call 2 read 9.0k of 12.0k cached tokens: the request continues the previous one, so the server had dropped it from its cache
        ");
        insta::assert_snapshot!(lines(&[written]), @"the cache cost $0.3000 more than it saved");
        assert_eq!(lines(&[call(None, "unheard-of", None)]), "");
    }

    #[test]
    fn an_unknown_cost_is_never_0() {
        let calls = [
            call(None, "unheard-of", None),
            call(None, "m", Some(Cost(5))),
        ];
        let value = to_json(&calls);
        assert_eq!(value["calls"][0]["cost_usd"], Value::Null);
        assert_eq!(value["models"]["unheard-of"]["cost_usd"], Value::Null);
        assert_eq!(
            (&value["cost_usd"], &value["unpriced_calls"]),
            (&json!(5e-12), &json!(1))
        );
    }
}
