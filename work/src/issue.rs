//! Issues: selection of the next one, and branch names. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Label of issues waiting to be worked on.
pub const TODO: &str = "todo";
/// Label of issues being worked on.
pub const DOING: &str = "doing";
/// Label of issues with a pull request.
pub const DONE: &str = "done";
/// Label of issues whose work failed.
pub const FAILED: &str = "failed";
/// Label of issues on which an agent reported friction.
pub const FRICTION: &str = "friction";
/// All labels: name, colour, description.
pub const LABELS: [(&str, &str, &str); 5] = [
    (TODO, "0e8a16", "ready to be worked on"),
    (DOING, "fbca04", "being worked on"),
    (DONE, "1d76db", "a pull request is open"),
    (FAILED, "b60205", "the work did not succeed"),
    (FRICTION, "d4c5f9", "the work was blocked"),
];

/// Issue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Issue number.
    pub number: u64,
    /// Title. Untrusted.
    pub title: String,
    /// Text. Untrusted.
    #[serde(default)]
    pub body: String,
    /// Names of its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Creation time as ISO 8601 in UTC, which sorts chronologically.
    #[serde(default)]
    pub created_at: String,
    /// URL.
    #[serde(default)]
    pub url: String,
    /// Whether it is closed.
    #[serde(default)]
    pub is_closed: bool,
}

impl Issue {
    /// Returns whether the issue has this label.
    pub fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }

    /// Returns the issue as given to agents.
    pub fn to_json(&self, branch: &str) -> Value {
        json!({
            "number": self.number,
            "title": self.title,
            "body": self.body,
            "url": self.url,
            "branch": branch,
        })
    }

    /// Returns the default branch for the issue.
    pub fn branch(&self) -> String {
        format!("work/{}", self.number)
    }

    /// Returns the branch named in `plan` (`Branch: NAME`) if it belongs to this issue, else the default. A plan is
    /// untrusted, because its agent read the issue, which may name another branch.
    pub fn branch_in(&self, plan: &str) -> String {
        let own = self.branch();
        let named = plan
            .lines()
            .find_map(|line| line.split_once("Branch:"))
            .map(|(_, name)| name.trim().trim_matches(['`', '*', ' ']));
        match named {
            Some(name) if is_branch_of(name, &own) => name.to_owned(),
            _ => own,
        }
    }
}

/// Returns whether `name` is `own`, or `own` with a suffix after a dash.
fn is_branch_of(name: &str, own: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match name.strip_prefix(own) {
        Some("") => true,
        Some(rest) => {
            rest.len() <= 60
                && rest.len() > 1
                && rest.starts_with('-')
                && rest.chars().all(is_plain)
        }
        None => false,
    }
}

/// Returns the most urgent waiting issue: by label p0, p1, p2, none, then the oldest.
pub fn choose(issues: &[Issue]) -> Option<&Issue> {
    let waiting = issues.iter().filter(|issue| issue.has(TODO));
    waiting.min_by_key(|issue| (priority(issue), &issue.created_at, issue.number))
}

fn priority(issue: &Issue) -> usize {
    let levels = ["p0", "p1", "p2"];
    let level = levels.iter().position(|level| issue.has(level));
    level.unwrap_or(levels.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_and_oldest_issue_is_chosen() {
        for (issues, expected) in [
            ("", None),
            ("1:doing 2:done 3:", None),
            ("3:todo 7:todo", Some(3)),
            ("3:todo 7:todo,p2", Some(7)),
            ("3:todo,p2 7:todo,p1 8:todo,p0", Some(8)),
            ("3:todo 7:p0 8:todo,p2,p1", Some(8)),
            ("9:todo,p1 4:todo,p1", Some(4)),
        ] {
            let issue = |word: &str| {
                let (number, labels) = word.split_once(':').unwrap();
                Issue {
                    number: number.parse().unwrap(),
                    labels: labels.split(',').map(str::to_owned).collect(),
                    created_at: format!("2026-01-{number:0>2}T00:00:00Z"),
                    ..Issue::default()
                }
            };
            let issues: Vec<_> = issues.split_whitespace().map(issue).collect();
            assert_eq!(
                choose(&issues).map(|issue| issue.number),
                expected,
                "{issues:?}"
            );
        }
    }

    #[test]
    fn a_plan_can_name_only_branches_of_its_issue() {
        let issue = Issue {
            number: 7,
            ..Issue::default()
        };
        for (plan, expected) in [
            ("", "work/7"),
            ("## Target\n- Branch: work/7-greeting\n", "work/7-greeting"),
            ("- **Branch:** `work/7-a_b`", "work/7-a_b"),
            ("Branch: work/7", "work/7"),
            ("Branch: main", "work/7"),
            ("Branch: work/77", "work/7"),
            ("Branch: work/8-other", "work/7"),
            ("Branch: work/7-", "work/7"),
            ("Branch: work/7-a b", "work/7"),
            ("Branch: work/7-../../x", "work/7"),
            ("Branch: work/7-x:refs/heads/main", "work/7"),
            ("Branch: --force", "work/7"),
        ] {
            assert_eq!(issue.branch_in(plan), expected, "{plan}");
        }
    }
}
