//! Forgejo as a hub, and Gitea, whose API it shares.

mod wire;

use std::collections::BTreeSet;

use ah_http::Options;
use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;

use crate::glob::fits_parts;
use crate::hub::{Comment, Hub, HubError, NewPull, OpenPull};
use crate::issue::Issue;
use crate::rest::{Access, Manner, Patience, Repeat, Rest, escaped};

const MANNER: Manner = Manner {
    accept: "application/json",
    headers: &[],
    page: "limit=50",
    place: |repository| format!("/repos/{repository}"),
    login: "set FORGEJO_TOKEN or GITEA_TOKEN",
    permission: "repository and issue (write)",
};

/// Repository on a server of Forgejo or Gitea.
pub struct Forgejo {
    rest: Rest,
}

impl Forgejo {
    /// Returns the repository.
    ///
    /// # Errors
    ///
    /// If the URL of the API is not valid, or the network settings are invalid.
    pub fn new(options: &Options, access: Access, patience: Patience) -> Result<Self, HubError> {
        let rest = Rest::new(options, access, MANNER, patience)?;
        Ok(Self { rest })
    }

    async fn labels(&self) -> Result<Vec<wire::Label>, HubError> {
        self.rest.list("/labels", |_| false).await
    }

    /// Returns the numbers of these labels; those that do not exist are created.
    async fn label_ids(&self, names: &[String]) -> Result<Vec<u64>, HubError> {
        let mut labels = self.labels().await?;
        let mut ids = Vec::new();
        for name in names {
            let id = match labels.iter().find(|label| label.name == *name) {
                Some(label) => label.id,
                None => {
                    let label = self.make_label(name, "ededed", "").await?;
                    let id = label.id;
                    labels.push(label);
                    id
                }
            };
            ids.push(id);
        }
        Ok(ids)
    }

    async fn make_label(
        &self,
        name: &str,
        colour: &str,
        meaning: &str,
    ) -> Result<wire::Label, HubError> {
        let body = json!({ "name": name, "color": format!("#{colour}"), "description": meaning });
        let url = self.rest.url("/labels");
        self.rest.post(&url, &body, Repeat::IfRefused).await
    }

    /// Returns the open pull request for this branch.
    async fn pull(&self, branch: &str) -> Result<Option<wire::Pull>, HubError> {
        let is_it = |pull: &wire::Pull| pull.head.name == branch;
        let is_enough = |pulls: &[wire::Pull]| pulls.iter().any(is_it);
        let pulls = self.rest.list("/pulls?state=open", is_enough).await?;
        Ok(pulls.into_iter().find(is_it))
    }

    async fn reviews_of(&self, pull: u64) -> Result<Vec<wire::Review>, HubError> {
        let path = format!("/pulls/{pull}/reviews");
        self.rest.list(&path, |_| false).await
    }
}

#[async_trait]
impl Hub for Forgejo {
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError> {
        let label = escaped(label);
        let path = format!("/issues?state=open&type=issues&labels={label}");
        let found = self.rest.list::<wire::Issue>(&path, |_| false).await?;
        let mut issues: Vec<_> = found.into_iter().map(Issue::from).collect();
        issues.sort_by_key(|issue| issue.number);
        Ok(issues)
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
        let labels = self.label_ids(&[label.to_owned()]).await?;
        let body = json!({ "title": title, "body": body, "labels": labels });
        let url = self.rest.url("/issues");
        let issue: wire::Issue = self.rest.post(&url, &body, Repeat::IfRefused).await?;
        Ok(issue.into())
    }

    async fn ensure_label(&self, name: &str, colour: &str, meaning: &str) -> Result<(), HubError> {
        let labels = self.labels().await?;
        if labels.iter().any(|label| label.name == name) {
            return Ok(());
        }
        self.make_label(name, colour, meaning).await.map(drop)
    }

    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError> {
        let ids = self.label_ids(labels).await?;
        let url = self.rest.url(&format!("/issues/{number}/labels"));
        let body = json!({ "labels": ids });
        self.rest.make(Method::POST, &url, Some(&body)).await
    }

    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError> {
        let labels = self.labels().await?;
        let Some(label) = labels.iter().find(|known| known.name == label) else {
            return Ok(());
        };
        let path = format!("/issues/{number}/labels/{}", label.id);
        match self
            .rest
            .make(Method::DELETE, &self.rest.url(&path), None)
            .await
        {
            Err(error) if matches!(error.status, Some(404 | 422)) => Ok(()),
            removed => removed,
        }
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError> {
        // There are no pages here.
        let url = self.rest.url(&format!("/issues/{number}/comments"));
        let comments: Vec<wire::Comment> = self.rest.get(&url).await?;
        Ok(comments.into_iter().map(Comment::from).collect())
    }

    async fn reviews(&self, branch: &str) -> Result<Vec<Comment>, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for review in self.reviews_of(pull.number).await? {
            if review.comments_count > 0 {
                let path = format!("/pulls/{}/reviews/{}/comments", pull.number, review.id);
                let remarks: Vec<wire::Remark> = self.rest.get(&self.rest.url(&path)).await?;
                all.extend(remarks.into_iter().map(Comment::from));
            }
            all.push(review.into());
        }
        all.extend(self.comments(pull.number).await?);
        all.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(all)
    }

    async fn asking(&self, branch: &str) -> Result<Vec<String>, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(Vec::new());
        };
        let reviews = self.reviews_of(pull.number).await?;
        Ok(wire::asking(&reviews, &pull.head.sha))
    }

    async fn may_push(&self, user: &str) -> Result<bool, HubError> {
        let user = escaped(user);
        let url = self.rest.url(&format!("/collaborators/{user}/permission"));
        match self.rest.get::<wire::Permission>(&url).await {
            Ok(given) => Ok(matches!(
                given.permission.as_str(),
                "owner" | "admin" | "write"
            )),
            Err(error) if matches!(error.status, Some(403 | 404)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        self.rest.comment(number, body).await
    }

    async fn close(&self, number: u64) -> Result<(), HubError> {
        let url = self.rest.url(&format!("/issues/{number}"));
        let body = json!({ "state": "closed" });
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
        false
    }

    async fn push_rule(&self, branch: &str) -> Result<Option<String>, HubError> {
        let url = self.rest.url("/branch_protections");
        let rules: Vec<wire::Protection> = match self.rest.get(&url).await {
            Err(error) if matches!(error.status, Some(403 | 404)) => return Ok(None),
            rules => rules?,
        };
        let names: BTreeSet<_> = rules
            .iter()
            .filter_map(wire::Protection::refusing)
            .collect();
        let refusing = names.into_iter().find(|name| fits_parts(name, branch));
        Ok(refusing.map(|name| format!("branches `{name}` are protected")))
    }
}
