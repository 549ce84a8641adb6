//! Reports of background tasks as messages of the conversation.

use std::time::Duration;

use ah_conversation::{ContentBlock, Origin, StoreError, TaskSink};

use crate::{RunOutcome, Session, SessionUpdate, Stop};

/// Time limit for the report of a task that was stopped.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Longest time between two looks for mail.
const LOOK: Duration = Duration::from_secs(60);

impl Session {
    /// Returns the sink for updates of tasks started by calls; updates of background tasks are also tracked by the
    /// session.
    pub(crate) fn task_sink(&self) -> TaskSink {
        let audience = self.ports.audience.clone();
        let sender = self.background.sender();
        TaskSink::new(move |task, update| {
            audience.update(SessionUpdate::Task(task, update));
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

    /// Waits, no longer than `patience`, until a background task has ended by itself of which the model has not been told;
    /// returns whether one has.
    pub async fn await_task(&mut self, patience: Option<Duration>, stop: &Stop) -> bool {
        let clock = self.ports.clock.clone();
        let most = patience.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        let stop = stop.at(most.map(|most| clock.now().plus(most)));
        loop {
            let is_running = !self.background.ids().is_empty();
            if self.background.has_news() || !is_running {
                return self.background.has_news();
            }
            tokio::select! {
                biased;
                () = stop.wait(&*clock) => return false,
                () = self.background.wait() => {}
            }
        }
    }

    /// Runs with the reports of ended tasks as its prompt, to the end or until `stop`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn run_reports(&mut self, stop: &Stop) -> Result<Option<RunOutcome>, StoreError> {
        let reports = self.background.take_reports();
        if reports.is_empty() {
            return Ok(None);
        }
        let (started, stop) = self.begin_time(stop);
        let prompt = reports.join("\n\n");
        self.announce(prompt.clone());
        // The prompt of the run.
        self.append(Origin::Prompt, vec![ContentBlock::text(prompt)])
            .await?;
        self.go_on(started, &stop).await.map(Some)
    }

    /// Ends the subagents in the background, as nobody would be told of their end; returns what to say of that, if there are any.
    pub(crate) async fn stop_subagents(&mut self) -> Option<String> {
        let ids = self.background.subagents();
        self.stop_each(&ids).await;
        let ids = ids.join(", ");
        (!ids.is_empty()).then(|| format!("[stopped with it, while they worked: {ids}]"))
    }

    async fn stop_each(&self, ids: &[String]) {
        let ports = self.tools.tasks();
        for id in ids {
            for tasks in ports.iter().filter(|tasks| tasks.has(id)) {
                tasks.stop(id).await;
            }
        }
    }

    /// Ends the background tasks, and waits until they are reported to the audience.
    pub async fn stop_tasks(&mut self) {
        let ids = self.background.ids();
        self.stop_each(&ids).await;
        let reports = async {
            while !self.background.ids().is_empty() {
                self.background.wait().await;
            }
        };
        // If one does not come, its end is not told.
        let _ = tokio::time::timeout(LAST_WORDS, reports).await;
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
