//! Reports of background tasks as messages of the conversation.

use std::time::Duration;

use ah_conversation::{ContentBlock, Origin, StoreError, TaskSink};

use crate::{Session, SessionUpdate, Stop};

/// Longest time between two looks for mail.
const LOOK: Duration = Duration::from_secs(60);

impl Session {
    /// Returns the sink for updates of tasks started by calls; updates of background tasks are also tracked by the
    /// session.
    pub(crate) fn task_sink(&self) -> TaskSink {
        let frontend = self.ports.frontend.clone();
        let sender = self.background.sender();
        TaskSink::new(move |task, update| {
            frontend.update(SessionUpdate::Task(task, update));
            if task.is_background {
                // The receiver is gone once the session has ended.
                let _ = sender.send((task.clone(), update.clone()));
            }
        })
    }

    /// Appends the reports of ended tasks; returns whether there were any.
    pub(crate) async fn take_reports(&mut self) -> Result<bool, StoreError> {
        let reports = self.background.take_reports();
        let has_reports = !reports.is_empty();
        for text in reports {
            self.append(Origin::Task, vec![ContentBlock::text(text)])
                .await?;
        }
        Ok(has_reports)
    }

    /// Waits for a running background subagent and appends its report, or a message that came meanwhile; returns whether
    /// there was one.
    pub(crate) async fn await_reports(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        let (clock, store) = (self.ports.clock.clone(), self.ports.store.clone());
        loop {
            self.background.catch_up();
            if self.background.has_subagent_report() {
                return self.take_reports().await;
            }
            if !self.background.has_subagents() {
                return Ok(false);
            }
            tokio::select! {
                biased;
                () = stop.wait(&*clock) => return Ok(true),
                () = self.background.wait() => {}
                () = store.wait_for_mail(LOOK) => {}
            }
            if self.take_mail().await? {
                return Ok(true);
            }
        }
    }
}
