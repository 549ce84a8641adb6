//! Progress of the work.

use ah_terminal::line::preview;
use ah_work::phase::{Phase, PhaseOutcome};
use ah_work::run::WorkEvent;
use ah_work::setup::proposal::{OFF, Proposal};

use crate::commands::output::print;

/// Returns a callback that prints events, with the markers by which Actions folds its log.
pub fn show(in_actions: bool) -> impl Fn(&WorkEvent) + Send + Sync {
    move |news| match news {
        WorkEvent::Issue {
            number,
            title,
            is_resumed,
        } => {
            let word = if *is_resumed {
                "Continuing with"
            } else {
                "Working on"
            };
            ah_terminal::note(&format!("{word} #{number}: {}", preview(title, 80)));
        }
        WorkEvent::Setup(plan) => {
            for line in setup(plan) {
                ah_terminal::note(&line);
            }
        }
        WorkEvent::PhaseStarted(phase) => {
            if in_actions {
                let _ = print(&format!("::group::{phase}\n"));
            }
            ah_terminal::note(&format!("{phase} ..."));
        }
        WorkEvent::PhaseEnded(phase, outcome, note) => {
            ah_terminal::note(&ended(*phase, *outcome, note));
            if in_actions {
                let _ = print("::endgroup::\n");
            }
        }
        WorkEvent::Warning(text) => ah_terminal::warn(text),
    }
}

/// Returns what runs because the project says so, and what does not.
fn setup(plan: &Proposal) -> Vec<String> {
    let mut lines = Vec::new();
    if !plan.setup.is_empty() {
        let commands = commands(plan);
        let hosts = match plan.setup.allow_hosts.as_slice() {
            [] => "without a network".to_owned(),
            hosts => format!("with {}", hosts.join(", ")),
        };
        lines.push(format!(
            "setup, as {} of the base says, in the sandbox {hosts}: {commands}. The setting `work.setup` replaces it, {OFF} turns it off.",
            preview(&plan.source, 120),
        ));
    }
    if !plan.left_out.is_empty() {
        lines.push(format!("setup: left out: {}", left_out(plan)));
    }
    lines
}

/// Returns the commands of a setup on one line.
pub fn commands(plan: &Proposal) -> String {
    let commands = plan.setup.commands.iter();
    let commands = commands.map(|line| format!("`{}`", preview(line, 100)));
    commands.collect::<Vec<_>>().join(", ")
}

/// Returns what was left out of a setup, on one line.
pub fn left_out(plan: &Proposal) -> String {
    let lines = plan.left_out.iter().map(|line| preview(line, 100));
    lines.collect::<Vec<_>>().join("; ")
}

pub fn ended(phase: Phase, outcome: PhaseOutcome, note: &str) -> String {
    match note {
        "" => format!("{phase}: {outcome}"),
        note => format!("{phase}: {outcome} ({note})"),
    }
}
