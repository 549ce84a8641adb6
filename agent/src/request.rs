//! From a transcript to a request. Pure.

use std::mem;
use std::sync::Arc;

use ah_conversation::{Message, Request, Transcript, extend_sendable, sendable, trimmed};

use crate::Toolbox;
use crate::session::SessionSettings;

/// The messages of the last request, kept so that the next one costs what is new in it.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    messages: Arc<Vec<Arc<Message>>>,
    /// How many messages of the transcript they stand for.
    seen: usize,
    /// The summary that they begin with.
    summary: Option<usize>,
    /// How many messages of the view are left out of them, and of how many that was told.
    left_out: usize,
    told: usize,
}

impl Sent {
    /// The request that asks for the next answer.
    pub(crate) fn request(
        &mut self,
        transcript: &Transcript,
        settings: &SessionSettings,
        tools: &Toolbox,
    ) -> Request {
        self.catch_up(transcript, settings.max_messages);
        Request {
            system: settings.system.clone(),
            tools: tools.specs().clone(),
            messages: self.messages.clone(),
            max_output: settings.limits.reserved_output,
            thinking: settings.thinking,
            sampling: settings.sampling.clone(),
        }
    }

    fn catch_up(&mut self, transcript: &Transcript, max_messages: Option<usize>) {
        let grows = max_messages.is_none() && self.summary == transcript.summary();
        if grows {
            let newer = &transcript.messages()[self.seen..];
            extend_sendable(Arc::make_mut(&mut self.messages), newer);
        } else {
            let view = transcript.view();
            let all = view.len();
            let view = trimmed(view, max_messages.unwrap_or(0));
            self.left_out = all - view.len();
            self.messages = Arc::new(sendable(&view));
        }
        self.seen = transcript.messages().len();
        self.summary = transcript.summary();
    }

    /// How many messages `maxConversationMessages` leaves out of the last request, where these are more than it was
    /// told before.
    pub(crate) fn left_out_anew(&mut self) -> Option<usize> {
        let told = mem::replace(&mut self.told, self.left_out);
        (self.left_out > told).then_some(self.left_out)
    }
}
