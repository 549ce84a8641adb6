//! `ah usage`: what a session has cost.

use ah_conversation::{Cost, Usage};
use ah_provider::catalog::Catalog;
use ah_store::ApiCall;
use serde_json::json;

use super::place::tree;
use super::{print, print_json};
use crate::args::session::SessionPlan;
use crate::args::subcommands::Json;
use crate::config::Config;
use crate::error::CliError;
use crate::print::count;
use crate::print::table::{Align, table};

/// Prints the sums of all requests of a session.
pub fn run(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, CliError> {
    let calls = tree(plan, config)?.api_calls()?;
    let sums = Sums::of(&calls, &config.catalog()?);
    if form.json {
        return print_json(&json!({
            "api_calls": sums.calls,
            "usage": sums.usage,
            "input_tokens": sums.usage.effective_input(),
            "total_tokens": sums.usage.total(),
            "cost_usd": sums.cost.map(Cost::usd),
            "unpriced_calls": sums.unpriced,
        }));
    }
    print(&sums.lines())
}

/// The sums of all requests.
#[derive(Debug, Default)]
struct Sums {
    calls: usize,
    usage: Usage,
    cost: Option<Cost>,
    /// Requests to models whose price is not known.
    unpriced: usize,
}

impl Sums {
    fn of(calls: &[ApiCall], catalog: &Catalog) -> Self {
        let mut sums = Self::default();
        for call in calls {
            sums.calls += 1;
            sums.usage += call.usage;
            let server = call.provider.as_deref().unwrap_or_default();
            match catalog.model(server, &call.model).cost(&call.usage) {
                Some(cost) => sums.cost = Some(sums.cost.unwrap_or_default() + cost),
                None => sums.unpriced += 1,
            }
        }
        sums
    }

    fn lines(&self) -> String {
        let usage = &self.usage;
        let mut rows = vec![
            ["api calls", &self.calls.to_string()].map(str::to_owned),
            ["input", &count(usage.effective_input())].map(str::to_owned),
            ["output", &count(usage.output_tokens)].map(str::to_owned),
            ["total", &count(usage.total())].map(str::to_owned),
            ["cache read", &count(usage.cache_read_input_tokens)].map(str::to_owned),
            ["cache write", &count(usage.cache_creation_input_tokens)].map(str::to_owned),
        ];
        if let Some(percent) =
            (usage.cache_read_input_tokens * 100).checked_div(usage.effective_input())
        {
            rows.push(["cache hit".to_owned(), format!("{percent}%")]);
        }
        let unknown = match self.unpriced {
            0 => String::new(),
            1 => " (without 1 call whose price is not known)".to_owned(),
            unpriced => format!(" (without {unpriced} calls whose prices are not known)"),
        };
        if let Some(cost) = self.cost {
            rows.push(["cost".to_owned(), format!("{cost}{unknown}")]);
        }
        for row in &mut rows {
            row[0].push(':');
        }
        table([Align::Left, Align::Left], &rows)
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Time;

    use super::*;

    #[test]
    fn sums_are_of_all_requests() {
        let call = |model: &str| ApiCall {
            message: None,
            at: Time(0),
            model: model.to_owned(),
            provider: None,
            usage: Usage {
                input_tokens: 1_000,
                output_tokens: 500,
                cache_read_input_tokens: 9_000,
                ..Usage::default()
            },
            latency_ms: 1,
        };
        let calls = [call("claude-sonnet-4-5-20250929"), call("unheard-of")];
        insta::assert_snapshot!(Sums::of(&calls, &Catalog::built_in()).lines(), @r#"
api calls:    2
input:        20.0k
output:       1.0k
total:        21.0k
cache read:   18.0k
cache write:  0
cache hit:    90%
cost:         $0.0132 (without 1 call whose price is not known)
"#);
        insta::assert_snapshot!(Sums::of(&[], &Catalog::built_in()).lines(), @r#"
api calls:    0
input:        0
output:       0
total:        0
cache read:   0
cache write:  0
"#);
    }
}
