//! Phases of the work, and the decision which one is next. Pure: the history is the whole state.

use std::fmt;

pub use ah_config::settings::work::{Phase, Rework};
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// Result of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseOutcome {
    /// Completed.
    Done,
    /// Stopped early, but with usable commits.
    Partial,
    /// Pushed, and conflicts with the base.
    Conflicts,
    /// Nothing to do.
    Skipped,
    /// The agent found that the issue cannot be planned, or a push conflicts with what others have pushed.
    Bailed,
    /// Failed.
    Failed,
    /// Review with this verdict.
    Judged(Verdict),
}

impl fmt::Display for PhaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Conflicts => "conflicts",
            Self::Skipped => "skipped",
            Self::Bailed => "bailed",
            Self::Failed => "failed",
            Self::Judged(verdict) => verdict.as_str(),
        })
    }
}

/// Final status of the work on an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    /// The review passed, and all its actions were performed.
    Success,
    /// There is no plan.
    PlanFailed,
    /// Failed for another reason.
    Failed,
    /// Not started: too many open pull requests.
    PrLimit,
    /// Not started: no issue is waiting.
    NoIssues,
    /// Stopped by a fault that is not the issue's, such as a provider that cannot be reached. The issue waits again.
    GivenBack,
}

impl WorkStatus {
    /// Returns the name used in `summary.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PlanFailed => "plan_failed",
            Self::Failed => "failed",
            Self::PrLimit => "pr_limit",
            Self::NoIssues => "no_issues",
            Self::GivenBack => "given_back",
        }
    }
}

/// Next step of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkStep {
    /// Perform this phase.
    Perform(Phase),
    /// Finish with this status.
    Finish(WorkStatus),
}

/// Returns how many phases stay if the work on an issue goes on after its end, or a single phase is asked for. One that
/// failed is repeated: a single one by name, and without a name a push that failed, or the actions of a review that
/// passed. So nothing is paid for twice.
pub fn kept(history: &[(Phase, PhaseOutcome)], wanted: Option<Phase>) -> usize {
    let last = |wanted: Phase| history.iter().rposition(|(phase, _)| *phase == wanted);
    let is = |at: &usize, outcomes: &[PhaseOutcome]| outcomes.contains(&history[*at].1);
    let failed = |at: &usize| is(at, &[PhaseOutcome::Failed]);
    let repeated = match wanted {
        Some(phase) => {
            let unsuccessful = [PhaseOutcome::Failed, PhaseOutcome::Bailed];
            last(phase).filter(|at| is(at, &unsuccessful))
        }
        None => {
            let has_passed = last(Phase::Check)
                .is_some_and(|at| history[at].1 == PhaseOutcome::Judged(Verdict::Pass));
            let act = last(Phase::Act).filter(|at| has_passed && failed(at));
            last(Phase::Push).filter(failed).or(act)
        }
    };
    repeated.unwrap_or(history.len())
}

/// Largest number of merges of the base, if it goes on while the issue is worked on.
const MERGES: usize = 2;

/// Returns whether a conflict with the base is still to be resolved, and not only to be said.
pub fn may_merge(history: &[(Phase, PhaseOutcome)]) -> bool {
    let merges = history.iter().filter(|(phase, _)| *phase == Phase::Merge);
    let mut merges = merges.map(|(_, outcome)| *outcome).collect::<Vec<_>>();
    merges.len() < MERGES
        && merges
            .pop()
            .is_none_or(|outcome| outcome != PhaseOutcome::Failed)
}

