//! GitHub's JSON, as far as it is used.

use serde::Deserialize;
use serde_json::Value;

use crate::hub::last_asking;

/// Issue. Lists of issues contain pull requests too.
#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    state: String,
    /// Present for pull requests.
    pub pull_request: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Label {
    Name(String),
    Whole { name: Option<String> },
}

impl From<Issue> for crate::issue::Issue {
    fn from(issue: Issue) -> Self {
        let name = |label| match label {
            Label::Name(name) => Some(name),
            Label::Whole { name } => name,
        };
        Self {
            number: issue.number,
            title: issue.title,
            body: issue.body.unwrap_or_default(),
            labels: issue.labels.into_iter().filter_map(name).collect(),
            created_at: issue.created_at,
            url: issue.html_url,
            is_closed: issue.state == "closed",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    body: Option<String>,
    user: Option<User>,
    created_at: Option<String>,
    /// Of a review.
    submitted_at: Option<String>,
    state: Option<String>,
    commit_id: Option<String>,
    /// Of a remark on a line.
    path: Option<String>,
    line: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub login: String,
}

impl From<Comment> for crate::hub::Comment {
    fn from(comment: Comment) -> Self {
        let line = comment.line.map(|line| format!(":{line}"));
        let place = comment.path.map(|path| path + &line.unwrap_or_default());
        let verdict = comment.state.map(|state| state.to_lowercase());
        Self {
            by: comment.user.map(|user| user.login).unwrap_or_default(),
            body: comment.body.unwrap_or_default(),
            at: comment
                .created_at
                .or(comment.submitted_at)
                .unwrap_or_default(),
            about: place.or(verdict).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Permission {
    pub permission: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub number: u64,
    pub html_url: String,
    pub head: Head,
    pub user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "ref")]
    pub name: String,
    #[serde(default)]
    pub sha: String,
}

/// Returns the users whose last review of this commit asks for changes.
pub(super) fn asking(reviews: &[Comment], commit: &str) -> Vec<String> {
    last_asking(reviews.iter().filter_map(|review| {
        let is_of_it = review.commit_id.as_deref() == Some(commit);
        let asks = match review.state.as_deref()? {
            "CHANGES_REQUESTED" => is_of_it,
            "APPROVED" | "DISMISSED" => false,
            _ => return None,
        };
        Some((review.user.as_ref()?.login.as_str(), asks))
    }))
}

/// Rule for a branch.
#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    #[serde(rename = "type")]
    kind: String,
    pub ruleset_id: Option<u64>,
    #[serde(default)]
    parameters: Value,
}

/// Set of rules.
#[derive(Debug, Deserialize)]
pub(super) struct Ruleset {
    pub current_user_can_bypass: Option<String>,
}

impl Rule {
    /// Returns why it refuses pushes of unsigned commits to a new branch of this name, if it does.
    pub(super) fn refusal(&self, branch: &str) -> Option<String> {
        let reason = match self.kind.as_str() {
            "creation" => "it may not be created",
            "update" => "it may not be updated",
            "pull_request" => "it changes by pull requests only",
            "required_signatures" => "its commits must be signed",
            "branch_name_pattern" if !self.fits(branch) => "its name does not fit the pattern",
            _ => return None,
        };
        Some(reason.to_owned())
    }

    /// Returns whether the branch fits the pattern for names; regular expressions are left to the hub.
    fn fits(&self, branch: &str) -> bool {
        let text = |name: &str| self.parameters[name].as_str().unwrap_or_default();
        let pattern = text("pattern");
        let fits = match text("operator") {
            "starts_with" => branch.starts_with(pattern),
            "ends_with" => branch.ends_with(pattern),
            "contains" => branch.contains(pattern),
            _ => return true,
        };
        fits != self.parameters["negate"].as_bool().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_refuse_what_the_hub_would_refuse() {
        let rule = |kind: &str, parameters: Value| Rule {
            kind: kind.to_owned(),
            ruleset_id: None,
            parameters,
        };
        let named = |operator: &str, pattern: &str, negate: bool| {
            let parameters =
                serde_json::json!({"operator": operator, "pattern": pattern, "negate": negate});
            rule("branch_name_pattern", parameters)
        };
        for (rule, expected) in [
            (rule("creation", Value::Null), true),
            (rule("pull_request", Value::Null), true),
            (rule("required_signatures", Value::Null), true),
            (rule("non_fast_forward", Value::Null), false),
            (rule("something_new", Value::Null), false),
            (named("starts_with", "work/", false), false),
            (named("starts_with", "feature/", false), true),
            (named("contains", "work", true), true),
            (named("regex", "^x", false), false),
        ] {
            assert_eq!(rule.refusal("work/7").is_some(), expected, "{rule:?}");
        }
    }

    #[test]
    fn the_last_review_of_a_person_counts_and_only_for_its_commit() {
        let review = |text: &str| {
            let (user, rest) = text.split_once(' ').unwrap();
            let (state, commit) = rest.split_once(' ').unwrap();
            serde_json::json!({"user": {"login": user}, "state": state, "commit_id": commit})
        };
        for (reviews, expected) in [
            (&["a CHANGES_REQUESTED 1"] as &[_], ""),
            (&["a CHANGES_REQUESTED 2"], "a"),
            (&["a CHANGES_REQUESTED 2", "a COMMENTED 2"], "a"),
            (&["a CHANGES_REQUESTED 2", "a APPROVED 2"], ""),
            (&["a APPROVED 2", "b CHANGES_REQUESTED 2"], "b"),
            (&["a CHANGES_REQUESTED 2", "a DISMISSED 2"], ""),
        ] {
            let reviews = reviews
                .iter()
                .map(|text| serde_json::from_value(review(text)).unwrap());
            let reviews: Vec<Comment> = reviews.collect();
            assert_eq!(asking(&reviews, "2").join(" "), expected);
        }
    }
}
