//! The time between prompts, in which another process may use the session.

use ah_conversation::StoreError;
use tokio::sync::mpsc;

use super::Worker;
use crate::Engaged;
use crate::stream_json::queue::Ticket;
use crate::stream_json::result::not_begun;
use crate::stream_json::shared::Work;
use crate::stream_json::speaker::lifecycle::PromptState;
use crate::stream_json::totals::Totals;
use crate::stream_json::wire::Prompt;

impl Worker {
    /// Returns what is to be done next. While there is nothing, other processes may use the session.
    pub(super) async fn awaited(
        &self,
        next: &mut mpsc::UnboundedReceiver<Work>,
        engaged: Option<&mut Engaged>,
    ) -> Option<Work> {
        if let Ok(work) = next.try_recv() {
            return Some(work);
        }
        if let Some(engaged) = engaged {
            engaged.session.rest().await;
        }
        next.recv().await
    }

    /// Takes the session back; returns an error while another process uses it.
    pub(super) async fn wake(&self, engaged: &mut Engaged) -> Option<StoreError> {
        match engaged.session.wake().await {
            Ok(false) => None,
            Ok(true) => {
                let messages = engaged.session.transcript().messages().iter();
                let now = self.shared.link.ids.now();
                let totals = Totals::of(messages.map(|message| &**message), now);
                *self.shared.totals.lock() = totals;
                self.speaker.keep_files(self.files(engaged));
                None
            }
            Err(error) => Some(error),
        }
    }

    /// Answers a prompt that cannot run now.
    pub(super) fn turned_away(&mut self, prompt: &Prompt, ticket: &Ticket, error: &StoreError) {
        if self.shared.queue.begin(ticket) {
            let uuid = prompt.uuid.as_deref();
            self.speaker.follow(uuid, PromptState::Started);
            self.finish(not_begun(&error.to_string()), None);
            self.speaker.follow(uuid, PromptState::Completed);
        }
        self.shared.queue.leave();
    }
}
