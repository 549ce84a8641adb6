//! Results of tasks, as a table and as JSON.

use std::fmt::Write as _;

use ah_conversation::Evidence;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use ah_terminal::print::shown;

/// How a task ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Its check passed; without a check, the run ended without an error.
    Solved,
    /// Its check failed.
    Failed,
    /// It could not be run: its setup failed, or there is no sandbox. It is tried again with the next bench.
    #[default]
    Broken,
}

/// Result of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskResult {
    /// Name of its folder.
    pub task: String,
    pub verdict: Verdict,
    /// Verdict before a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Verdict>,
    /// Why the run ended early, or the task could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the check of the run (`--until`) has shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Whether that is as recorded, and was not checked again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_recorded: bool,
    pub turns: u64,
    /// In US dollars.
    pub cost: f64,
    /// Of all requests, cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Time that the run took.
    pub seconds: f64,
    /// Options of the run.
    pub options: Vec<String>,
}

/// Results of all tasks.
pub(super) struct Report(Vec<TaskResult>);

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Failed => "failed",
            Self::Broken => "broken",
        }
    }
}

impl TaskResult {
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the result in one line, and where a replay differs.
    pub fn line(&self) -> String {
        let changed = self.former.filter(|former| *former != self.verdict);
        let former = changed.map(|former| format!(" (was {})", former.word()));
        let error = self.error.as_deref().map(|error| {
            // Where a replay differs is told whole.
            let first = error.lines().next().unwrap_or_default();
            let told = if self.former.is_some() { error } else { first };
            format!(": {told}")
        });
        shown(&format!(
            "{} {}{}{}",
            self.task,
            self.verdict.word(),
            former.unwrap_or_default(),
            error.unwrap_or_default()
        ))
        .into_owned()
    }

    /// Whether the task is solved, or a replay has gone as before.
    fn is_good(&self) -> bool {
        match self.former {
            Some(former) => former == self.verdict && self.error.is_none(),
            None => self.verdict == Verdict::Solved,
        }
    }
}

impl Report {
    pub fn of(mut results: Vec<TaskResult>) -> Self {
        results.sort_by(|a, b| a.task.cmp(&b.task));
        Self(results)
    }

    pub fn is_good(&self) -> bool {
        self.0.iter().all(TaskResult::is_good)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "solved": self.solved(),
            "tasks": self.0.iter().map(TaskResult::to_json).collect::<Vec<_>>(),
            "cost": self.cost(),
        })
    }

    /// Returns a table, and the sums.
    pub fn to_text(&self) -> String {
        let widest = self.0.iter().map(|result| result.task.chars().count());
        let width = widest.max().unwrap_or(0).max("task".len());
        // There is no such column for runs without a check.
        let is_checked = self.0.iter().any(|result| result.evidence.is_some());
        let head = if is_checked { "  evidence" } else { "" };
        let mut text = format!(
            "{:width$}  {:7}  {:>5}  {:>8}  {:>8}{head}\n",
            "task", "verdict", "turns", "cost", "time"
        );
        for result in &self.0 {
            let recorded = if result.is_recorded {
                " (recorded)"
            } else {
                ""
            };
            let evidence = result
                .evidence
                .map(|evidence| format!("  {}{recorded}", evidence.word()));
            let evidence = evidence.unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:width$}  {:7}  {:>5}  {:>8}  {:>8}{evidence}",
                shown(&result.task),
                result.verdict.word(),
                result.turns,
                format!("${:.4}", result.cost),
                format!("{:.1}s", result.seconds),
            );
        }
        let (solved, count) = (self.solved(), self.0.len());
        let _ = writeln!(text, "{solved} of {count} solved, ${:.4}", self.cost());
        text
    }

    fn solved(&self) -> usize {
        let is_solved = |result: &&TaskResult| result.verdict == Verdict::Solved;
        self.0.iter().filter(is_solved).count()
    }

    fn cost(&self) -> f64 {
        // Not `sum`, which is -0 of none.
        self.0.iter().fold(0.0, |sum, result| sum + result.cost)
    }
}
