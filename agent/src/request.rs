//! From a transcript to a request. Pure.

use std::sync::Arc;

use ah_conversation::{Message, Request, Transcript, sendable, trimmed};

use crate::session::Settings;

/// The request that asks for the next answer.
pub(crate) fn request(
    transcript: &Transcript,
    settings: &Settings,
    tools: &crate::Toolbox,
) -> Request {
    Request {
        system: settings.system.clone(),
        tools: tools.specs().clone(),
        messages: messages(transcript, settings),
        max_output: settings.limits.reserved_output,
        thinking: settings.thinking,
        temperature: settings.temperature,
    }
}

fn messages(transcript: &Transcript, settings: &Settings) -> Vec<Arc<Message>> {
    let view = match settings.max_messages {
        Some(count) => trimmed(transcript.view(), count),
        None => transcript.view(),
    };
    sendable(&view)
}

/// How many messages of the view `maxConversationMessages` leaves out.
pub(crate) fn left_out(transcript: &Transcript, max_messages: Option<usize>) -> usize {
    let Some(count) = max_messages else { return 0 };
    let view = transcript.view();
    let all = view.len();
    all - trimmed(view, count).len()
}
