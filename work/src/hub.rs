//! Interface to the service that hosts issues and pull requests: GitHub, GitLab, Forgejo, or a directory.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::issue::Issue;

/// Operations needed on a hub. A successful call has taken effect; a failed one may have.
#[async_trait]
pub trait Hub: Send + Sync {
    /// Returns the open issues with this label, oldest first.
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError>;
    /// Returns an issue.
    async fn issue(&self, number: u64) -> Result<Issue, HubError>;
    /// Opens an issue.
    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError>;
    /// Creates a label unless it exists.
    async fn ensure_label(&self, name: &str, colour: &str, meaning: &str) -> Result<(), HubError>;
    /// Adds labels to an issue.
    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError>;
    /// Removes a label from an issue, if present.
    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError>;
    /// Returns an issue's comments, oldest first.
    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError>;
    /// Returns the reviews of the open pull request for this branch and their remarks on lines, oldest first.
    async fn reviews(&self, branch: &str) -> Result<Vec<Comment>, HubError>;
    /// Returns the users who have asked for changes of the open pull request for this branch last, and nothing was pushed
    /// since.
    async fn asking(&self, branch: &str) -> Result<Vec<String>, HubError>;
    /// Returns whether this user may push to the repository.
    async fn may_push(&self, user: &str) -> Result<bool, HubError>;
    /// Comments on an issue.
    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError>;
    /// Closes an issue.
    async fn close(&self, number: u64) -> Result<(), HubError>;
    /// Returns the number of open pull requests. Counting may stop at `enough`.
    async fn open_pulls(&self, enough: usize) -> Result<usize, HubError>;
    /// Returns the open pull request for this branch.
    async fn pull_of(&self, branch: &str) -> Result<Option<OpenPull>, HubError>;
    /// Opens a pull request.
    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<OpenPull, HubError>;
    /// Returns the default branch of the repository.
    async fn default_branch(&self) -> Result<String, HubError>;
    /// Returns why the rules of the repository refuse pushes to this branch by the owner of the token, as far as the hub
    /// tells; the branch need not exist.
    async fn push_rule(&self, branch: &str) -> Result<Option<String>, HubError>;
    /// Returns whether it runs the workflow that is written for GitHub.
    fn runs_workflows(&self) -> bool;
}

impl dyn Hub {
    /// Returns whether somebody who may push has asked for changes of the open pull request for this branch, and nothing
    /// was pushed since.
    pub(crate) async fn is_sent_back(&self, branch: &str) -> Result<bool, HubError> {
        for user in self.asking(branch).await? {
            if self.may_push(&user).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the users whose last verdict asks for changes. `verdicts` are each user's, oldest first, and whether it does.
pub(crate) fn last_asking<'a>(verdicts: impl IntoIterator<Item = (&'a str, bool)>) -> Vec<String> {
    let last: BTreeMap<_, _> = verdicts.into_iter().collect();
    let asking = last.into_iter().filter(|(_, asks)| *asks);
    asking.map(|(user, _)| user.to_owned()).collect()
}

/// What somebody has said about an issue or a pull request. Untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comment {
    /// User.
    pub by: String,
    /// Text.
    pub body: String,
    /// Time as ISO 8601 in UTC.
    pub at: String,
    /// Place in the source that it is about, as `PATH:LINE`, or the verdict of a review.
    pub about: String,
}

/// Pull request to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPull<'a> {
    /// Branch with the commits.
    pub branch: &'a str,
    /// Base branch.
    pub base: &'a str,
    /// Title.
    pub title: &'a str,
    /// Description.
    pub body: &'a str,
}

/// Open pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenPull {
    /// Its address.
    pub url: String,
    /// What people should know about it, such as that no checks start for it.
    pub note: Option<String>,
}

/// Error of a hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HubError {
    /// Error message.
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Time after which a retry makes sense. The request may have been carried out nevertheless.
    pub again_after: Option<Duration>,
}

impl HubError {
    /// Returns an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            status: None,
            again_after: None,
        }
    }

    /// Returns whether the hub is at fault, or what it allows us, and not what was asked of it.
    pub fn is_fault(&self) -> bool {
        matches!(self.status, None | Some(401 | 403 | 408 | 429 | 500..=599))
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}
