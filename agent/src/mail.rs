//! Messages queued by other processes: steering during a run, follow-ups at its end.

use ah_conversation::{
    ContentBlock, EventKind, Mail, MailKind, Message, Origin, Step, StoreError, next,
};

use crate::{RunOutcome, Session, Stop, finish};

/// Marks steering messages, for the model and for readers of the database.
const STEERING: &str = "[STEERING]";

impl Session {
    /// Runs the messages queued while the session was idle, to the end or until `stop`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn run_mail(&mut self, stop: &Stop) -> Result<Option<RunOutcome>, StoreError> {
        let mut mail = self.ports.store.mail(MailKind::Steer).await?;
        mail.extend(self.ports.store.mail(MailKind::FollowUp).await?);
        let message_count = mail.len();
        let Some(first) = mail.first() else {
            return Ok(None);
        };
        let (started, stop) = self.begin_time(stop);
        self.announce(first.content.clone());
        // The first one is the prompt of the run.
        let mut origin = Origin::Prompt;
        for queued in mail {
            let origin = std::mem::replace(&mut origin, Origin::FollowUp);
            self.deliver_follow_up(queued, origin, message_count)
                .await?;
        }
        self.go_on(started, &stop).await.map(Some)
    }

    /// Goes on with a run that another process has left unfinished, or else runs the queued messages; `None` if there is
    /// neither.
    ///
    /// # Errors
    ///
    /// As [`Session::run_mail`].
    pub async fn resume(&mut self, stop: &Stop) -> Result<Option<RunOutcome>, StoreError> {
        let now = self.ports.clock.now();
        let step = next(&self.transcript, &self.settings.limits, now);
        if matches!(step, Step::Finish(_)) && !self.owes_check() {
            return self.run_mail(stop).await;
        }
        let (started, stop) = self.begin_time(stop);
        self.announce(String::new());
        self.go_on(started, &stop).await.map(Some)
    }

    /// Appends queued steering and the reports of background tasks; returns whether there were any.
    pub(crate) async fn take_steering(&mut self) -> Result<bool, StoreError> {
        let has_reports = self.take_reports().await?;
        Ok(self.take_mail().await? || has_reports)
    }

    /// Appends queued steering; returns whether there was any.
    pub(crate) async fn take_mail(&mut self) -> Result<bool, StoreError> {
        let mail = self.ports.store.mail(MailKind::Steer).await?;
        let message_count = mail.len();
        for queued in mail {
            self.emit(&EventKind::SteeringReceived {
                content: queued.content.clone(),
                message_count,
            });
            let text = format!("{STEERING} {}", queued.content);
            self.deliver(queued, Origin::Steering, text).await?;
        }
        Ok(message_count > 0)
    }

    /// Appends the first reason to continue a run that would end; returns whether there was one. Steering may have
    /// arrived with the last answer.
    pub(crate) async fn is_continued(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        if self.take_steering().await? || self.is_continued_by_hooks(stop).await? {
            return Ok(true);
        }
        let run = self.transcript.run();
        let reminder = finish::reminder(run, &self.settings);
        if let Some(text) = reminder {
            self.append(Origin::Reminder, vec![ContentBlock::text(text)])
                .await?;
            return Ok(true);
        }
        let mail = self.ports.store.mail(MailKind::FollowUp).await?;
        let message_count = mail.len();
        for queued in mail {
            self.deliver_follow_up(queued, Origin::FollowUp, message_count)
                .await?;
        }
        Ok(message_count > 0
            || self.await_reports(stop).await?
            || self.asks_again().await?
            || self.is_continued_by_check(stop).await?)
    }

    /// Asks for an answer once more if the last one is empty, unless a program answers or a hook wants no more.
    async fn asks_again(&mut self) -> Result<bool, StoreError> {
        let silence = finish::silence(self.transcript.run());
        let is_wanted = !self.stop_prevented && !self.settings.limits.allows_repetition;
        let asks = is_wanted && silence == Some(finish::Silence::First);
        if asks {
            let content = vec![ContentBlock::text(finish::UNANSWERED)];
            self.append(Origin::Reminder, content).await?;
        }
        Ok(asks)
    }

    /// Reports and appends a follow-up, one of `message_count`.
    async fn deliver_follow_up(
        &mut self,
        queued: Mail,
        origin: Origin,
        message_count: usize,
    ) -> Result<(), StoreError> {
        let text = queued.content.clone();
        self.emit(&EventKind::FollowupReceived {
            content: text.clone(),
            message_count,
        });
        self.deliver(queued, origin, text).await
    }

    /// The id of the queued message becomes the message's id: however often it is read, it is stored once.
    async fn deliver(
        &mut self,
        queued: Mail,
        origin: Origin,
        text: String,
    ) -> Result<(), StoreError> {
        let message = self.message(
            ah_conversation::Role::User,
            origin,
            vec![ContentBlock::Text { text }],
        );
        self.append_with(
            Message {
                id: queued.id,
                ..message
            },
            Vec::new(),
        )
        .await
    }
}
