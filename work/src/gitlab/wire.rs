//! GitLab's JSON, as far as it is used.

use serde::Deserialize;

use crate::hub::{self, OpenPull};

/// State of a reviewer who asks for changes.
const ASKS: &str = "requested_changes";

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    iid: u64,
    title: String,
    description: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    web_url: String,
    #[serde(default)]
    state: String,
}

impl From<Issue> for crate::issue::Issue {
    fn from(issue: Issue) -> Self {
        Self {
            number: issue.iid,
            title: issue.title,
            body: issue.description.unwrap_or_default(),
            labels: issue.labels,
            created_at: issue.created_at,
            url: issue.web_url,
            is_closed: issue.state == "closed",
        }
    }
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

/// Comment, or what GitLab itself says about a change.
#[derive(Debug, Deserialize)]
pub(super) struct Note {
    #[serde(default)]
    body: String,
    author: Option<User>,
    #[serde(default)]
    pub system: bool,
    #[serde(default)]
    created_at: String,
    position: Option<Position>,
}

#[derive(Debug, Deserialize)]
struct Position {
    new_path: Option<String>,
    new_line: Option<u64>,
}

impl From<Note> for hub::Comment {
    fn from(note: Note) -> Self {
        let place = note.position.and_then(|place| {
            let line = place.new_line.map(|line| format!(":{line}"));
            Some(place.new_path? + &line.unwrap_or_default())
        });
        Self {
            by: note.author.map(|user| user.username).unwrap_or_default(),
            body: note.body,
            at: note.created_at,
            about: place.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct MergeRequest {
    pub iid: u64,
    web_url: String,
}

impl From<MergeRequest> for OpenPull {
    fn from(request: MergeRequest) -> Self {
        Self {
            url: request.web_url,
            note: None,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Reviewer {
    user: User,
    #[serde(default)]
    state: String,
}

impl Reviewer {
    /// Returns whether the reviewer has asked for changes.
    pub(super) fn asks(&self) -> bool {
        self.state == ASKS
    }
}

/// State of a merge request after a push.
#[derive(Debug, Deserialize)]
pub(super) struct Version {
    created_at: String,
}

/// Returns the reviewers who have asked for changes since the last push. When they did stands in a note only.
pub(super) fn asking(reviewers: &[Reviewer], notes: &[Note], pushes: &[Version]) -> Vec<String> {
    let pushed = pushes.iter().map(|push| push.created_at.as_str()).max();
    let asked_since = |name: &str| {
        notes.iter().any(|note| {
            let is_by = note
                .author
                .as_ref()
                .is_some_and(|user| user.username == name);
            let is_it = note.system && note.body.starts_with("requested changes");
            is_it && is_by && Some(note.created_at.as_str()) > pushed
        })
    };
    let asking = reviewers.iter().filter(|reviewer| reviewer.asks());
    let names = asking.map(|reviewer| reviewer.user.username.clone());
    names.filter(|name| asked_since(name)).collect()
}

#[derive(Debug, Deserialize)]
pub(super) struct Member {
    pub username: String,
    pub access_level: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Project {
    pub default_branch: Option<String>,
    permissions: Option<Permissions>,
}

#[derive(Debug, Deserialize)]
struct Permissions {
    project_access: Option<Access>,
    group_access: Option<Access>,
}

#[derive(Debug, Deserialize)]
struct Access {
    access_level: u64,
}

impl Project {
    /// Returns the level of access that the owner of the token has; the highest one if that is not known.
    pub(super) fn level(&self) -> u64 {
        let Some(permissions) = &self.permissions else {
            return u64::MAX;
        };
        let both = [&permissions.project_access, &permissions.group_access];
        let levels = both.into_iter().flatten().map(|access| access.access_level);
        levels.max().unwrap_or(u64::MAX)
    }
}

/// Protection of the branches whose names fit a pattern.
#[derive(Debug, Deserialize)]
pub(super) struct Protected {
    pub name: String,
    #[serde(default)]
    push_access_levels: Vec<Level>,
}

#[derive(Debug, Deserialize)]
struct Level {
    access_level: Option<u64>,
    user_id: Option<u64>,
    group_id: Option<u64>,
}

impl Protected {
    /// Returns whether somebody with this level may push, as far as that can be told; level 0 is nobody.
    pub(super) fn allows(&self, own: u64) -> bool {
        self.push_access_levels.iter().any(|level| {
            let is_named = level.user_id.is_some() || level.group_id.is_some();
            let reaches = |needed: u64| needed > 0 && own >= needed;
            is_named || level.access_level.is_some_and(reaches)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn changes_count_as_asked_for_until_the_next_push() {
        let note = |by: &str, at: &str, system: bool| {
            json!({
                "author": {"username": by}, "created_at": at, "system": system,
                "body": "requested changes",
            })
        };
        let reviewer = |by: &str, state: &str| json!({"user": {"username": by}, "state": state});
        let asks = |by: &str| reviewer(by, "requested_changes");
        for (reviewers, notes, expected) in [
            (asks("ada"), note("ada", "2026-01-03", true), "ada"),
            (asks("ada"), note("ada", "2026-01-01", true), ""),
            (asks("ada"), note("ada", "2026-01-03", false), ""),
            (asks("ada"), note("bob", "2026-01-03", true), ""),
            (
                reviewer("ada", "approved"),
                note("ada", "2026-01-03", true),
                "",
            ),
        ] {
            let read = |value: Value| from_value(json!([value])).unwrap();
            let pushes: Vec<Version> =
                from_value(json!([{"created_at": "2026-01-02"}, {"created_at": "2026-01-01"}]))
                    .unwrap();
            let reviewers: Vec<Reviewer> = read(reviewers);
            let notes: Vec<Note> = from_value(json!([notes])).unwrap();
            assert_eq!(asking(&reviewers, &notes, &pushes).join(" "), expected);
        }
    }

    #[test]
    fn a_protected_branch_names_who_may_push() {
        for (levels, own, expected) in [
            (json!([{"access_level": 0}]), 50, false),
            (json!([{"access_level": 40}]), 30, false),
            (json!([{"access_level": 40}]), 40, true),
            (
                json!([{"access_level": 40}, {"access_level": 30}]),
                30,
                true,
            ),
            (json!([{"access_level": null, "user_id": 3}]), 30, true),
            (json!([]), 50, false),
        ] {
            let rule = json!({"name": "*", "push_access_levels": levels});
            let rule: Protected = from_value(rule).unwrap();
            assert_eq!(rule.allows(own), expected, "{rule:?}");
        }
    }
}