/// Returns the step that follows the phases so far.
pub fn next(history: &[(Phase, PhaseOutcome)], rework: Rework) -> WorkStep {
    let count = |phase| history.iter().filter(|(known, _)| *known == phase).count();
    let is_usable = |outcome| {
        matches!(
            outcome,
            PhaseOutcome::Done | PhaseOutcome::Partial | PhaseOutcome::Skipped
        )
    };
    let Some((phase, outcome)) = history.last() else {
        return WorkStep::Perform(Phase::Plan);
    };
    match (phase, *outcome) {
        (Phase::Plan, PhaseOutcome::Done) => WorkStep::Perform(Phase::Do),
        (Phase::Plan, _) => WorkStep::Finish(WorkStatus::PlanFailed),
        (Phase::Do | Phase::Fix, outcome) if is_usable(outcome) => WorkStep::Perform(Phase::Push),
        (Phase::Push, PhaseOutcome::Conflicts) => WorkStep::Perform(if may_merge(history) {
            Phase::Merge
        } else {
            Phase::Check
        }),
        // Without a merge, the push says the conflict.
        (Phase::Merge, _) => WorkStep::Perform(Phase::Push),
        (Phase::Push, outcome) if is_usable(outcome) => WorkStep::Perform(Phase::Check),
        (Phase::Check, PhaseOutcome::Judged(Verdict::NeedsFixes)) => match rework {
            Rework::Fix(rounds) if count(Phase::Fix) < rounds => WorkStep::Perform(Phase::Fix),
            Rework::Converge(rounds) if count(Phase::Do) < rounds => WorkStep::Perform(Phase::Do),
            Rework::Fix(_) | Rework::Converge(_) => WorkStep::Perform(Phase::Act),
        },
        // After any failure, act reports it on the issue.
        (Phase::Do | Phase::Push | Phase::Check | Phase::Fix, _) => WorkStep::Perform(Phase::Act),
        (Phase::Act, PhaseOutcome::Done) => WorkStep::Finish(WorkStatus::Success),
        (Phase::Act, _) => WorkStep::Finish(WorkStatus::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a history such as `plan do:partial check:needs-fixes`; without an outcome, a phase is done.
    fn history(text: &str) -> Vec<(Phase, PhaseOutcome)> {
        let entry = |word: &str| {
            let (phase, outcome) = word.split_once(':').unwrap_or((word, "done"));
            let phase = Phase::ALL.into_iter().find(|known| known.as_str() == phase);
            let outcome = match outcome {
                "done" => PhaseOutcome::Done,
                "partial" => PhaseOutcome::Partial,
                "skipped" => PhaseOutcome::Skipped,
                "conflicts" => PhaseOutcome::Conflicts,
                "bailed" => PhaseOutcome::Bailed,
                "failed" => PhaseOutcome::Failed,
                verdict => PhaseOutcome::Judged(Verdict::of(verdict)),
            };
            (phase.unwrap(), outcome)
        };
        text.split_whitespace().map(entry).collect()
    }

    fn check(past: &str, rework: Rework, expected: &str) {
        let step = match next(&history(past), rework) {
            WorkStep::Perform(phase) => phase.to_string(),
            WorkStep::Finish(status) => format!("finish {}", status.as_str()),
        };
        assert_eq!(step, expected, "{past}");
    }

    #[test]
    fn the_history_determines_the_next_step() {
        let round = "fix push check:needs-fixes";
        let first = "plan do push check:needs-fixes";
        for (past, expected) in [
            ("", "plan"),
            ("plan", "do"),
            ("plan:failed", "finish plan_failed"),
            ("plan:bailed", "finish plan_failed"),
            ("plan do", "push"),
            ("plan do:partial", "push"),
            ("plan do:failed", "act"),
            ("plan do push", "check"),
            ("plan do push:skipped", "check"),
            ("plan do push:failed", "act"),
            ("plan do push:conflicts", "merge"),
            ("plan do push:conflicts merge", "push"),
            ("plan do push:conflicts merge:failed", "push"),
            (
                "plan do push:conflicts merge:failed push:conflicts",
                "check",
            ),
            ("plan do push:conflicts merge push:conflicts", "merge"),
            (
                "plan do push:conflicts merge push:conflicts merge push:conflicts",
                "check",
            ),
            ("plan do push check:pass", "act"),
            ("plan do push check:fail", "act"),
            ("plan do push check:unknown", "act"),
            ("plan do push check:failed", "act"),
            (first, "fix"),
            (&format!("{first} fix"), "push"),
            (&format!("{first} fix:partial"), "push"),
            (&format!("{first} fix:failed"), "act"),
            (&format!("{first} {round}"), "fix"),
            (&format!("{first} {round} {round}"), "act"),
            ("plan do push check:pass act", "finish success"),
            ("plan do push check:pass act:failed", "finish failed"),
        ] {
            check(past, Rework::default(), expected);
        }
    }

    #[test]
    fn what_failed_is_repeated_and_what_was_paid_for_stays() {
        let done = "plan do push check:pass";
        for (past, wanted, expected) in [
            ("plan do push:failed act:failed", None, 2),
            ("plan do push:failed act:failed", Some(Phase::Push), 2),
            ("plan do push:failed act:failed", Some(Phase::Act), 3),
            ("plan do push:failed act:failed", Some(Phase::Do), 4),
            (&format!("{done} act:failed"), None, 4),
            (&format!("{done} act:failed"), Some(Phase::Act), 4),
            (&format!("{done} act"), Some(Phase::Act), 5),
            (&format!("{done} act"), None, 5),
            ("plan do push check:fail act:failed", None, 5),
            ("plan do:failed act:failed", None, 3),
            ("plan do:failed act:failed", Some(Phase::Do), 1),
            ("plan do push:bailed act:failed", None, 4),
            ("plan do push:bailed act:failed", Some(Phase::Push), 2),
            ("plan:bailed", Some(Phase::Plan), 0),
            ("plan:failed", None, 1),
        ] {
            assert_eq!(kept(&history(past), wanted), expected, "{past} {wanted:?}");
        }
    }

    #[test]
    fn converge_repeats_do_instead_of_fixing() {
        let round = "do push check:needs-fixes";
        for (past, expected) in [
            (format!("plan {round}"), "do"),
            (format!("plan {round} {round}"), "do"),
            (format!("plan {round} {round} {round}"), "act"),
            (format!("plan {round} do push check:pass"), "act"),
        ] {
            check(&past, Rework::Converge(3), expected);
        }
    }

    /// Counts the histories that begin with `past` and finish.
    fn endings(past: &mut Vec<(Phase, PhaseOutcome)>, outcomes: &[PhaseOutcome]) -> usize {
        assert!(past.len() < 20, "{past:?}");
        let WorkStep::Perform(phase) = next(past, Rework::default()) else {
            return 1;
        };
        let mut ended = 0;
        for outcome in outcomes {
            past.push((phase, *outcome));
            ended += endings(past, outcomes);
            past.pop();
        }
        ended
    }

    #[test]
    fn every_history_finishes() {
        let outcomes = [
            "done",
            "partial",
            "conflicts",
            "skipped",
            "bailed",
            "failed",
            "pass",
            "needs-fixes",
            "fail",
            "unknown",
        ]
        // Read once, and added and taken away in place: there are millions of histories.
        .map(|outcome| history(&format!("do:{outcome}"))[0].1);
        let ended = endings(&mut Vec::new(), &outcomes);
        assert!(ended > 100, "{ended}");
    }
}
