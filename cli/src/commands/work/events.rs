//! Progress of the work.

use ah_terminal::line::preview;
use ah_work::phase::{Phase, PhaseOutcome};
use ah_work::run::WorkEvent;

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

pub fn ended(phase: Phase, outcome: PhaseOutcome, note: &str) -> String {
    match note {
        "" => format!("{phase}: {outcome}"),
        note => format!("{phase}: {outcome} ({note})"),
    }
}
