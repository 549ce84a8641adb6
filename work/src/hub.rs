//! Where issues live and pull requests are opened: GitHub, or a folder.

use std::time::Duration;

use async_trait::async_trait;

use crate::issue::Issue;

/// What the work needs of a hub. A call that was answered has happened; one that failed may have.
#[async_trait]
pub trait Hub: Send + Sync {
    /// The open issues that have this label, at most 100 of them, the oldest first.
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError>;
    /// One issue.
    async fn issue(&self, number: u64) -> Result<Issue, HubError>;
    /// Opens an issue.
    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError>;
    /// Makes a label; one that is there stays as it is.
    async fn ensure_label(&self, name: &str, colour: &str, meaning: &str) -> Result<(), HubError>;
    /// Adds labels to an issue; those that it has already stay.
    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError>;
    /// Takes a label off an issue, if it has it.
    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError>;
    /// The texts of the comments of an issue.
    async fn comments(&self, number: u64) -> Result<Vec<String>, HubError>;
    /// Says something below an issue.
    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError>;
    /// Closes an issue.
    async fn close(&self, number: u64) -> Result<(), HubError>;
    /// How many pull requests are open; what is more than `enough` need not be counted.
    async fn open_pulls(&self, enough: usize) -> Result<usize, HubError>;
    /// Where people look at the open pull request of this branch, if there is one.
    async fn pull_of(&self, branch: &str) -> Result<Option<String>, HubError>;
    /// Opens a pull request; says where people look at it.
    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<String, HubError>;
    /// The branch that pull requests are for.
    async fn default_branch(&self) -> Result<String, HubError>;
}

/// A pull request to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPull<'a> {
    /// The branch with the commits.
    pub branch: &'a str,
    /// The branch that they are for.
    pub base: &'a str,
    /// The title.
    pub title: &'a str,
    /// The text.
    pub body: &'a str,
}

/// Why a hub did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HubError {
    /// What, where and why.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    /// When it may go well, if it may: the request may have been carried out all the same.
    pub again_after: Option<Duration>,
}

impl HubError {
    /// Something failed.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            status: None,
            again_after: None,
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}
