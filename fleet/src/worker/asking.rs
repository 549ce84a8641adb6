//! Questions of a run, which wait in the store until somebody answers from elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{Question, SessionId, StoreError, ToolUseId};
use ah_store::fleet::{Asker, Fleet};
use async_trait::async_trait;
use tokio::time::{sleep, timeout};

use super::around::Surroundings;
use super::pace::Meter;
use ah_engine::person::Ask;

/// The watcher of a run that nobody else watches: what happens is in the store.
pub(super) struct Unwatched {
    /// Counts what happens.
    pub meter: Arc<Meter>,
    /// Learns of the first message.
    pub is_again: Arc<AtomicBool>,
}

impl Watcher for Unwatched {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Notice(text) = update {
            tracing::info!("{text}");
        }
        if let SessionUpdate::Stored(_) = update {
            self.is_again.store(false, Ordering::Relaxed);
        }
        if update.text().is_none()
            && let Some(event) = update.event()
        {
            self.meter.count(&event);
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

/// Asks by the store.
pub(super) struct AskFleet {
    pub fleet: Arc<dyn Fleet>,
    pub session: SessionId,
    /// Names those who ask.
    pub around: Arc<dyn Surroundings>,
    /// How long a question waits.
    pub within: Duration,
    /// Whether the calls are those that the last worker has left: until a message is stored.
    pub is_again: Arc<AtomicBool>,
}

#[async_trait]
impl Ask for AskFleet {
    async fn ask(
        &self,
        question: Question,
        call: Option<&ToolUseId>,
    ) -> Option<BTreeMap<String, String>> {
        let answers = match self.answers(&question, call).await {
            Ok(answers) => answers?,
            Err(error) => {
                tracing::warn!("a question has no answer: {error}");
                return None;
            }
        };
        // As many as there are choices, or it is no answer.
        let is_complete = answers.len() == question.choices.len();
        let asked = question.choices.into_iter().map(|choice| choice.question);
        is_complete.then(|| asked.zip(answers).collect())
    }
}

impl AskFleet {
    /// Waits for the answers. Nothing hints at them: an answer is found with the next beat.
    async fn answers(
        &self,
        question: &Question,
        call: Option<&ToolUseId>,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let asker = self.around.name();
        let (fleet, session, asker) = (&self.fleet, &self.session, asker.as_str());
        let is_again = self.is_again.load(Ordering::Relaxed);
        let who = Asker {
            name: asker,
            call,
            is_again,
        };
        fleet.ask(session, question, &who).await?;
        let answered = async {
            loop {
                match fleet.take_answer(session, asker).await {
                    Ok(None) => sleep(fleet.timing().beat).await,
                    answered => return answered,
                }
            }
        };
        if let Ok(answered) = timeout(self.within, answered).await {
            return answered;
        }
        fleet.withdraw_question(session, asker).await?;
        // One that came just now counts.
        fleet.take_answer(session, asker).await
    }
}
