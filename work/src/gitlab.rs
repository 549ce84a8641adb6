//! GitLab as a hub: its merge requests are the pull requests of the others, its notes their comments.

mod wire;

use ah_http::Options;
use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::glob::fits;
use crate::hub::{Comment, Hub, HubError, NewPull, OpenPull};
use crate::issue::Issue;
use crate::rest::{Access, Manner, Patience, Repeat, Rest, escaped};

const MANNER: Manner = Manner {
    accept: "application/json",
    headers: &[],
    page: "per_page=100",
    place: |repository| format!("/projects/{}", escaped(repository)),
    login: "set GITLAB_TOKEN",
    permission: "the role Developer and the scope api",
};
/// Level of access from which a member may push.
const DEVELOPER: u64 = 30;

/// Project on GitLab.
pub struct GitLab {
    rest: Rest,
}

impl GitLab {
    /// Returns the project.
    ///
    /// # Errors
    ///
    /// If the URL of the API is not valid, or the network settings are invalid.
    pub fn new(options: &Options, access: Access, patience: Patience) -> Result<Self, HubError> {
        let rest = Rest::new(options, access, MANNER, patience)?;
        Ok(Self { rest })
    }

    /// Returns the open merge request for this branch.
    async fn merge_request(&self, branch: &str) -> Result<Option<wire::MergeRequest>, HubError> {
        let branch = escaped(branch);
        let path = format!("/merge_requests?state=opened&source_branch={branch}");
        let found = self
            .rest
            .list::<wire::MergeRequest>(&path, |_| true)
            .await?;
        Ok(found.into_iter().next())
    }

    async fn change(&self, number: u64, body: &Value) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/issues/{number}"));
        self.rest.make(Method::PUT, &url, Some(body)).await
    }

    /// Returns the notes on an issue or a merge request, with those of GitLab itself, oldest first.
    async fn notes(&self, place: &str, number: u64) -> Result<Vec<wire::Note>, HubError> {
        let path = format!("/{place}/{number}/notes?sort=asc&order_by=created_at");
        self.rest.list(&path, |_| false).await
    }
}

#[async_trait]
impl Hub for GitLab {
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError> {
        let label = escaped(label);
        let path = format!("/issues?state=opened&labels={label}&order_by=created_at&sort=asc");
        let found = self.rest.list::<wire::Issue>(&path, |_| false).await?;
        Ok(found.into_iter().map(Issue::from).collect())
    }

    async fn issue(&self, number: u64) -> Result<Issue, HubError> {
        let url = self.rest.url(&format!("/issues/{number}"));
        Ok(self.rest.get::<wire::Issue>(&url).await?.into())
    }

    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError> {
        let body = json!({ "title": title, "description": body, "labels": label });
        let url = self.rest.url("/issues");
        let issue: wire::Issue = self.rest.post(&url, &body, Repeat::IfRefused).await?;
        Ok(issue.into())
    }

    async fn ensure_label(&self, name: &str, colour: &str, meaning: &str) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/labels/{}", escaped(name)));
        match self.rest.get::<Value>(&url).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status == Some(404) => {}
            Err(error) => return Err(error),
        }
        let body = json!({ "name": name, "color": format!("#{colour}"), "description": meaning });
        let url = self.rest.url("/labels");
        match self.rest.make(Method::POST, &url, Some(&body)).await {
            // Created by someone else, or by our first request whose response was lost.
            Err(error) if error.status == Some(409) => Ok(()),
            made => made,
        }
    }

    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError> {
        let body = json!({ "add_labels": labels.join(",") });
        self.change(number, &body).await
    }

    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError> {
        self.change(number, &json!({ "remove_labels": label }))
            .await
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError> {
        let notes = self.notes("issues", number).await?.into_iter();
        Ok(notes
            .filter(|note| !note.system)
            .map(Comment::from)
            .collect())
    }

    async fn reviews(&self, branch: &str) -> Result<Vec<Comment>, HubError> {
        let Some(request) = self.merge_request(branch).await? else {
            return Ok(Vec::new());
        };
        let notes = self.notes("merge_requests", request.iid).await?;
        let notes = notes.into_iter().filter(|note| !note.system);
        Ok(notes.map(Comment::from).collect())
    }

    async fn asking(&self, branch: &str) -> Result<Vec<String>, HubError> {
        let Some(request) = self.merge_request(branch).await? else {
            return Ok(Vec::new());
        };
        let place = format!("/merge_requests/{}", request.iid);
        let url = self.rest.url(&format!("{place}/reviewers"));
        let reviewers: Vec<wire::Reviewer> = self.rest.get(&url).await?;
        if !reviewers.iter().any(wire::Reviewer::asks) {
            return Ok(Vec::new());
        }
        let versions = format!("{place}/versions");
        let pushes = self.rest.list::<wire::Version>(&versions, |_| true).await?;
        let notes = self.notes("merge_requests", request.iid).await?;
        Ok(wire::asking(&reviewers, &notes, &pushes))
    }

    async fn may_push(&self, user: &str) -> Result<bool, HubError> {
        let path = format!("/members/all?query={}", escaped(user));
        let found = self.rest.list::<wire::Member>(&path, |_| false).await?;
        let mut found = found.into_iter().filter(|member| member.username == user);
        Ok(found.any(|member| member.access_level >= DEVELOPER))
    }

    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/issues/{number}/notes"));
        let body = json!({ "body": body });
        let made = self.rest.post::<Value>(&url, &body, Repeat::IfRefused);
        made.await.map(drop)
    }

    async fn close(&self, number: u64) -> Result<(), HubError> {
        self.change(number, &json!({ "state_event": "close" }))
            .await
    }

    async fn open_pulls(&self, enough: usize) -> Result<usize, HubError> {
        let is_enough = |found: &[Value]| found.len() >= enough;
        let path = "/merge_requests?state=opened";
        Ok(self.rest.list(path, is_enough).await?.len())
    }

    async fn pull_of(&self, branch: &str) -> Result<Option<OpenPull>, HubError> {
        Ok(self.merge_request(branch).await?.map(OpenPull::from))
    }

    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<OpenPull, HubError> {
        let url = self.rest.url("/merge_requests");
        let body = json!({
            "source_branch": pull.branch, "target_branch": pull.base, "title": pull.title,
            "description": pull.body,
        });
        let request: wire::MergeRequest = self.rest.post(&url, &body, Repeat::IfRefused).await?;
        Ok(request.into())
    }

    async fn default_branch(&self) -> Result<String, HubError> {
        let project: wire::Project = self.rest.get(&self.rest.url("")).await?;
        let none = || HubError::new("the project has no default branch");
        project.default_branch.ok_or_else(none)
    }

    fn runs_workflows(&self) -> bool {
        false
    }

    async fn push_rule(&self, branch: &str) -> Result<Option<String>, HubError> {
        let found = self.rest.list("/protected_branches", |_| false).await;
        let rules: Vec<wire::Protected> = match found {
            Err(error) if matches!(error.status, Some(401 | 403 | 404)) => return Ok(None),
            rules => rules?,
        };
        let project: wire::Project = self.rest.get(&self.rest.url("")).await?;
        let level = project.level();
        // Of several rules, the most permissive one counts.
        let rules: Vec<_> = rules
            .iter()
            .filter(|rule| fits(&rule.name, branch))
            .collect();
        let is_refused = !rules.is_empty() && !rules.iter().any(|rule| rule.allows(level));
        let first = rules.first().filter(|_| is_refused);
        Ok(first.map(|rule| format!("branches `{}` are protected", rule.name)))
    }
}
