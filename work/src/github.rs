//! GitHub as a hub, also on a server of one's own.

mod wire;

use ah_http::Options;
use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::hub::{Comment, Hub, HubError, NewPull, OpenPull};
use crate::issue::Issue;
use crate::rest::{Access, Manner, Patience, Repeat, Rest, escaped};

/// Default address of the API.
pub const API: &str = "https://api.github.com";
/// User of the token that Actions gives to a workflow.
const DEFAULT_USER: &str = "github-actions[bot]";

const MANNER: Manner = Manner {
    accept: "application/vnd.github+json",
    headers: &[("x-github-api-version", "2022-11-28")],
    page: "per_page=100",
    place: |repository| format!("/repos/{repository}"),
    login: "set GH_TOKEN, or run `gh auth login`",
    permission: "contents, issues and pull requests (write)",
};

/// Repository on GitHub, or on a server with the same API.
pub struct GitHub {
    rest: Rest,
}

impl GitHub {
    /// Returns the repository.
    ///
    /// # Errors
    ///
    /// If the URL of the API is not valid, or the network settings are invalid.
    pub fn new(options: &Options, access: Access, patience: Patience) -> Result<Self, HubError> {
        let rest = Rest::new(options, access, MANNER, patience)?;
        Ok(Self { rest })
    }

    /// Returns the open pull request for this branch.
    async fn pull(&self, branch: &str) -> Result<Option<wire::Pull>, HubError> {
        let owner = self.rest.repository().split('/').next().unwrap_or_default();
        let head = escaped(&format!("{owner}:{branch}"));
        let path = format!("/pulls?state=open&head={head}");
        let pulls = self.rest.list::<wire::Pull>(&path, |_| true).await?;
        // Servers that ignore `head` list all pull requests.
        Ok(pulls.into_iter().find(|pull| pull.head.name == branch))
    }

    /// Returns whether the owner of the token is exempt from a set of rules.
    async fn may_bypass(&self, ruleset: u64) -> bool {
        let url = self.rest.url(&format!("/rulesets/{ruleset}"));
        let rules = self.rest.get::<wire::Ruleset>(&url).await;
        rules.is_ok_and(|rules| {
            let bypass = rules.current_user_can_bypass.as_deref();
            matches!(bypass, Some("always" | "exempt"))
        })
    }
}

impl From<wire::Pull> for OpenPull {
    fn from(pull: wire::Pull) -> Self {
        let by = pull.user.map(|user| user.login).unwrap_or_default();
        let note = (by == DEFAULT_USER).then(|| {
            "GitHub starts no checks for a pull request of the workflow's own token: close and reopen it to start them, \
             or give the workflow the token of a GitHub App in GH_TOKEN"
                .to_owned()
        });
        Self {
            url: pull.html_url,
            note,
        }
    }
}

#[async_trait]
impl Hub for GitHub {
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError> {
        let label = escaped(label);
        let path = format!("/issues?state=open&labels={label}&sort=created&direction=asc");
        let found = self.rest.list::<wire::Issue>(&path, |_| false).await?;
        let issues = found
            .into_iter()
            .filter(|issue| issue.pull_request.is_none());
        Ok(issues.map(Issue::from).collect())
    }

    async fn issue(&self, number: u64) -> Result<Issue, HubError> {
        let url = self.rest.url(&format!("/issues/{number}"));
        let issue: wire::Issue = self.rest.get(&url).await?;
        match issue.pull_request {
            None => Ok(issue.into()),
            Some(_) => Err(HubError::new(format!("#{number} is a pull request"))),
        }
    }

    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError> {
        let body = json!({ "title": title, "body": body, "labels": [label] });
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
        let body = json!({ "name": name, "color": colour, "description": meaning });
        let url = self.rest.url("/labels");
        match self.rest.make(Method::POST, &url, Some(&body)).await {
            // Created by someone else, or by our first request whose response was lost.
            Err(error) if error.status == Some(422) => Ok(()),
            made => made,
        }
    }

    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/issues/{number}/labels"));
        let body = json!({ "labels": labels });
        self.rest.make(Method::POST, &url, Some(&body)).await
    }

    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError> {
        let label = escaped(label);
        let url = self.rest.url(&format!("/issues/{number}/labels/{label}"));
        match self.rest.make(Method::DELETE, &url, None).await {
            Err(error) if error.status == Some(404) => Ok(()),
            removed => removed,
        }
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError> {
        let path = format!("/issues/{number}/comments");
        let comments = self.rest.list::<wire::Comment>(&path, |_| false).await?;
        Ok(comments.into_iter().map(Comment::from).collect())
    }

    async fn reviews(&self, branch: &str) -> Result<Vec<Comment>, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for kind in ["reviews", "comments"] {
            let path = format!("/pulls/{}/{kind}", pull.number);
            let some = self.rest.list::<wire::Comment>(&path, |_| false).await?;
            all.extend(some.into_iter().map(Comment::from));
        }
        all.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(all)
    }

    async fn asking(&self, branch: &str) -> Result<Vec<String>, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(Vec::new());
        };
        let path = format!("/pulls/{}/reviews", pull.number);
        let reviews = self.rest.list::<wire::Comment>(&path, |_| false).await?;
        Ok(wire::asking(&reviews, &pull.head.sha))
    }

    async fn may_push(&self, user: &str) -> Result<bool, HubError> {
        let user = escaped(user);
        let url = self.rest.url(&format!("/collaborators/{user}/permission"));
        match self.rest.get::<wire::Permission>(&url).await {
            Ok(given) => Ok(matches!(given.permission.as_str(), "admin" | "write")),
            Err(error) if matches!(error.status, Some(403 | 404)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        self.rest.comment(number, body).await
    }

    async fn close(&self, number: u64) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/issues/{number}"));
        let body = json!({ "state": "closed", "state_reason": "completed" });
        self.rest.make(Method::PATCH, &url, Some(&body)).await
    }

    async fn open_pulls(&self, enough: usize) -> Result<usize, HubError> {
        self.rest.open_pulls(enough).await
    }

    async fn pull_of(&self, branch: &str) -> Result<Option<OpenPull>, HubError> {
        Ok(self.pull(branch).await?.map(OpenPull::from))
    }

    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<OpenPull, HubError> {
        Ok(self.rest.open_pull::<wire::Pull>(pull).await?.into())
    }

    async fn default_branch(&self) -> Result<String, HubError> {
        self.rest.default_branch().await
    }

    fn runs_workflows(&self) -> bool {
        true
    }

    async fn push_rule(&self, branch: &str) -> Result<Option<String>, HubError> {
        let path = format!("/rules/branches/{}", escaped(branch));
        let rules = match self.rest.list::<wire::Rule>(&path, |_| false).await {
            // Servers without rules, and tokens that may not read them.
            Err(error) if matches!(error.status, Some(403 | 404)) => return Ok(None),
            rules => rules?,
        };
        for rule in rules {
            let Some(reason) = rule.refusal(branch) else {
                continue;
            };
            let is_exempt = match rule.ruleset_id {
                Some(ruleset) => self.may_bypass(ruleset).await,
                None => false,
            };
            if !is_exempt {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }
}
