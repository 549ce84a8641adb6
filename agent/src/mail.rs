//! Words that reach a session from other processes: steering during a run, follow-ups when it would end.

use ah_conversation::{ContentBlock, EventKind, Mail, MailKind, Message, Origin, StoreError};

use crate::{RunOutcome, Session, Stop, finish};

/// How a steering message begins, for the model and for everybody who reads the database.
const STEERING: &str = "[STEERING]";

impl Session {
    /// Runs what has come from other processes while nothing was on, to its end or until `stop`; `None` if nothing has.
    ///
    /// # Errors
    /// When the conversation cannot be kept; every other failure is a [`RunOutcome`].
    pub async fn run_mail(&mut self, stop: &Stop) -> Result<Option<RunOutcome>, StoreError> {
        let mut mail = self.ports.store.mail(MailKind::Steer).await?;
        mail.extend(self.ports.store.mail(MailKind::FollowUp).await?);
        let message_count = mail.len();
        let Some(first) = mail.first() else {
            return Ok(None);
        };
        let (started, stop) = self.begin_time(stop);
        self.announce(first.content.clone());
        // The first is the prompt of the run.
        let mut origin = Origin::Prompt;
        for letter in mail {
            self.emit(EventKind::FollowupReceived {
                content: letter.content.clone(),
                message_count,
            });
            let text = letter.content.clone();
            let origin = std::mem::replace(&mut origin, Origin::FollowUp);
            self.deliver(letter, origin, text).await?;
        }
        self.go_on(started, &stop).await.map(Some)
    }

    /// Appends the steering that has arrived, and what came of tasks in the background; says whether there was any.
    pub(crate) async fn take_steering(&mut self) -> Result<bool, StoreError> {
        let has_news = self.take_news().await?;
        let mail = self.ports.store.mail(MailKind::Steer).await?;
        let message_count = mail.len();
        for letter in mail {
            self.emit(EventKind::SteeringReceived {
                content: letter.content.clone(),
                message_count,
            });
            let text = format!("{STEERING} {}", letter.content);
            self.deliver(letter, Origin::Steering, text).await?;
        }
        Ok(has_news || message_count > 0)
    }

    /// Appends what keeps a run going that would end; says whether there was anything. Steering may have come with the
    /// last answer.
    pub(crate) async fn keeps_going(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        if self.take_steering().await? || self.is_kept_by_hooks(stop).await? {
            return Ok(true);
        }
        let run = self.transcript.run();
        let owed = finish::owed(run, &self.settings);
        if let Some(text) = owed {
            self.append(Origin::Reminder, vec![ContentBlock::text(text)])
                .await?;
            return Ok(true);
        }
        let mail = self.ports.store.mail(MailKind::FollowUp).await?;
        let message_count = mail.len();
        for letter in mail {
            self.emit(EventKind::FollowupReceived {
                content: letter.content.clone(),
                message_count,
            });
            let text = letter.content.clone();
            self.deliver(letter, Origin::FollowUp, text).await?;
        }
        Ok(message_count > 0 || self.awaits_news(stop).await?)
    }

    /// The mail's id becomes the message's id: however often it is read, it is stored once.
    async fn deliver(
        &mut self,
        letter: Mail,
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
                id: letter.id,
                ..message
            },
            Vec::new(),
        )
        .await
    }
}
