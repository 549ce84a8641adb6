//! State of the work on an issue, saved in `o/work/state.json` after each phase.

use std::collections::BTreeMap;

use ah_conversation::Verification;
use serde::{Deserialize, Serialize};

use crate::issue::Issue;
use crate::phase::{Phase, PhaseOutcome, Rework, WorkStatus};

/// Work on one issue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Repository, as `OWNER/NAME`.
    pub repository: String,
    /// Issue, as last read.
    pub issue: Issue,
    /// Base branch of the pull request.
    pub base: String,
    /// Commit of the base branch that the work starts from.
    pub base_commit: String,
    /// Commit of the branch on the remote when the work began, if there was one: the work goes on from there.
    #[serde(default)]
    pub start_commit: String,
    /// Later commits of the base that were merged into the branch, oldest first.
    #[serde(default)]
    pub merged: Vec<String>,
    /// Branch with the commits.
    pub branch: String,
    /// Last known commit of the branch on the remote; empty if there is none.
    #[serde(default)]
    pub remote_commit: String,
    /// Identifier of this work in the claim on its issue.
    #[serde(default)]
    pub holder: String,
    /// Commit of the claim at the remote; empty if there is none.
    #[serde(default)]
    pub claim: String,
    /// Whether the issue was waiting when it was taken: if it is given back, it waits again.
    #[serde(default)]
    pub was_waiting: bool,
    /// Response to a review that asks for more.
    #[serde(rename = "mending")]
    pub rework: Rework,
    /// Start time.
    pub started_at: String,
    /// Finished phases, in order.
    pub runs: Vec<PhaseRun>,
    /// Final status, set after it has been reported on the issue.
    #[serde(default)]
    pub concluded: Option<WorkStatus>,
}

/// Finished phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRun {
    /// Phase.
    pub phase: Phase,
    /// Result.
    pub outcome: PhaseOutcome,
    /// Reason for the result.
    #[serde(default)]
    pub note: String,
    /// Files that it read.
    #[serde(default)]
    pub reads: Hashes,
    /// Files that it wrote.
    #[serde(default)]
    pub wrote: Hashes,
    /// What the check of its agent has shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// What its agent has used.
    #[serde(default)]
    pub usage: Option<PhaseUsage>,
    /// Start time.
    pub started_at: String,
    /// End time.
    pub ended_at: String,
}

/// Tokens and cost of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseUsage {
    /// Tokens, of input and output.
    pub tokens: u64,
    /// Cost in US dollars, if the price of the model is known.
    pub cost_usd: Option<f64>,
}

impl PhaseUsage {
    /// Returns the sum; its cost is known if all are.
    pub fn total(runs: &[PhaseRun]) -> Option<Self> {
        let used = runs.iter().filter_map(|run| run.usage);
        used.reduce(|sum, one| Self {
            tokens: sum.tokens + one.tokens,
            cost_usd: sum.cost_usd.zip(one.cost_usd).map(|(a, b)| a + b),
        })
    }

    /// Returns both in words: `$0.12, 4000 tokens`.
    pub fn words(&self) -> String {
        let cost = self.cost_usd.map(|cost| format!("${cost:.2}, "));
        format!("{}{} tokens", cost.unwrap_or_default(), self.tokens)
    }
}

impl PhaseRun {
    /// Returns whether it has pushed the agents' commits.
    pub fn is_pushed(&self) -> bool {
        let is_there = matches!(self.outcome, PhaseOutcome::Done | PhaseOutcome::Conflicts);
        self.phase == Phase::Push && is_there
    }
}

/// SHA-256 hashes of files, by path below `o/work`.
pub type Hashes = BTreeMap<String, String>;

impl Journal {
    /// Returns the phases and their outcomes, for [`crate::phase::next`].
    pub fn history(&self) -> Vec<(Phase, PhaseOutcome)> {
        self.runs
            .iter()
            .map(|run| (run.phase, run.outcome))
            .collect()
    }

    /// Returns what a check of the files has shown, if there was one since they changed last.
    pub fn check(&self) -> Option<String> {
        let changes = |run: &&PhaseRun| matches!(run.phase, Phase::Do | Phase::Fix | Phase::Merge);
        let last = self.runs.iter().rfind(changes)?;
        last.verification.as_ref().map(Verification::line)
    }

