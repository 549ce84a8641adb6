//! The differences between what two programs said, and which of them are allowed. Pure.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::shape::Shape;

/// A difference in a case, such as `result/success lacks usage.speed`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    pub(super) case: String,
    pub(super) text: String,
}

/// Returns the differences of `ours` to the original in a case.
pub(super) fn differences(case: &str, original: &[Shape], ours: &[Shape]) -> Vec<Difference> {
    let mut texts = Vec::new();
    for pair in aligned(original, ours) {
        match pair {
            (Some(original), Some(ours)) => texts.extend(of_pair(original, ours)),
            (Some(original), None) => texts.push(format!("no {}", original.kind)),
            (None, Some(ours)) => texts.push(format!("more {}", ours.kind)),
            (None, None) => {}
        }
    }
    texts.sort();
    texts.dedup();
    let difference = |text| Difference {
        case: case.to_owned(),
        text,
    };
    texts.into_iter().map(difference).collect()
}

/// Pairs the lines of the same kind, in order, so that as few as possible are left alone.
fn aligned<'a>(
    left: &'a [Shape],
    right: &'a [Shape],
) -> Vec<(Option<&'a Shape>, Option<&'a Shape>)> {
    // Length of the longest common sequence of what is behind each place.
    let mut longest = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for (i, one) in left.iter().enumerate().rev() {
        for (j, other) in right.iter().enumerate().rev() {
            longest[i][j] = match one.kind == other.kind {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < left.len() || j < right.len() {
        let (one, other) = (left.get(i), right.get(j));
        let is_pair = one
            .zip(other)
            .is_some_and(|(one, other)| one.kind == other.kind);
        let is_left = other.is_none() || one.is_some() && longest[i + 1][j] >= longest[i][j + 1];
        pairs.push(match (is_pair, is_left) {
            (true, _) => (one, other),
            (false, true) => (one, None),
            (false, false) => (None, other),
        });
        i += usize::from(is_pair || is_left);
        j += usize::from(is_pair || !is_left);
    }
    pairs
}

fn of_pair(original: &Shape, ours: &Shape) -> Vec<String> {
    let by_path = |shape: &Shape, other: &Shape| -> BTreeMap<String, String> {
        let only = shape.facts.difference(&other.facts);
        only.map(|fact| {
            let end = fact.find(['=', ':']).unwrap_or(fact.len());
            (
                fact[..end].to_owned(),
                fact[end..].trim_start_matches(['=', ':']).to_owned(),
            )
        })
        .collect()
    };
    let kind = &ours.kind;
    let mut there = by_path(ours, original);
    let mut texts = Vec::new();
    for (path, value) in by_path(original, ours) {
        texts.push(match there.remove(&path) {
            Some(other) => format!("{kind} {path}: {other}, not {value}"),
            None => format!("{kind} lacks {path}"),
        });
    }
    texts.extend(there.into_keys().map(|path| format!("{kind} adds {path}")));
    texts
}

/// The differences that stay.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Allowed {
    allowed: Vec<Entry>,
}

/// Differences with one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What differs.
    what: String,
    /// Why it stays so.
    why: String,
    /// Patterns, in which `*` stands for any text: `DIFFERENCE`, or `CASE: DIFFERENCE`.
    differences: Vec<String>,
}

impl Allowed {
    pub(super) fn read(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Checks that each difference is allowed, and that each pattern allows one.
    ///
    /// # Errors
    /// All that are not, and all patterns that allow none.
    pub(super) fn judge(&self, found: &[Difference]) -> Result<()> {
        let patterns = || self.allowed.iter().flat_map(|entry| &entry.differences);
        let is_met = |pattern: &String| found.iter().any(|difference| difference.is_like(pattern));
        let mut faults: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for difference in found {
            if !patterns().any(|pattern| difference.is_like(pattern)) {
                faults
                    .entry(&difference.text)
                    .or_default()
                    .push(&difference.case);
            }
        }
        let unused = patterns().filter(|pattern| !is_met(pattern));
        let lines = faults
            .iter()
            .map(|(text, cases)| format!("{text} ({})", cases.join(", ")));
        let lines: Vec<_> = lines
            .chain(unused.map(|pattern| format!("no difference is like `{pattern}`")))
            .collect();
        if !lines.is_empty() {
            bail!("other than the original:\n{}", lines.join("\n"));
        }
        Ok(())
    }

    /// Rows of the table for people: what differs, and why.
    pub(super) fn table(&self) -> String {
        let row = |entry: &Entry| format!("| {} | {} |\n", entry.what, entry.why);
        self.allowed.iter().map(row).collect()
    }
}

impl Difference {
    fn is_like(&self, pattern: &str) -> bool {
        is_like(pattern, &self.text) || is_like(pattern, &format!("{}: {}", self.case, self.text))
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    let Some((start, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    while let Some((middle, end)) = rest.split_once('*') {
        let Some(at) = text.find(middle) else {
            return false;
        };
        (text, rest) = (&text[at + middle.len()..], end);
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<Shape> {
        let shape = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            Shape {
                kind: words.next().unwrap_or_default(),
                facts: words.collect(),
            }
        };
        text.lines().map(shape).collect()
    }

    fn found(original: &str, ours: &str) -> Vec<Difference> {
        differences("text", &shapes(original), &shapes(ours))
    }

    #[test]
    fn lines_of_the_same_kind_are_compared() {
        let original = "init a:string b=1 c=2\nretry\nanswer\nresult";
        let ours = "init a:string b=2 d:string\nanswer\nanswer\nresult";
        let texts: Vec<_> = found(original, ours)
            .into_iter()
            .map(|it| it.text)
            .collect();
        assert_eq!(
            texts,
            [
                "init adds d",
                "init b: 2, not 1",
                "init lacks c",
                "more answer",
                "no retry"
            ]
        );
        assert!(found(original, original).is_empty());
    }

    #[test]
    fn each_difference_needs_a_pattern_and_each_pattern_a_difference() {
        let allowed = |patterns: &str| {
            Allowed::read(&format!(
                "[[allowed]]\nwhat = 'a'\nwhy = 'b'\ndifferences = {patterns}"
            ))
            .unwrap()
        };
        let found = found("init b=1", "init b=2");
        for (patterns, is_right) in [
            ("['init b: *']", true),
            ("['text: init b: 2, not 1']", true),
            ("['*b: *not*']", true),
            ("['other: init b: *']", false),
            ("[]", false),
            ("['init b: *', 'no retry']", false),
        ] {
            assert_eq!(
                allowed(patterns).judge(&found).is_ok(),
                is_right,
                "{patterns}"
            );
        }
        assert_eq!(allowed("[]").table(), "| a | b |\n");
    }
}
