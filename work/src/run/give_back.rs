//! Gives an issue back after a fault that is not its own: it waits again, and a comment says why. Everything stays as it
//! is, so the work goes on at the phase that could not be done.

use crate::action::{ActionContext, note_once};
use crate::artifact::Artifacts;
use crate::hub::HubError;
use crate::issue::{DOING, TODO};
use crate::journal::Journal;
use crate::phase::{self, WorkStatus, WorkStep};
use crate::run::{Work, WorkError, WorkEvent};

impl Work {
    /// Gives the issue back, as far as the hub and the remote can be reached.
    pub(super) async fn give_back(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        fault: &WorkError,
    ) {
        // What another machine has taken is not ours to give.
        let is_ours = !matches!(fault, WorkError::Taken { .. } | WorkError::Refused { .. });
        if !is_ours || journal.concluded.is_some() {
            return;
        }
        let mut told = Ok(());
        // A hub that has just failed is not asked again.
        if !matches!(fault, WorkError::Hub(error) if error.status.is_none()) {
            told = self.tell(journal, fault).await.map_err(WorkError::from);
        }
        let let_go = self.let_go(artifacts, journal, false).await;
        let summary = self.summarise(artifacts, WorkStatus::GivenBack, Some(journal));
        for done in [told, let_go, summary] {
            if let Err(error) = done {
                let number = journal.issue.number;
                let warning = format!("cannot give #{number} back completely: {error}");
                (self.on_event)(&WorkEvent::Warning(warning));
            }
        }
    }

    async fn tell(&self, journal: &Journal, fault: &WorkError) -> Result<(), HubError> {
        let number = journal.issue.number;
        if journal.was_waiting {
            self.hub.add_labels(number, &[TODO.to_owned()]).await?;
        }
        self.hub.remove_label(number, DOING).await?;
        let phase = match phase::next(&journal.history(), journal.rework) {
            WorkStep::Perform(phase) => phase.to_string(),
            WorkStep::Finish(_) => "end".to_owned(),
        };
        let context = ActionContext {
            number,
            branch: &journal.branch,
            base: &journal.base,
            is_pushed: false,
            mark: &journal.started_at,
        };
        let text = text(&phase, fault, journal.was_waiting);
        note_once(
            self.hub.as_ref(),
            &text,
            &format!("given back {phase}"),
            &context,
        )
        .await
        .map(drop)
    }
}

/// Returns the comment on an issue that is given back before the phase was done.
fn text(phase: &str, fault: &WorkError, was_waiting: bool) -> String {
    let hint = fault.hint().map(|hint| format!(" ({hint})"));
    let hint = hint.unwrap_or_default();
    let waits = if was_waiting {
        "The issue is open for work again"
    } else {
        "Nothing is lost"
    };
    format!(
        "**ah work: given back**\n\n- Phase: {phase}\n- Reason: {fault}{hint}\n\n\
         The issue is not the cause. {waits}, and work will continue at this phase.\n"
    )
}