    /// Returns the commit that the agents' commits follow: that of the branch if it existed, else of the base.
    pub fn start(&self) -> &str {
        match self.start_commit.as_str() {
            "" => &self.base_commit,
            commit => commit,
        }
    }

    /// Returns the newest commit of the base that the branch has: the one that the work began with, or a later one.
    pub fn merged_base(&self) -> &str {
        self.merged.last().unwrap_or(&self.base_commit)
    }

    /// Returns whether the names in it are commits and a branch. A journal from the remote may have been written by
    /// anybody who can push, and git would take other names for options.
    pub fn has_plain_names(&self) -> bool {
        let is_commit = |name: &str| {
            matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_branch = |name: &str| {
            let is_plain = |c: char| c.is_alphanumeric() || "-_./+#".contains(c);
            name.starts_with(char::is_alphanumeric)
                && name.chars().all(is_plain)
                && !name.contains("..")
        };
        let optional = [&self.start_commit, &self.remote_commit];
        is_commit(&self.base_commit)
            && self.merged.iter().all(|name| is_commit(name))
            && optional
                .iter()
                .all(|name| name.is_empty() || is_commit(name))
            && is_branch(&self.base)
    }

    /// Returns the commit at the remote, if nothing was changed since it was pushed.
    pub fn pushed(&self) -> Option<&str> {
        let last = self.runs.iter().rfind(|run| {
            matches!(
                run.phase,
                Phase::Do | Phase::Fix | Phase::Merge | Phase::Push
            )
        })?;
        let is_pushed = last.is_pushed();
        (is_pushed && !self.remote_commit.is_empty()).then_some(self.remote_commit.as_str())
    }

    /// Returns the latest run of a phase.
    pub fn last(&self, phase: Phase) -> Option<&PhaseRun> {
        self.runs.iter().rfind(|run| run.phase == phase)
    }
}

/// Returns how many of `runs` are still valid: those before the first that read a file whose content has changed since.
/// A file overwritten by a later phase does not count as changed.
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
            verification: None,
            usage: None,
            started_at: String::new(),
            ended_at: String::new(),
        }
    }

    fn journal(runs: Vec<PhaseRun>) -> Journal {
        Journal {
            repository: String::new(),
            issue: Issue::default(),
            base: "main".to_owned(),
            base_commit: String::new(),
            start_commit: String::new(),
            merged: Vec::new(),
            branch: "work/7".to_owned(),
            remote_commit: String::new(),
            holder: String::new(),
            claim: String::new(),
            was_waiting: false,
            rework: Rework::default(),
            started_at: String::new(),
            runs,
            concluded: None,
        }
    }

    #[test]
    fn a_check_says_nothing_of_later_changes() {
        use Phase::{Check, Do, Fix, Merge, Push};
        for (phases, expected) in [
            (&[][..], false),
            (&[(Do, true), (Push, false), (Check, false)], true),
            (&[(Do, true), (Merge, false)], false),
            (&[(Do, true), (Fix, false)], false),
            (&[(Do, false), (Fix, true)], true),
        ] {
            let runs = phases.iter().map(|&(phase, is_checked)| PhaseRun {
                verification: is_checked.then(|| Verification::not_tried("make", 1)),
                ..run(phase, "", "")
            });
            let check = journal(runs.collect()).check();
            assert_eq!(check.is_some(), expected, "{phases:?}");
        }
    }

    #[test]
    fn names_that_git_takes_for_options_are_refused() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (base, base_commit, start_commit, expected) in [
            ("main", commit, "", true),
            ("release/1.x", commit, commit, true),
            ("--upload-pack=x", commit, "", false),
            ("a..b", commit, "", false),
            ("", commit, "", false),
            ("main", "", "", false),
            ("main", "--upload-pack=x", "", false),
            ("main", commit, "--upload-pack=x", false),
            ("main", commit, "HEAD", false),
        ] {
            let journal = Journal {
                base: base.to_owned(),
                base_commit: base_commit.to_owned(),
                start_commit: start_commit.to_owned(),
                ..journal(Vec::new())
            };
            assert_eq!(
                journal.has_plain_names(),
                expected,
                "{base} {base_commit} {start_commit}"
            );
        }
    }

    #[test]
    fn a_phase_is_valid_until_a_file_that_it_read_changes() {
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
