//! What was done so far, in `o/work/state.json`: the whole state of the work on an issue, written after each phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::issue::Issue;
use crate::phase::{Phase, PhaseOutcome, Rework, WorkStatus};

/// The work on one issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The repository, as `OWNER/NAME`.
    pub repository: String,
    /// The issue as it was read last.
    pub issue: Issue,
    /// The branch that the pull request is for.
    pub base: String,
    /// Its commit that the work begins at.
    pub base_commit: String,
    /// The branch of the work.
    pub branch: String,
    /// Where the remote has the branch, as far as we know; empty where it has none.
    #[serde(default)]
    pub remote_commit: String,
    /// What is done when a review asks for more.
    #[serde(rename = "mending")]
    pub rework: Rework,
    /// When it began.
    pub started_at: String,
    /// The phases that were finished, in order.
    pub runs: Vec<PhaseRun>,
    /// How it ended, once labels and the last comment say so.
    #[serde(default)]
    pub concluded: Option<WorkStatus>,
}

/// A phase that was finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRun {
    /// Which.
    pub phase: Phase,
    /// How it came out.
    pub outcome: PhaseOutcome,
    /// In a sentence, why.
    #[serde(default)]
    pub note: String,
    /// The files that it read, each with the SHA-256 of what was in it.
    #[serde(default)]
    pub reads: Hashes,
    /// The files that it left, likewise.
    #[serde(default)]
    pub wrote: Hashes,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
}

/// Files below `o/work`, by path, each with the SHA-256 of what is in it.
pub type Hashes = BTreeMap<String, String>;

impl Journal {
    /// The phases so far, as [`crate::phase::next`] wants them.
    pub fn history(&self) -> Vec<(Phase, PhaseOutcome)> {
        self.runs
            .iter()
            .map(|run| (run.phase, run.outcome))
            .collect()
    }

    /// How the phase came out when it was done last.
    pub fn last(&self, phase: Phase) -> Option<&PhaseRun> {
        self.runs.iter().rfind(|run| run.phase == phase)
    }
}

/// How many of `runs` still count, given what is in the files now: those before the first that read a file which has
/// changed since. A file that another phase wrote meanwhile has not changed by that.
pub fn still_valid(runs: &[PhaseRun], now: &Hashes) -> usize {
    let mut valid = runs.len();
    let files = runs.iter().flat_map(|run| run.reads.keys());
    for file in files {
        let last_writer = runs.iter().rposition(|run| run.wrote.contains_key(file));
        let is_stale = |run: &PhaseRun| {
            let read = run.reads.get(file);
            read.is_some() && read != now.get(file)
        };
        let first_reader = match last_writer {
            Some(at) if runs[at].wrote.get(file) == now.get(file) => None,
            Some(at) => {
                let behind = runs[at + 1..].iter().position(is_stale);
                behind.map(|behind| at + 1 + behind)
            }
            None => runs.iter().position(is_stale),
        };
        valid = valid.min(first_reader.unwrap_or(runs.len()));
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(text: &str) -> Hashes {
        let pairs = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(file, hash)| (file.to_owned(), hash.to_owned()))
            .collect()
    }

    fn run(phase: Phase, reads: &str, wrote: &str) -> PhaseRun {
        PhaseRun {
            phase,
            outcome: PhaseOutcome::Done,
            note: String::new(),
            reads: hashes(reads),
            wrote: hashes(wrote),
            started_at: String::new(),
            ended_at: String::new(),
        }
    }

    #[test]
    fn a_phase_counts_until_something_that_it_read_changes() {
        let runs = [
            run(Phase::Plan, "issue=1", "plan=1"),
            run(Phase::Do, "plan=1", "do=1"),
            run(Phase::Push, "", ""),
            run(Phase::Check, "plan=1 do=1", "check=1"),
            run(Phase::Fix, "plan=1 check=1", "fix=1"),
            run(Phase::Check, "plan=1 do=1", "check=2"),
            run(Phase::Act, "check=2", ""),
        ];
        let unchanged = "issue=1 plan=1 do=1 check=2 fix=1";
        for (now, expected) in [
            (unchanged, 7),
            ("issue=2 plan=1 do=1 check=2 fix=1", 0),
            ("issue=1 plan=9 do=1 check=2 fix=1", 1),
            ("issue=1 do=1 check=2 fix=1", 1),
            ("issue=1 plan=1 do=9 check=2 fix=1", 3),
            ("issue=1 plan=1 do=1 check=9 fix=1", 6),
            ("issue=1 plan=1 do=1 check=2 fix=9", 7),
        ] {
            assert_eq!(still_valid(&runs, &hashes(now)), expected, "{now}");
        }
        assert_eq!(still_valid(&[], &hashes(unchanged)), 0);
    }
}
