//! Conversion of a transcript into a request. Pure.

use std::mem;
use std::sync::Arc;

use ah_conversation::{Message, Request, Transcript, extend_sendable, sendable, trimmed};

use crate::{SessionSettings, Toolbox};

/// The messages of the last request, kept so that the next one only adds the new ones.
#[derive(Debug, Default)]
pub(crate) struct SentRequest {
    messages: Arc<Vec<Arc<Message>>>,
    /// Number of messages of the transcript already included.
    seen: usize,
    /// Index of the summary at their beginning.
    summary: Option<usize>,
    /// Number of messages of the view left out, and the number last reported.
    left_out: usize,
    reported: usize,
}

impl SentRequest {
    /// Returns the request for the next answer.
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

    /// Returns how many messages `maxConversationMessages` leaves out of the last request, if more than last
    /// reported.
    pub(crate) fn left_out_anew(&mut self) -> Option<usize> {
        let reported = mem::replace(&mut self.reported, self.left_out);
        (self.left_out > reported).then_some(self.left_out)
    }
}
