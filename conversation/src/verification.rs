//! What is known about the work of a run that the engine checks (`--until`): checked and found good, said by the model
//! alone, or not looked at.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::MessageId;

/// What was known at the end of runs, by the last message of each.
pub type Verdicts = HashMap<MessageId, Verification>;

/// The state of a run's check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verification {
    /// The check: a command line.
    pub command: String,
    /// What it has shown.
    pub evidence: Evidence,
    /// Number of times that it ran.
    pub checks: usize,
    /// Number of times that it may still run.
    pub left: usize,
    /// How it ended, in a few words: `exit 1`, `timed out after 600 s`. `None` if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// File with its whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// The sealed files that the run has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedSeal>,
    /// Whether it is of a recorded run, whose check did not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_replayed: bool,
}

/// What a check has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// It passed, on the present tree, with the sealed files as they were at the beginning.
    Verified,
    /// The model ended its turn, and the check did not pass.
    Claimed,
    /// The run ended without it.
    NotTried,
}

impl Evidence {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::NotTried => "not tried",
        }
    }
}

/// A sealed file that differs from what it was at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSeal {
    /// Its path, relative to the project.
    pub path: PathBuf,
    /// The difference as a unified diff; `None` if it is no text, or too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl Verification {
    /// Returns it as a part of a recorded message, in JSON.
    pub fn replayed(&self) -> serde_json::Value {
        serde_json::to_value(self.recorded()).unwrap_or_default()
    }

    fn recorded(&self) -> Self {
        Self {
            is_replayed: true,
            ..self.clone()
        }
    }

    /// Returns the state of a check that has not run yet, and may run so often.
    pub fn not_tried(command: &str, most: usize) -> Self {
        Self {
            command: command.to_owned(),
            evidence: Evidence::NotTried,
            checks: 0,
            left: most,
            ending: None,
            exit_code: None,
            duration_ms: 0,
            output: None,
            changed: Vec::new(),
            is_replayed: false,
        }
    }

    /// Returns the last line of a run that is shown again. The check does not run for that.
    pub fn replayed_line(&self) -> String {
        self.recorded().line()
    }

    /// Returns the last line of a run: ``verified: `make test` passed in 2.1 s (exit 0), output in PATH``. That of a recorded run
    /// says so.
    pub fn line(&self) -> String {
        let command = &self.command;
        let took = format!(
            "{}.{} s",
            self.duration_ms / 1_000,
            self.duration_ms % 1_000 / 100
        );
        let ending = self.ending.as_deref().unwrap_or("it did not run");
        let mut line = match self.evidence {
            Evidence::Verified => format!("verified: `{command}` passed in {took} ({ending})"),
            Evidence::Claimed => {
                format!("claimed, but `{command}` did not pass: {ending}, in {took}")
            }
            Evidence::NotTried if self.checks > 0 => {
                format!("not tried: `{command}`, which did not pass before")
            }
            Evidence::NotTried => format!("not tried: `{command}`"),
        };
        if let Some(output) = &self.output {
            line.push_str(&format!(", output in {}", output.display()));
        }
        if !self.changed.is_empty() {
            let paths: Vec<_> = { self.changed.iter() }
                .map(|changed| changed.path.display().to_string())
                .collect();
            line.push_str(&format!("; changed by the run: {}", paths.join(", ")));
        }
        if self.is_replayed {
            line.push_str(" (as recorded; not checked again)");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_things_are_told_apart() {
        let tried = Verification {
            checks: 1,
            left: 9,
            ending: Some("exit 0".to_owned()),
            duration_ms: 2_149,
            output: Some("/o/check-1".into()),
            ..Verification::not_tried("make test", 10)
        };
        let with = |evidence| Verification {
            evidence,
            ..tried.clone()
        };
        let changed = Verification {
            ending: Some("exit 2".to_owned()),
            changed: vec![ChangedSeal {
                path: "tests/a.py".into(),
                diff: None,
            }],
            ..with(Evidence::Claimed)
        };
        for (verification, expected) in [
            (
                Verification::not_tried("make test", 10),
                "not tried: `make test`",
            ),
            (
                Verification {
                    checks: 2,
                    ..Verification::not_tried("make test", 8)
                },
                "not tried: `make test`, which did not pass before",
            ),
            (
                with(Evidence::Verified),
                "verified: `make test` passed in 2.1 s (exit 0), output in /o/check-1",
            ),
            (
                changed,
                "claimed, but `make test` did not pass: exit 2, in 2.1 s, output in /o/check-1; changed by the run: tests/a.py",
            ),
        ] {
            assert_eq!(verification.line(), expected);
            let replayed = format!("{expected} (as recorded; not checked again)");
            assert_eq!(verification.replayed_line(), replayed);
        }
    }
}
