//! `ah work status`: progress of the work, from its stored state.

use std::path::Path;

use ah_work::artifact::Artifacts;
use ah_work::journal::PhaseUsage;
use ah_work::phase::{self, WorkStep};
use ah_work::run::load;
use ah_work::setup::proposal::Proposal;
use ah_work::summary::pull_request;
use serde_json::json;

use super::events::commands;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah_config::Error;
use ah_terminal::line::preview;

/// Prints the progress; returns the exit code.
///
/// # Errors
///
/// If the state cannot be read.
pub(super) fn run(top: &Path, form: Json) -> Result<u8, Error> {
    let journal = load(&Artifacts::of(top)).map_err(|error| super::failure(&error))?;
    let Some(journal) = journal else {
        return if form.json {
            print_json(&json!(null))
        } else {
            print("no work in progress here\n")
        };
    };
    let next = match phase::next(&journal.history(), journal.rework) {
        WorkStep::Perform(phase) => Some(phase.as_str()),
        WorkStep::Finish(_) => None,
    };
    let setup = Proposal::done(&Artifacts::of(top));
    let ended = journal.concluded.map(|status| status.as_str());
    if form.json {
        let phases: Vec<_> = journal
            .runs
            .iter()
            .map(|run| {
                json!({
                    "phase": run.phase, "outcome": run.outcome.to_string(), "note": run.note,
                    "started_at": run.started_at, "ended_at": run.ended_at,
                    "tokens": run.usage.map(|usage| usage.tokens),
                    "cost_usd": run.usage.and_then(|usage| usage.cost_usd),
                })
            })
            .collect();
        return print_json(&json!({
            "issue": journal.issue.number, "title": journal.issue.title, "branch": journal.branch,
            "base": journal.base, "setup": setup.map(|plan| plan.to_json()), "phases": phases, "next": next, "status": ended,
        }));
    }
    let mut text = format!(
        "#{} {}\nbranch {} for {}\n",
        journal.issue.number,
        preview(&journal.issue.title, 80),
        journal.branch,
        journal.base
    );
    if let Some(plan) = setup {
        let source = preview(&plan.source, 120);
        text.push_str(&format!("setup by {source}: {}\n", commands(&plan)));
    }
    for run in &journal.runs {
        let line = super::events::ended(run.phase, run.outcome, &preview(&run.note, 200));
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(total) = PhaseUsage::total(&journal.runs) {
        text.push_str(&format!("cost {}\n", total.words()));
    }
    if let Some(url) = pull_request(&journal, &Artifacts::of(top)) {
        text.push_str(&format!("pull request {}\n", preview(&url, 200)));
    }
    let last = match (ended, next) {
        (Some(status), _) => status.to_owned(),
        (None, Some(next)) => format!("next: {next}"),
        (None, None) => "next: labels and the last comment".to_owned(),
    };
    print(&format!("{text}{last}\n"))
}
