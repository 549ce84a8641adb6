//! Does at the hub what a review asks for, each thing once however often it is asked for.

use serde_json::{Value, json};

use crate::artifact::hash;
use crate::hub::{Hub, HubError, NewPull};
use crate::verdict::{Action, Review, Verdict};

/// How often something is tried that must not happen twice; before each time it is looked for.
const ATTEMPTS: usize = 3;

/// What the actions are about.
#[derive(Debug, Clone, Copy)]
pub struct ActionContext<'a> {
    /// The number of the issue.
    pub number: u64,
    /// The branch of the work.
    pub branch: &'a str,
    /// The branch that it is for.
    pub base: &'a str,
    /// Whether the remote has the branch.
    pub is_pushed: bool,
    /// Tells this work on the issue from another one.
    pub mark: &'a str,
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionResult {
    /// Which.
    pub action: String,
    /// Whether it is so now.
    pub is_done: bool,
    /// In a few words.
    pub note: String,
}

impl ActionResult {
    /// For `act/results.json`.
    pub fn to_json(&self) -> Value {
        json!({ "action": self.action, "success": self.is_done, "note": self.note })
    }
}

/// Does all that `review` asks for; one that fails does not keep the others from being done.
pub async fn perform(
    hub: &dyn Hub,
    review: &Review,
    subject: &ActionContext<'_>,
) -> Vec<ActionResult> {
    let mut done = Vec::new();
    for action in &review.actions {
        let result = one(hub, action, review.verdict, subject).await;
        done.push(ActionResult {
            action: action.as_str().to_owned(),
            is_done: result.is_ok(),
            note: result.unwrap_or_else(|error| error.to_string()),
        });
    }
    done
}

async fn one(
    hub: &dyn Hub,
    action: &Action,
    verdict: Verdict,
    subject: &ActionContext<'_>,
) -> Result<String, HubError> {
    let number = subject.number;
    match action {
        Action::CreatePr { .. } | Action::CloseIssue if verdict != Verdict::Pass => {
            Ok(format!("left out: the verdict is {}", verdict.as_str()))
        }
        Action::CreatePr {
            branch,
            title,
            body,
        } => {
            if branch != subject.branch {
                let own = subject.branch;
                return Err(HubError::new(format!(
                    "`{branch}` is not the branch of this work, `{own}`"
                )));
            }
            open_pull(hub, title, body, subject).await
        }
        Action::CommentIssue { body } => comment_once(hub, body, subject).await,
        Action::CloseIssue => hub.close(number).await.map(|()| "closed".to_owned()),
        Action::LabelIssue { labels } => {
            hub.add_labels(number, labels).await?;
            Ok(labels.join(", "))
        }
        Action::Other(_) => Ok("left out: it is not known here".to_owned()),
    }
}

async fn open_pull(
    hub: &dyn Hub,
    title: &str,
    body: &str,
    subject: &ActionContext<'_>,
) -> Result<String, HubError> {
    if !subject.is_pushed {
        return Err(HubError::new("there is nothing pushed to open it for"));
    }
    let body = closing(body, subject.number);
    let pull = NewPull {
        branch: subject.branch,
        base: subject.base,
        title,
        body: &body,
    };
    for _ in 0..ATTEMPTS {
        if let Some(url) = hub.pull_of(subject.branch).await? {
            return Ok(url);
        }
        match hub.open_pull(&pull).await {
            Ok(url) => return Ok(url),
            Err(error) => wait_after(error).await?,
        }
    }
    // The answer to the last attempt may have got lost.
    let there = hub.pull_of(subject.branch).await?;
    there.ok_or_else(|| HubError::new("the pull request could not be opened, whatever was tried"))
}

/// Waits until it makes sense to look whether what failed has happened.
async fn wait_after(error: HubError) -> Result<(), HubError> {
    match error.again_after {
        Some(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        None => Err(error),
    }
}

/// `body` with the words that close the issue when the pull request is merged.
fn closing(body: &str, number: u64) -> String {
    let words = format!("Closes #{number}");
    let is_there = body.match_indices(&words).any(|(at, _)| {
        let behind = &body[at + words.len()..];
        !behind.starts_with(|c: char| c.is_ascii_digit())
    });
    match is_there {
        true => body.to_owned(),
        false => format!("{}\n\n{words}\n", body.trim_end()),
    }
}

/// Says `body` below the issue, unless it was said there by this work already.
///
/// # Errors
///
/// Where the hub does not take it.
pub async fn comment_once(
    hub: &dyn Hub,
    body: &str,
    subject: &ActionContext<'_>,
) -> Result<String, HubError> {
    let name = hash(format!("{}\n{body}", subject.mark).as_bytes());
    let mark = format!("<!-- ah work {} -->", &name[..16]);
    let body = format!("{}\n\n{mark}", body.trim_end());
    for _ in 0..ATTEMPTS {
        let comments = hub.comments(subject.number).await?;
        if comments.iter().any(|comment| comment.contains(&mark)) {
            return Ok("said".to_owned());
        }
        match hub.comment(subject.number, &body).await {
            Ok(()) => return Ok("said".to_owned()),
            Err(error) => wait_after(error).await?,
        }
    }
    Err(HubError::new(
        "the comment could not be made, whatever was tried",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_request_closes_its_issue_once() {
        for (body, expected) in [
            ("As planned.\n", "As planned.\n\nCloses #7\n"),
            ("Closes #7.", "Closes #7."),
            ("Closes #77", "Closes #77\n\nCloses #7\n"),
        ] {
            assert_eq!(closing(body, 7), expected);
        }
    }
}
