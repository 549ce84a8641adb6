//! The requests that Forgejo has taken over from GitHub as they are.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Repeat, Rest};
use crate::hub::{HubError, NewPull};

#[derive(Debug, Deserialize)]
struct Repository {
    default_branch: String,
}

impl Rest {
    /// Comments on an issue.
    pub(crate) async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        let url = self.url(&format!("/issues/{number}/comments"));
        let body = json!({ "body": body });
        let made = self.post::<Value>(&url, &body, Repeat::IfRefused);
        made.await.map(drop)
    }

    /// Returns the number of open pull requests. Counting may stop at `enough`.
    pub(crate) async fn open_pulls(&self, enough: usize) -> Result<usize, HubError> {
        let is_enough = |found: &[Value]| found.len() >= enough;
        let pulls = self.list("/pulls?state=open", is_enough).await?;
        Ok(pulls.len())
    }

    /// Opens a pull request, and returns it in the hub's form.
    pub(crate) async fn open_pull<T: DeserializeOwned>(
        &self,
        pull: &NewPull<'_>,
    ) -> Result<T, HubError> {
        let url = self.url("/pulls");
        let body = json!({
            "head": pull.branch, "base": pull.base, "title": pull.title, "body": pull.body,
        });
        self.post(&url, &body, Repeat::IfRefused).await
    }

    /// Returns the default branch.
    pub(crate) async fn default_branch(&self) -> Result<String, HubError> {
        let repository: Repository = self.get(&self.url("")).await?;
        Ok(repository.default_branch)
    }
}
