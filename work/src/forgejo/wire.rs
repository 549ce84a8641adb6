//! Forgejo's JSON, as far as it is used.

use serde::Deserialize;
use serde_json::Value;

use crate::hub::{self, OpenPull, last_asking};

#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub id: u64,
    pub name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    labels: Option<Vec<Label>>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    state: String,
    /// Not null for pull requests.
    pub pull_request: Option<Value>,
}

impl From<Issue> for crate::issue::Issue {
    fn from(issue: Issue) -> Self {
        let labels = issue.labels.into_iter().flatten();
        Self {
            number: issue.number,
            title: issue.title,
            body: issue.body.unwrap_or_default(),
            labels: labels.map(|label| label.name).collect(),
            created_at: issue.created_at,
            url: issue.html_url,
            is_closed: issue.state == "closed",
        }
    }
}

#[derive(Debug, Deserialize)]
struct User {
    login: String,
}

fn login(user: Option<User>) -> String {
    user.map(|user| user.login).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    body: String,
    user: Option<User>,
    #[serde(default)]
    created_at: String,
}

impl From<Comment> for hub::Comment {
    fn from(comment: Comment) -> Self {
        Self {
            by: login(comment.user),
            body: comment.body,
            at: comment.created_at,
            about: String::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    pub id: u64,
    #[serde(default)]
    body: String,
    user: Option<User>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    commit_id: String,
    #[serde(default)]
    dismissed: bool,
    #[serde(default)]
    submitted_at: String,
    #[serde(default)]
    pub comments_count: u64,
}

impl From<Review> for hub::Comment {
    fn from(review: Review) -> Self {
        Self {
            by: login(review.user),
            body: review.body,
            at: review.submitted_at,
            about: match review.state.as_str() {
                "REQUEST_CHANGES" => "changes_requested".to_owned(),
                state => state.to_lowercase(),
            },
        }
    }
}

/// Remark of a review on a line.
#[derive(Debug, Deserialize)]
pub(super) struct Remark {
    #[serde(default)]
    body: String,
    user: Option<User>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    position: u64,
}

impl From<Remark> for hub::Comment {
    fn from(remark: Remark) -> Self {
        Self {
            by: login(remark.user),
            body: remark.body,
            at: remark.created_at,
            about: format!("{}:{}", remark.path, remark.position),
        }
    }
}

/// Returns the users whose last review of this commit asks for changes.
pub(super) fn asking(reviews: &[Review], commit: &str) -> Vec<String> {
    last_asking(reviews.iter().filter_map(|review| {
        let asks = match review.state.as_str() {
            "REQUEST_CHANGES" => !review.dismissed && review.commit_id == commit,
            "APPROVED" => false,
            _ => return None,
        };
        Some((review.user.as_ref()?.login.as_str(), asks))
    }))
}

#[derive(Debug, Deserialize)]
pub(super) struct Permission {
    pub permission: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub number: u64,
    html_url: String,
    pub head: Head,
}

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "ref")]
    pub name: String,
    #[serde(default)]
    pub sha: String,
}

impl From<Pull> for OpenPull {
    fn from(pull: Pull) -> Self {
        Self {
            url: pull.html_url,
            note: None,
        }
    }
}

/// Protection of the branches whose names fit a pattern.
#[derive(Debug, Deserialize)]
pub(super) struct Protection {
    #[serde(default)]
    rule_name: String,
    #[serde(default)]
    branch_name: String,
    #[serde(default)]
    enable_push: bool,
    #[serde(default)]
    require_signed_commits: bool,
}

impl Protection {
    /// Returns the pattern, if pushes of unsigned commits are refused. Who may push nevertheless is left to the hub.
    pub(super) fn refusing(&self) -> Option<&str> {
        let name = match self.rule_name.as_str() {
            "" => &self.branch_name,
            name => name,
        };
        (!self.enable_push || self.require_signed_commits).then_some(name)
    }
}
