//! Limits that all workers share.

use ah_config::Error;
use ah_conversation::Cost;
use ah_store::fleet::{ALL, Fleet, Limit};

use super::super::output::print;
use crate::args::fleet::FleetAction;

/// Sets or removes a limit, or lists all that concern this tenant.
pub async fn limit(fleet: &dyn Fleet, action: FleetAction) -> Result<u8, Error> {
    let FleetAction::Limit {
        per_minute,
        budget,
        none,
        model,
        tenant,
    } = action
    else {
        return Ok(0);
    };
    if per_minute.is_some() || budget.is_some() || none {
        let dollars = |dollars| i64::try_from(Cost::from_usd(dollars).0).unwrap_or(i64::MAX);
        let limit = Limit {
            tenant: tenant.unwrap_or_default(),
            model: model.unwrap_or_else(|| ALL.to_owned()),
            per_minute,
            budget: budget.map(dollars),
        };
        fleet.set_limit(&limit).await?;
        return Ok(0);
    }
    let limits = fleet.limits().await?;
    if limits.is_empty() {
        return print("no limits\n");
    }
    print(&limits.iter().map(shown).collect::<String>())
}

fn shown(limit: &Limit) -> String {
    let rate = limit
        .per_minute
        .map(|count| format!("  {count} requests a minute"));
    let budget = limit.budget.map(|left| {
        let dollars = left as f64 / 1e12;
        format!("  {dollars:.2} dollars left")
    });
    let (tenant, model) = (&limit.tenant, &limit.model);
    let what = format!("{tenant}  {model}");
    let (rate, budget) = (rate.unwrap_or_default(), budget.unwrap_or_default());
    format!("{}{rate}{budget}\n", what.trim_start())
}
