//! Outcomes of the conformance suites' tests, compared with the list of those that cannot pass yet.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Tests that cannot pass yet, each with its reason.
#[derive(Debug, Default)]
pub struct Expected(BTreeMap<String, String>);

/// Outcome of each test by name.
#[derive(Debug, Default)]
pub struct Outcomes(BTreeMap<String, Outcome>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Skipped by itself.
    Skipped,
}

/// Outcomes compared with the list.
#[derive(Debug, Default)]
pub struct Judgement {
    passed: usize,
    skipped: Vec<String>,
    /// Expected failures by reason.
    expected: BTreeMap<String, Vec<String>>,
    failed: Vec<String>,
    passed_though_listed: Vec<String>,
    /// Listed tests that did not run.
    unknown: Vec<String>,
}

impl Expected {
    /// Reads a list: a name and a reason per line; lines with `#` are comments.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut listed = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line
                .split_once(char::is_whitespace)
                .with_context(|| format!("`{line}` has no reason"))?;
            let reason = reason.trim().to_owned();
            if listed.insert(name.to_owned(), reason).is_some() {
                bail!("`{name}` is listed twice");
            }
        }
        Ok(Self(listed))
    }
}

impl Outcomes {
    /// Reads a line of pytest's output.
    pub fn read_pytest(&mut self, line: &str) {
        let Some((word, rest)) = line.split_once(' ') else {
            return;
        };
        let outcome = match word {
            "PASSED" => Outcome::Passed,
            "FAILED" | "ERROR" => Outcome::Failed,
            "SKIPPED" => Outcome::Skipped,
            _ => return,
        };
        let name = rest.split(" - ").next().unwrap_or(rest);
        // Log lines begin with the same words but name no test.
        if outcome == Outcome::Skipped || name.contains(".py::") {
            self.note(name, outcome);
        }
    }

    /// Reads a line of the output of the TypeScript runner.
    pub fn read_node(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("ok   ") {
            let name = rest.split(" (").next().unwrap_or(rest);
            self.note(&format!("typescript::{name}"), Outcome::Passed);
        } else if let Some(rest) = line.strip_prefix("FAIL ") {
            let name = rest.split(": ").next().unwrap_or(rest);
            self.note(&format!("typescript::{name}"), Outcome::Failed);
        }
    }

    /// Records an outcome. A failure wins: a test that passed may still fail in its teardown.
    fn note(&mut self, name: &str, outcome: Outcome) {
        let noted = self.0.entry(name.to_owned()).or_insert(outcome);
        if outcome == Outcome::Failed {
            *noted = outcome;
        }
    }

    /// Compares the outcomes with the list.
    pub fn judge(&self, listed: &Expected) -> Judgement {
        let mut judgement = Judgement::default();
        for (name, outcome) in &self.0 {
            let name = name.clone();
            match (outcome, listed.0.get(&name)) {
                (Outcome::Passed, None) => judgement.passed += 1,
                (Outcome::Passed, Some(_)) => judgement.passed_though_listed.push(name),
                (Outcome::Failed, None) => judgement.failed.push(name),
                (Outcome::Failed, Some(reason)) => {
                    let group = judgement.expected.entry(reason.clone()).or_default();
                    group.push(name);
                }
                (Outcome::Skipped, _) => judgement.skipped.push(name),
            }
        }
        let did_not_run = |name: &&String| !self.0.contains_key(*name);
        judgement.unknown = listed.0.keys().filter(did_not_run).cloned().collect();
        judgement
    }
}

impl Judgement {
    /// Checks that all tests passed except those listed.
    ///
    /// # Errors
    /// Names the first kind of violation and the number of tests.
    pub fn verdict(&self) -> Result<()> {
        if self.passed == 0 {
            bail!("no test of the conformance suites passed");
        }
        for (names, fault) in [
            (&self.failed, "failed"),
            (
                &self.passed_though_listed,
                "passed though listed; remove them from the list",
            ),
            (&self.unknown, "are listed but did not run"),
            (&self.skipped, "skipped"),
        ] {
            if !names.is_empty() {
                bail!("{} of the conformance suites {fault}", names.len());
            }
        }
        Ok(())
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.expected.iter();
        let mut groups: Vec<(&str, &[String])> = groups
            .map(|(reason, names)| (reason.as_str(), names.as_slice()))
            .collect();
        let cannot_yet: usize = groups.iter().map(|(_, names)| names.len()).sum();
        write!(
            f,
            "sdk conformance: {} passed, {cannot_yet} cannot pass yet, {} failed",
            self.passed,
            self.failed.len(),
        )?;
        groups.extend([
            ("failed", self.failed.as_slice()),
            ("passed though listed", self.passed_though_listed.as_slice()),
            ("are listed but did not run", self.unknown.as_slice()),
            ("skipped", self.skipped.as_slice()),
        ]);
        for (title, names) in groups {
            if !names.is_empty() {
                write!(f, "\n  {title}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
# A comment.
a.py::later   sessions and transcripts
a.py::gone    sessions and transcripts
typescript::later   structured output
";

    fn outcomes(lines: &[&str]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for line in lines {
            outcomes.read_pytest(line);
            outcomes.read_node(line);
        }
        outcomes
    }

    #[test]
    fn listed_tests_may_fail_and_must_not_pass() {
        let listed = Expected::parse(LISTED).unwrap();
        let judged = |lines: &[&str]| {
            let judgement = outcomes(lines).judge(&listed);
            let verdict = judgement.verdict().map_err(|error| error.to_string());
            (judgement.to_string(), verdict)
        };
        let fine = [
            "PASSED a.py::now[x]",
            "ERROR    asyncio:base_events.py:1771 of a log",
            "FAILED a.py::later - AssertionError: no - such - thing",
            "FAILED a.py::gone",
            "ok   now (12 ms)",
            "FAIL later: Error: timed out",
        ];
        let (text, verdict) = judged(&fine);
        insta::assert_snapshot!(text, @"
        sdk conformance: 2 passed, 3 cannot pass yet, 0 failed
          sessions and transcripts: a.py::gone, a.py::later
          structured output: typescript::later
        ");
        assert_eq!(verdict, Ok(()));

        for (instead_of, line, verdict) in [
            (
                0,
                "FAILED a.py::now[x] - no",
                "1 of the conformance suites failed",
            ),
            (
                0,
                "ERROR a.py::now[x] - no",
                "1 of the conformance suites failed",
            ),
            (
                0,
                "SKIPPED [1] a.py:12: no",
                "1 of the conformance suites skipped",
            ),
            (
                2,
                "PASSED a.py::later",
                "1 of the conformance suites passed though listed; remove them from the list",
            ),
            (
                3,
                "",
                "1 of the conformance suites are listed but did not run",
            ),
        ] {
            let mut lines = fine;
            lines[instead_of] = line;
            assert_eq!(judged(&lines).1, Err(verdict.to_owned()), "{line}");
        }
        assert!(judged(&[]).1.is_err());
    }

    #[test]
    fn a_list_has_each_test_once_and_with_a_reason() {
        for text in ["a.py::x", "a.py::x one\na.py::x two"] {
            assert!(Expected::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_test_that_fails_after_it_passed_has_failed() {
        let outcomes = outcomes(&["ERROR a.py::now - teardown", "PASSED a.py::now"]);
        assert!(outcomes.judge(&Expected::default()).verdict().is_err());
        assert_eq!(outcomes.0["a.py::now"], Outcome::Failed);
    }
}
