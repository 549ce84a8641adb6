//! Reports the end of the work: labels, a final comment, `summary.json`. Every step can be repeated without harm.

use crate::action::{ActionContext, comment_once};
use crate::artifact::Artifacts;
use crate::hub::HubError;
use crate::issue::{DOING, DONE, FAILED, FRICTION};
use crate::journal::Journal;
use crate::phase::{self, WorkStatus, WorkStep};
use crate::run::{Work, WorkError, WorkEvent, save};
use crate::summary;
use crate::verdict;

impl Work {
    pub(super) async fn conclude(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        status: WorkStatus,
        note: Option<&str>,
    ) -> Result<(), WorkError> {
        if journal.concluded == Some(status) {
            return Ok(());
        }
        self.label(artifacts, journal, status).await?;
        let log = self.options.log.as_deref();
        let text = summary::comment(status, journal, artifacts, log, note);
        let context = ActionContext {
            number: journal.issue.number,
            branch: &journal.branch,
            base: &journal.base,
            is_pushed: false,
            mark: &journal.started_at,
        };
        if let Err(error) = comment_once(self.hub.as_ref(), &text, &context).await {
            (self.on_event)(&WorkEvent::Warning(format!(
                "cannot post the final comment: {error}"
            )));
        }
        self.summarise(artifacts, status, Some(journal))?;
        // What can be repeated stays at the remote, for this machine or another one.
        let history = journal.history();
        let is_over = match phase::next(&history, journal.rework) {
            WorkStep::Finish(_) => phase::kept(&history, None) == history.len(),
            WorkStep::Perform(_) => false,
        };
        journal.concluded = Some(status);
        if let Err(error) = self.let_go(artifacts, journal, is_over).await {
            (self.on_event)(&WorkEvent::Warning(format!(
                "cannot remove the claim of this work: {error}"
            )));
        }
        save(artifacts, journal)
    }

    async fn label(
        &self,
        artifacts: &Artifacts,
        journal: &Journal,
        status: WorkStatus,
    ) -> Result<(), HubError> {
        let number = journal.issue.number;
        let mut labels = vec![match status {
            WorkStatus::Success => DONE.to_owned(),
            _ => FAILED.to_owned(),
        }];
        let review = artifacts
            .read("check/actions.json")
            .and_then(|text| verdict::read(&text).ok());
        if review.is_some_and(|review| !review.friction.is_empty()) {
            labels.push(FRICTION.to_owned());
        }
        self.hub.add_labels(number, &labels).await?;
        self.hub.remove_label(number, DOING).await
    }
}
