//! Response bodies in the shape that GitHub publishes.

use serde_json::{Map, Value, json};

use super::repository::{Issue, Pull, REPOSITORY};

const MOMENT: &str = "2026-01-02T03:04:05Z";
/// URLs that every repository lists.
const PLACES: [&str; 39] = [
    "archive",
    "assignees",
    "blobs",
    "branches",
    "clone",
    "collaborators",
    "comments",
    "commits",
    "compare",
    "contents",
    "contributors",
    "deployments",
    "downloads",
    "events",
    "forks",
    "git",
    "git_commits",
    "git_refs",
    "git_tags",
    "hooks",
    "issue_comment",
    "issue_events",
    "issues",
    "keys",
    "labels",
    "languages",
    "merges",
    "milestones",
    "notifications",
    "pulls",
    "releases",
    "ssh",
    "stargazers",
    "statuses",
    "subscribers",
    "subscription",
    "svn",
    "tags",
    "teams",
];
const COUNTS: [&str; 10] = [
    "forks",
    "forks_count",
    "network_count",
    "open_issues",
    "open_issues_count",
    "size",
    "stargazers_count",
    "subscribers_count",
    "watchers",
    "watchers_count",
];
const SWITCHES: [&str; 8] = [
    "archived",
    "disabled",
    "fork",
    "has_discussions",
    "has_downloads",
    "has_pages",
    "has_projects",
    "has_wiki",
];

/// Bodies of one server's responses.
pub(super) struct Bodies {
    base: String,
}

/// Returns the body of an error response.
pub(super) fn refusal(message: &str) -> Value {
    json!({ "message": message, "documentation_url": "https://docs.github.com/rest" })
}

impl Bodies {
    pub(super) fn new(base: String) -> Self {
        Self { base }
    }

    /// Returns the URL of a place on the server.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns the API's URL of the repository.
    pub(super) fn repository_url(&self) -> String {
        format!("{}/repos/{REPOSITORY}", self.base)
    }

    fn user(&self, login: &str) -> Value {
        let mut user = object(json!({
            "login": login, "id": 1, "node_id": "U_1", "gravatar_id": "", "site_admin": false,
            "type": "User", "url": format!("{}/users/{login}", self.base),
        }));
        for place in [
            "avatar",
            "events",
            "followers",
            "following",
            "gists",
            "html",
            "organizations",
            "received_events",
            "repos",
            "starred",
            "subscriptions",
        ] {
            let url = format!("{}/users/{login}/{place}", self.base);
            user.insert(format!("{place}_url"), url.into());
        }
        user.into()
    }

    pub(super) fn repository(&self) -> Value {
        let (owner, name) = REPOSITORY.split_once('/').unwrap_or_default();
        let url = self.repository_url();
        let mut repository = object(json!({
            "id": 1, "node_id": "R_1", "name": name, "full_name": REPOSITORY,
            "owner": self.user(owner), "private": false, "description": null, "homepage": null,
            "language": null, "license": null, "mirror_url": null, "default_branch": "main",
            "has_issues": true, "url": url, "html_url": format!("{}/{REPOSITORY}", self.base),
            "created_at": MOMENT, "updated_at": MOMENT, "pushed_at": MOMENT,
        }));
        for place in PLACES {
            repository.insert(format!("{place}_url"), format!("{url}/{place}").into());
        }
        repository.insert("trees_url".to_owned(), format!("{url}/trees").into());
        let counts = COUNTS.map(|name| (name.to_owned(), 0.into()));
        let switches = SWITCHES.map(|name| (name.to_owned(), false.into()));
        repository.extend(counts.into_iter().chain(switches));
        repository.into()
    }

    pub(super) fn label(&self, name: &str) -> Value {
        json!({
            "id": 1, "node_id": "L_1", "name": name, "description": null, "color": "ededed",
            "default": false, "url": format!("{}/labels/x", self.repository_url()),
        })
    }

    pub(super) fn labels(&self, names: &[String]) -> Value {
        names.iter().map(|name| self.label(name)).collect()
    }

