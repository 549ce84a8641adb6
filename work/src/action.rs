//! Performs the actions of a review on the hub, each at most once.

use serde_json::{Value, json};

use crate::artifact::hash;
use crate::hub::{Hub, HubError, NewPull, OpenPull};
use crate::verdict::{Action, Review, Verdict};

/// Attempts at an action that must not happen twice. Before each one, the hub is asked whether it has happened.
const ATTEMPTS: usize = 3;

/// Issue and branch that the actions apply to.
#[derive(Debug, Clone, Copy)]
pub struct ActionContext<'a> {
    /// Issue number.
    pub number: u64,
    /// Branch with the commits.
    pub branch: &'a str,
    /// Base branch.
    pub base: &'a str,
    /// Whether the branch has been pushed.
    pub is_pushed: bool,
    /// Identifier of this work on the issue, to recognise its own comments.
    pub mark: &'a str,
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionResult {
    /// Name of the action.
    pub action: String,
    /// Whether it succeeded.
    pub is_done: bool,
    /// Short description of the result, or the error.
    pub note: String,
    /// What people should know about it.
    pub remark: Option<String>,
    /// The error, if the hub is at fault: the action is still to be done.
    pub fault: Option<HubError>,
}

impl ActionResult {
    /// Returns the entry for `act/results.json`.
    pub fn to_json(&self) -> Value {
        json!({ "action": self.action, "success": self.is_done, "note": self.note })
    }
}

/// Performs all actions of `review`; a failure does not prevent the others.
pub async fn perform(
    hub: &dyn Hub,
    review: &Review,
    context: &ActionContext<'_>,
) -> Vec<ActionResult> {
    let mut done: Vec<ActionResult> = Vec::new();
    let is_close = |action: &&Action| matches!(action, Action::CloseIssue);
    let (last, first): (Vec<_>, Vec<_>) = review.actions.iter().partition(is_close);
    for action in first.into_iter().chain(last) {
        // An issue stays open until its pull request is there.
        let is_missing = |done: &ActionResult| !done.is_done && done.action == "create_pr";
        let result = if is_close(&action) && done.iter().any(is_missing) {
            Err(Failed::Refused(
                "not closed: there is no pull request".to_owned(),
            ))
        } else {
            one(hub, action, review.verdict, context).await
        };
        let (is_done, note, remark, fault) = match result {
            Ok(Done(note, remark)) => (true, note, remark, None),
            Err(Failed::Refused(reason)) => (false, reason, None, None),
            Err(Failed::Hub(error)) => {
                let hint = error.hint.as_ref().map(|hint| format!(" ({hint})"));
                let note = format!("{error}{}", hint.unwrap_or_default());
                (false, note, None, error.is_fault().then_some(error))
            }
        };
        done.push(ActionResult {
            action: action.as_str().to_owned(),
            is_done,
            note,
            remark,
            fault,
        });
    }
    done
}

/// What was done, and what people should know about it.
struct Done(String, Option<String>);

impl From<String> for Done {
    fn from(note: String) -> Self {
        Self(note, None)
    }
}

/// Why an action was not performed.
enum Failed {
    /// It is not allowed.
    Refused(String),
    /// The hub did not do it.
    Hub(HubError),
}

impl From<HubError> for Failed {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

async fn one(
    hub: &dyn Hub,
    action: &Action,
    verdict: Verdict,
    context: &ActionContext<'_>,
) -> Result<Done, Failed> {
    let number = context.number;
    match action {
        Action::CreatePr { .. } | Action::CloseIssue if verdict != Verdict::Pass => {
            Ok(format!("skipped: the verdict is {}", verdict.as_str()).into())
        }
        Action::CreatePr {
            branch,
            title,
            body,
        } => {
            if branch != context.branch {
                let own = context.branch;
                return Err(Failed::Refused(format!(
                    "`{branch}` is not the branch of this issue, `{own}`"
                )));
            }
            if !context.is_pushed {
                return Err(Failed::Refused(
                    "cannot open a pull request: nothing was pushed".to_owned(),
                ));
            }
            let pull = open_pull(hub, title, body, context).await?;
            Ok(Done(pull.url, pull.note))
        }
        Action::CommentIssue { body } => Ok(comment_once(hub, body, context).await?.into()),
        Action::CloseIssue => {
            hub.close(number).await?;
            Ok("closed".to_owned().into())
        }
        Action::LabelIssue { labels } => {
            hub.add_labels(number, labels).await?;
            Ok(labels.join(", ").into())
        }
        Action::Other(_) => Ok("skipped: unknown action".to_owned().into()),
    }
}

async fn open_pull(
    hub: &dyn Hub,
    title: &str,
    body: &str,
    context: &ActionContext<'_>,
) -> Result<OpenPull, HubError> {
    let body = closing(body, context.number);
    let pull = NewPull {
        branch: context.branch,
        base: context.base,
        title,
        body: &body,
    };
    for _ in 0..ATTEMPTS {
        if let Some(pull) = hub.pull_of(context.branch).await? {
            return Ok(pull);
        }
        match hub.open_pull(&pull).await {
            Ok(pull) => return Ok(pull),
            Err(error) => wait_after(error).await?,
        }
    }
    // The last attempt may have succeeded although its response was lost.
    hub.pull_of(context.branch)
        .await?
        .ok_or_else(|| HubError::new("could not open the pull request after several attempts"))
}

/// Waits before checking whether a failed request has been carried out.
async fn wait_after(error: HubError) -> Result<(), HubError> {
    match error.again_after {
        Some(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        None => Err(error),
    }
}

/// Returns `body` with the phrase that closes the issue when the pull request is merged.
fn closing(body: &str, number: u64) -> String {
    let words = format!("Closes #{number}");
    let is_there = body.match_indices(&words).any(|(at, _)| {
        let behind = &body[at + words.len()..];
        !behind.starts_with(|c: char| c.is_ascii_digit())
    });
    if is_there {
        body.to_owned()
    } else {
        format!("{}\n\n{words}\n", body.trim_end())
    }
}

/// Comments on the issue, unless this work has already posted the same comment.
///
/// # Errors
///
/// If the comment could not be posted.
pub async fn comment_once(
    hub: &dyn Hub,
    body: &str,
    context: &ActionContext<'_>,
) -> Result<String, HubError> {
    note_once(hub, body, body, context).await
}

/// Comments on the issue, unless this work has already posted a comment with this `key`.
///
/// # Errors
///
/// If the comment could not be posted.
pub async fn note_once(
    hub: &dyn Hub,
    body: &str,
    key: &str,
    context: &ActionContext<'_>,
) -> Result<String, HubError> {
    let name = hash(format!("{}\n{key}", context.mark).as_bytes());
    let mark = format!("<!-- ah work {} -->", &name[..16]);
    let body = format!("{}\n\n{mark}", body.trim_end());
    for _ in 0..ATTEMPTS {
        let comments = hub.comments(context.number).await?;
        if comments.iter().any(|comment| comment.body.contains(&mark)) {
            return Ok("commented".to_owned());
        }
        match hub.comment(context.number, &body).await {
            Ok(()) => return Ok("commented".to_owned()),
            Err(error) => wait_after(error).await?,
        }
    }
    Err(HubError::new("could not comment after several attempts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_phrase_is_added_once() {
        for (body, expected) in [
            ("As planned.\n", "As planned.\n\nCloses #7\n"),
            ("Closes #7.", "Closes #7."),
            ("Closes #77", "Closes #77\n\nCloses #7\n"),
        ] {
            assert_eq!(closing(body, 7), expected);
        }
    }
}
