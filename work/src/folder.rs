//! Hub stored in a directory (`issues/N.json` and `pulls/N.json`), for trying out `ah work` without a network.

use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::json;
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hub::{Comment, Hub, HubError, NewPull, OpenPull};
use crate::issue::Issue;

/// Hub stored in a directory.
#[derive(Debug, Clone)]
pub struct FolderHub {
    path: PathBuf,
    default_branch: String,
}

/// Stored issue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIssue {
    /// Issue.
    #[serde(flatten)]
    pub issue: Issue,
    /// Texts of its comments.
    #[serde(default)]
    pub comments: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPull {
    branch: String,
    base: String,
    title: String,
    body: String,
}

impl FolderHub {
    /// Returns the hub stored at `path`.
    pub fn new(path: PathBuf, default_branch: String) -> Self {
        Self {
            path,
            default_branch,
        }
    }

    /// Stores an issue.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn store(&self, kept: &StoredIssue) -> Result<(), HubError> {
        write(&self.issue_path(kept.issue.number), kept)
    }

    fn issue_path(&self, number: u64) -> PathBuf {
        self.path.join("issues").join(format!("{number}.json"))
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut StoredIssue)) -> Result<(), HubError> {
        let mut kept = self.kept(number)?;
        change(&mut kept);
        self.store(&kept)
    }

    fn kept(&self, number: u64) -> Result<StoredIssue, HubError> {
        let mut kept: StoredIssue = read(&self.issue_path(number))?;
        kept.issue.number = number;
        Ok(kept)
    }

    fn all(&self) -> Result<Vec<StoredIssue>, HubError> {
        let numbers = numbers(&self.path.join("issues"))?;
        numbers
            .into_iter()
            .map(|number| self.kept(number))
            .collect()
    }

    fn pulls(&self) -> Result<Vec<(PathBuf, StoredPull)>, HubError> {
        let folder = self.path.join("pulls");
        let paths = numbers_so_far(&folder)?
            .into_iter()
            .map(|number| folder.join(format!("{number}.json")));
        paths.map(|path| Ok((path.clone(), read(&path)?))).collect()
    }
}

/// Returns the pull request stored at `path`.
fn at(path: &Path) -> OpenPull {
    OpenPull {
        url: path.display().to_string(),
        note: None,
    }
}

/// Returns the numbers of the files in a directory, in ascending order.
fn numbers(folder: &Path) -> Result<Vec<u64>, HubError> {
    let failed = |error| file_error("read", folder, &error);
    let number = |name: &str| name.strip_suffix(".json")?.parse::<u64>().ok();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        numbers.extend(name.to_str().and_then(number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the numbers of the files in a directory that is made with the first one.
fn numbers_so_far(folder: &Path) -> Result<Vec<u64>, HubError> {
    match folder.try_exists() {
        Ok(false) => Ok(Vec::new()),
        _ => numbers(folder),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, HubError> {
    let text = fs::read_to_string(path).map_err(|error| file_error("read", path, &error))?;
    json::from_str(&text).map_err(|error| file_error("parse", path, &error))
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), HubError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| file_error("write", path, &error))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text + "\n"))
        .map_err(|error| file_error("write", path, &error))
}

fn file_error(action: &str, path: &Path, error: &dyn std::error::Error) -> HubError {
    HubError::new(format!("cannot {action} `{}`: {error}", path.display()))
}

#[async_trait]
impl Hub for FolderHub {
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError> {
        let mut kept = self.all()?;
        kept.retain(|kept| !kept.issue.is_closed && kept.issue.has(label));
        Ok(kept.into_iter().map(|kept| kept.issue).collect())
    }

    async fn issue(&self, number: u64) -> Result<Issue, HubError> {
        Ok(self.kept(number)?.issue)
    }

    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError> {
        let last = numbers_so_far(&self.path.join("issues"))?.pop();
        let issue = Issue {
            number: last.unwrap_or(0) + 1,
            title: title.to_owned(),
            body: body.to_owned(),
            labels: vec![label.to_owned()],
            ..Issue::default()
        };
        self.store(&StoredIssue {
            issue: issue.clone(),
            ..StoredIssue::default()
        })?;
        Ok(issue)
    }

    async fn ensure_label(&self, _: &str, _: &str, _: &str) -> Result<(), HubError> {
        Ok(())
    }

    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError> {
        self.change(number, |kept| {
            for label in labels {
                if !kept.issue.has(label) {
                    kept.issue.labels.push(label.clone());
                }
            }
        })
    }

    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError> {
        self.change(number, |kept| {
            kept.issue.labels.retain(|known| known != label);
        })
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError> {
        let texts = self.kept(number)?.comments.into_iter();
        let comment = |body| Comment {
            body,
            ..Comment::default()
        };
        Ok(texts.map(comment).collect())
    }

    async fn reviews(&self, _: &str) -> Result<Vec<Comment>, HubError> {
        Ok(Vec::new())
    }

    async fn asking(&self, _: &str) -> Result<Vec<String>, HubError> {
        Ok(Vec::new())
    }

    async fn may_push(&self, _: &str) -> Result<bool, HubError> {
        Ok(false)
    }

    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        self.change(number, |kept| kept.comments.push(body.to_owned()))
    }

    async fn close(&self, number: u64) -> Result<(), HubError> {
        self.change(number, |kept| kept.issue.is_closed = true)
    }

    async fn open_pulls(&self, _: usize) -> Result<usize, HubError> {
        Ok(self.pulls()?.len())
    }

    async fn pull_of(&self, branch: &str) -> Result<Option<OpenPull>, HubError> {
        let mut pulls = self.pulls()?.into_iter();
        let found = pulls.find(|(_, pull)| pull.branch == branch);
        Ok(found.map(|(path, _)| at(&path)))
    }

    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<OpenPull, HubError> {
        let folder = self.path.join("pulls");
        let number = numbers_so_far(&folder)?.last().unwrap_or(&0) + 1;
        let path = folder.join(format!("{number}.json"));
        write(
            &path,
            &StoredPull {
                branch: pull.branch.to_owned(),
                base: pull.base.to_owned(),
                title: pull.title.to_owned(),
                body: pull.body.to_owned(),
            },
        )?;
        Ok(at(&path))
    }

    async fn default_branch(&self) -> Result<String, HubError> {
        Ok(self.default_branch.clone())
    }

    fn runs_workflows(&self) -> bool {
        true
    }

    async fn push_rule(&self, _: &str) -> Result<Option<String>, HubError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hub_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let hub = |path: PathBuf| FolderHub::new(path, "main".to_owned());
        let missing = hub(folder.path().join("no-such-hub"));
        let error = missing.issues("todo").await.unwrap_err().to_string();
        assert!(error.contains("no-such-hub/issues"), "{error}");
        let new = hub(folder.path().join("new"));
        new.open_issue("a", "b", "todo").await.unwrap();
        assert_eq!(new.issues("todo").await.unwrap().len(), 1);
        // Nothing was done yet.
        assert_eq!(new.open_pulls(9).await.unwrap(), 0);
    }
}