    pub(super) fn issue(&self, number: u64, issue: &Issue) -> Value {
        let url = format!("{}/issues/{number}", self.repository_url());
        let mut value = object(json!({
            "id": number, "node_id": "I_1", "number": number, "title": issue.title,
            "body": issue.body, "labels": self.labels(&issue.labels), "locked": false,
            "state": if issue.is_closed { "closed" } else { "open" },
            "assignee": null, "assignees": [], "milestone": null,
            "closed_at": issue.is_closed.then_some(MOMENT), "comments": issue.comments.len(),
            "created_at": format!("2026-01-{:02}T03:04:05Z", number.clamp(1, 28)),
            "updated_at": MOMENT, "author_association": "NONE", "user": self.user("stranger"),
            "repository_url": self.repository_url(), "url": url,
            "html_url": format!("{}/{REPOSITORY}/issues/{number}", self.base),
        }));
        for place in ["comments", "events", "labels"] {
            value.insert(format!("{place}_url"), format!("{url}/{place}").into());
        }
        value.into()
    }

    pub(super) fn comment(&self, issue: u64, number: u64, text: &str) -> Value {
        let url = self.repository_url();
        json!({
            "id": number, "node_id": "C_1", "body": text, "user": self.user("octo"),
            "created_at": MOMENT, "updated_at": MOMENT, "author_association": "OWNER",
            "url": format!("{url}/issues/comments/{number}"),
            "issue_url": format!("{url}/issues/{issue}"),
            "html_url": format!("{}/{REPOSITORY}/issues/{issue}#c{number}", self.base),
        })
    }

    /// Returns a review that asks for changes.
    pub(super) fn review(&self, number: u64, by: &str, text: &str) -> Value {
        let url = self.repository_url();
        json!({
            "id": number, "node_id": "R_1", "body": text, "user": self.user(by),
            "state": "CHANGES_REQUESTED", "submitted_at": MOMENT, "author_association": "NONE",
            "html_url": format!("{}/{REPOSITORY}/pull/1#r{number}", self.base),
            "pull_request_url": format!("{url}/pulls/1"), "commit_id": null,
            "_links": {
                "html": {"href": format!("{}/{REPOSITORY}/pull/1#r{number}", self.base)},
                "pull_request": {"href": format!("{url}/pulls/1")},
            },
        })
    }

    /// Returns what a user may do.
    pub(super) fn permission(&self, user: &str, permission: &str) -> Value {
        let mut user = self.user(user);
        user["role_name"] = permission.into();
        json!({ "permission": permission, "role_name": permission, "user": user })
    }

    /// Returns a pull request, in the short form of lists or with all fields.
    pub(super) fn pull(&self, number: u64, pull: &Pull, is_whole: bool) -> Value {
        let url = format!("{}/pulls/{number}", self.repository_url());
        let side = |branch: &str| {
            json!({
                "label": format!("octo:{branch}"), "ref": branch, "sha": "0".repeat(40),
                "repo": self.repository(), "user": self.user("octo"),
            })
        };
        let link = |place: &str| json!({ "href": format!("{url}/{place}") });
        let links: Map<_, _> = [
            "comments",
            "commits",
            "statuses",
            "html",
            "issue",
            "review_comments",
            "review_comment",
            "self",
        ]
        .map(|place| (place.to_owned(), link(place)))
        .into_iter()
        .collect();
        let mut value = object(json!({
            "id": number, "node_id": "P_1", "number": number, "title": pull.title,
            "body": pull.body, "state": "open", "locked": false, "labels": [], "assignee": null,
            "milestone": null, "closed_at": null, "merged_at": null, "merge_commit_sha": null,
            "created_at": MOMENT, "updated_at": MOMENT, "author_association": "OWNER",
            "auto_merge": null, "user": self.user("octo"), "head": side(&pull.head),
            "base": side(&pull.base), "_links": links, "url": url,
            "html_url": format!("{}/{REPOSITORY}/pull/{number}", self.base),
        }));
        for place in [
            "comments",
            "commits",
            "diff",
            "issue",
            "patch",
            "review_comment",
            "review_comments",
            "statuses",
        ] {
            value.insert(format!("{place}_url"), format!("{url}/{place}").into());
        }
        if is_whole {
            value.extend(object(json!({
                "additions": 1, "changed_files": 1, "comments": 0, "commits": 1, "deletions": 1,
                "mergeable": null, "mergeable_state": "unknown", "merged": false, "merged_by": null,
                "maintainer_can_modify": false, "review_comments": 0,
            })));
        }
        value.into()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
