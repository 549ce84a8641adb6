//! Which phase is next, given how those before it came out. Pure: the history is the whole state of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// A phase of the work on an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// An agent reads the issue and the source, and says what is to be done.
    Plan,
    /// An agent does it, in commits.
    Do,
    /// The commits go to the remote.
    Push,
    /// An agent reviews them against the plan, and gives a verdict.
    Check,
    /// An agent mends what the review found.
    Fix,
    /// What the verdict asks for is done at the hub: a pull request, comments.
    Act,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Plan,
        Self::Do,
        Self::Push,
        Self::Check,
        Self::Fix,
        Self::Act,
    ];

    /// The word for it: of its folder, its subcommand and, where an agent works, its skill.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Do => "do",
            Self::Push => "push",
            Self::Check => "check",
            Self::Fix => "fix",
            Self::Act => "act",
        }
    }

    /// Whether an agent works in it.
    pub fn has_agent(self) -> bool {
        matches!(self, Self::Plan | Self::Do | Self::Check | Self::Fix)
    }

    /// The phases whose files it reads and cannot change.
    pub fn earlier(self) -> &'static [Self] {
        match self {
            Self::Plan => &[],
            Self::Do => &[Self::Plan],
            Self::Push | Self::Check => &[Self::Plan, Self::Do, Self::Fix],
            Self::Fix => &[Self::Plan, Self::Do, Self::Check],
            Self::Act => &[Self::Plan, Self::Do, Self::Check, Self::Fix],
        }
    }

    /// The files that its agent leaves in its folder. The first has to be there.
    pub fn leaves(self) -> &'static [&'static str] {
        match self {
            Self::Plan => &["plan.md", "update.md"],
            Self::Do | Self::Fix => &["do.md", "update.md"],
            Self::Check => &["actions.json", "check.md", "update.md"],
            Self::Push | Self::Act => &[],
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a phase came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseOutcome {
    /// As it should.
    Done,
    /// It was cut short, but there are commits to go on with.
    Partial,
    /// There was nothing to do.
    Skipped,
    /// The agent found that the issue cannot be planned.
    Bailed,
    /// Not as it should.
    Failed,
    /// A review with this verdict.
    Judged(Verdict),
}

impl fmt::Display for PhaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Skipped => "skipped",
            Self::Bailed => "bailed",
            Self::Failed => "failed",
            Self::Judged(verdict) => verdict.as_str(),
        })
    }
}

/// What is done when a review asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rework {
    /// The phase fix, at most so often.
    Fix(usize),
    /// The phase do again, with the review as feedback, until it was done so often in all.
    Converge(usize),
}

impl Default for Rework {
    fn default() -> Self {
        Self::Fix(2)
    }
}

/// How the work on an issue ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    /// The review passed, and all that it asked for was done.
    Success,
    /// There is no plan.
    PlanFailed,
    /// Something else went wrong.
    Failed,
    /// Nothing was begun, for there are too many open pull requests.
    PrLimit,
    /// Nothing was begun, for no issue waits.
    NoIssues,
}

impl WorkStatus {
    /// The word for it in `summary.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PlanFailed => "plan_failed",
            Self::Failed => "failed",
            Self::PrLimit => "pr_limit",
            Self::NoIssues => "no_issues",
        }
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkStep {
    /// This phase.
    Perform(Phase),
    /// Nothing more.
    Finish(WorkStatus),
}

/// Decides what follows from the phases so far.
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
        (Phase::Push, outcome) if is_usable(outcome) => WorkStep::Perform(Phase::Check),
        (Phase::Check, PhaseOutcome::Judged(Verdict::NeedsFixes)) => match rework {
            Rework::Fix(rounds) if count(Phase::Fix) < rounds => WorkStep::Perform(Phase::Fix),
            Rework::Converge(rounds) if count(Phase::Do) < rounds => WorkStep::Perform(Phase::Do),
            Rework::Fix(_) | Rework::Converge(_) => WorkStep::Perform(Phase::Act),
        },
        // Whatever went wrong, act says so at the hub.
        (Phase::Do | Phase::Push | Phase::Check | Phase::Fix, _) => WorkStep::Perform(Phase::Act),
        (Phase::Act, PhaseOutcome::Done) => WorkStep::Finish(WorkStatus::Success),
        (Phase::Act, _) => WorkStep::Finish(WorkStatus::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `plan do:partial check:needs-fixes`; a phase without a word is done.
    fn history(text: &str) -> Vec<(Phase, PhaseOutcome)> {
        let entry = |word: &str| {
            let (phase, outcome) = word.split_once(':').unwrap_or((word, "done"));
            let phase = Phase::ALL.into_iter().find(|known| known.as_str() == phase);
            let outcome = match outcome {
                "done" => PhaseOutcome::Done,
                "partial" => PhaseOutcome::Partial,
                "skipped" => PhaseOutcome::Skipped,
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
    fn each_history_has_one_continuation() {
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
    fn convergence_does_again_in_place_of_fixing() {
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

    #[test]
    fn every_way_ends() {
        let outcomes = [
            "done",
            "partial",
            "skipped",
            "bailed",
            "failed",
            "pass",
            "needs-fixes",
            "fail",
            "unknown",
        ];
        let mut open = vec![Vec::new()];
        let mut ended = 0;
        while let Some(past) = open.pop() {
            assert!(past.len() < 20, "{past:?}");
            match next(&past, Rework::default()) {
                WorkStep::Finish(_) => ended += 1,
                WorkStep::Perform(phase) => open.extend(outcomes.map(|outcome| {
                    let mut longer = past.clone();
                    longer.extend(history(&format!("{phase}:{outcome}")));
                    longer
                })),
            }
        }
        assert!(ended > 100, "{ended}");
    }
}
