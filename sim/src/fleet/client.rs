//! Those who want something of a fleet: each does it, and notes what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{MailKind, SessionId, StoreError, Time};
use ah_fleet::worker::next_time;
use ah_store::Queue;
use ah_store::fleet::{Fleet, NewRun, Wish};
use tokio::time::Instant;

use super::shared::Shared;
use crate::plant::PlantedFault;
use crate::world::{Answered, Sent};

/// How long a question waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// How long after a wish to stop an answer need not arrive.
const STOPPING: Duration = Duration::from_secs(120);
/// What a schedule has done.
pub(super) const SCHEDULED: &str = "scheduled-1.";

/// Somebody who wants something of the fleet.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) fleet: Arc<dyn Fleet>,
    pub(super) is_remote: bool,
}

impl Client {
    /// Notes a message before it is sent; returns its text.
    fn note(&self, session: &SessionId, kind: MailKind, is_run: bool) -> String {
        let world = self.shared.world(session);
        let mut state = world.state();
        let text = format!("mail-{}.", state.mail.len() + 1);
        state.mail.push(Sent {
            kind,
            text: text.clone(),
            is_run,
            is_acknowledged: false,
        });
        text
    }

    /// The last message is acknowledged.
    fn acknowledge(&self, session: &SessionId) {
        let world = self.shared.world(session);
        let mut state = world.state();
        if let Some(sent) = state.mail.last_mut() {
            sent.is_acknowledged = true;
        }
        drop(state);
        self.shared.tell("it is queued");
    }

    pub(super) async fn queue(&self, session: &SessionId) -> Result<(), StoreError> {
        let prompt = self.note(session, MailKind::FollowUp, true);
        let run = self.new_run(session, prompt);
        match self.shared.planted(PlantedFault::RunForgotten, 2) {
            true if self.is_remote => {}
            true => Queue::open(&self.shared.paths(session))?.send_as(
                &run.message,
                MailKind::FollowUp,
                &run.prompt,
            )?,
            false => drop(self.fleet.enqueue(&run).await?),
        }
        self.acknowledge(session);
        Ok(())
    }

    fn new_run(&self, session: &SessionId, prompt: String) -> NewRun {
        NewRun {
            session: session.clone(),
            message: self.shared.message_id(),
            prompt,
            command: Vec::new(),
            folder: "/".into(),
            model: None,
            priority: 0,
            delay: Duration::ZERO,
            attempts: 1_000,
            answer_within: Some(ANSWER_WITHIN),
        }
    }

    pub(super) async fn send(&self, session: &SessionId, kind: MailKind) -> Result<(), StoreError> {
        let world = self.shared.world(session);
        let is_run = |sent: &Sent| sent.is_run && sent.is_acknowledged;
        if !world.state().mail.iter().any(is_run) {
            // A message waits for the next run.
            return Ok(());
        }
        let text = self.note(session, kind, false);
        match self.shared.planted(PlantedFault::MailWakesNobody, 1) && !self.is_remote {
            true => drop(Queue::open(&self.shared.paths(session))?.send(kind, &text)?),
            false => drop(self.fleet.send(session, kind, &text).await?),
        }
        self.acknowledge(session);
        Ok(())
    }

    pub(super) async fn answer(&self, session: &SessionId) -> Result<(), StoreError> {
        let waiting = self.fleet.questions(session).await?;
        let Some(first) = waiting.first() else {
            return Ok(());
        };
        let world = self.shared.world(session);
        let text = {
            let mut state = world.state();
            let text = format!("answer-{}.", state.answers.len() + 1);
            let is_excused = state.stopped.is_some_and(|at| at.elapsed() < STOPPING);
            state.answers.push(Answered {
                text: text.clone(),
                is_due: false,
                is_excused,
            });
            text
        };
        let answers = vec![text.clone(); first.question.choices.len()];
        let is_counted = self.fleet.answer(session, first.number, &answers).await?;
        if is_counted && let Some(answer) = world.state().answers.last_mut() {
            answer.is_due = !answer.is_excused;
            self.shared.tell(&format!("{text} counts"));
        }
        Ok(())
    }

    pub(super) async fn wish(&self, session: &SessionId, wish: Wish) -> Result<(), StoreError> {
        let world = self.shared.world(session);
        {
            // A run that is stopped waits for no answers.
            let mut state = world.state();
            state.stopped = Some(Instant::now());
            state
                .answers
                .iter_mut()
                .for_each(|answer| answer.is_due = false);
        }
        let count = self.fleet.wish(session, wish).await?;
        self.shared.tell(&format!("it concerns {count} runs"));
        Ok(())
    }

    pub(super) async fn schedule(&self) -> Result<i64, StoreError> {
        let now = self.fleet.now().await?;
        let due = next_time("* * * * *", now).unwrap_or(Time(i64::MAX));
        let run = self.new_run(&self.ids_of_schedule(), SCHEDULED.to_owned());
        self.fleet.schedule("* * * * *", due, &run).await
    }

    /// Stands for those of every start.
    fn ids_of_schedule(&self) -> SessionId {
        SessionId::from("schedule")
    }
}
