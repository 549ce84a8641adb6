//! The event that an update is for programs and for the log: the only place where events are made of updates.

use std::borrow::Cow;

use ah_conversation::{
    CallReason, Cost, Delta, EventKind, FallbackNotice, Message, Origin, Response, RetryNotice,
    StreamEvent,
};

use super::SessionUpdate;

impl<'a> SessionUpdate<'a> {
    /// Returns the next piece of the answer's text, if it is one. Its event is made for each piece only where programs
    /// read it.
    pub fn text(&self) -> Option<&'a str> {
        match *self {
            Self::Piece(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            }) => Some(text),
            _ => None,
        }
    }

    /// Returns the event, if the update is one.
    pub fn event(&self) -> Option<Cow<'a, EventKind>> {
        let event = match *self {
            Self::Happened(event) => return Some(Cow::Borrowed(event)),
            Self::Piece(piece) => of_piece(piece)?,
            Self::Stored(message) => of_answer(message, message.response.as_ref()?),
            Self::Call(call, _, place) => EventKind::ToolCallStart {
                tool_name: call.name.clone(),
                tool_input: call.input.to_value().to_string(),
                tool_key: place.key.to_owned(),
                tool_index: place.index,
                tool_count: place.count,
            },
            Self::Result(result, place) => EventKind::ToolCallEnd {
                tool_name: result.tool_name.clone(),
                tool_output: result.text(),
                is_error: result.is_error,
                duration_ms: result.duration_ms,
                tool_key: place.key.to_owned(),
                tool_index: place.index,
                tool_count: place.count,
                tool_lines: result.lines,
            },
            Self::Notice(_)
            | Self::Asking { .. }
            | Self::Block(_)
            | Self::Progress { .. }
            | Self::Denied { .. }
            | Self::Mode(_)
            | Self::HookStarted(_)
            | Self::HookEnded(..)
            | Self::Task(..)
            | Self::Subagent(..) => return None,
        };
        Some(Cow::Owned(event))
    }

    /// Returns the event as the log keeps it. Outputs are left out, since the store has them whole.
    pub(crate) fn record(&self) -> Option<EventKind> {
        // Calls and pieces of text come often, and are not kept.
        if matches!(self, Self::Call(..)) || self.text().is_some() {
            return None;
        }
        let event = self.event().filter(|event| event.is_stored())?;
        let mut event = event.into_owned();
        if let EventKind::ToolCallEnd { tool_output, .. } = &mut event {
            tool_output.clear();
        }
        Some(event)
    }
}

fn of_piece(piece: &StreamEvent) -> Option<EventKind> {
    Some(match piece {
        StreamEvent::Sent { payload_bytes, .. } => EventKind::ApiCallStart {
            payload_bytes: *payload_bytes,
        },
        StreamEvent::Delta {
            delta: Delta::Text(text),
            ..
        } => EventKind::TextDelta { text: text.clone() },
        StreamEvent::Fallback(FallbackNotice {
            model,
            instead_of,
            error: Some(error),
        }) => EventKind::Fallback {
            from_model: instead_of.clone(),
            to_model: model.name.clone(),
            error: error.clone(),
        },
        StreamEvent::Retry(RetryNotice {
            attempt,
            delay,
            status,
            error,
            ..
        }) => EventKind::Retry {
            attempt: *attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            status: status.unwrap_or(0),
            error: error.clone(),
        },
        _ => return None,
    })
}

fn of_answer(message: &Message, response: &Response) -> EventKind {
    EventKind::ApiCallEnd {
        message_id: message.id.clone(),
        input_tokens: response.usage.input_tokens,
        output_tokens: response.usage.output_tokens,
        cache_creation_input_tokens: response.usage.cache_creation_input_tokens,
        cache_read_input_tokens: response.usage.cache_read_input_tokens,
        api_latency_ms: response.latency_ms,
        model: response.model.clone(),
        cost_usd: response.cost.map(Cost::usd),
        reason: matches!(message.origin, Origin::Summary { .. }).then_some(CallReason::Summary),
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::{ResultBlock, ToolResult};

    use super::*;
    use crate::CallPlace;

    #[test]
    fn outputs_and_pieces_are_shown_and_not_kept() {
        let result = ToolResult {
            tool_use_id: "call".into(),
            tool_name: "Bash".to_owned(),
            content: vec![ResultBlock::Text {
                text: "done".to_owned(),
            }],
            is_error: false,
            duration_ms: 1,
            details: None,
            lines: None,
        };
        let place = CallPlace {
            key: "make",
            index: 1,
            count: 2,
        };
        let output = |event: Option<EventKind>| match event {
            Some(EventKind::ToolCallEnd { tool_output, .. }) => tool_output,
            other => panic!("{other:?}"),
        };
        let update = SessionUpdate::Result(&result, place);
        assert_eq!(output(update.event().map(Cow::into_owned)), "done");
        assert_eq!(output(update.record()), "");
        let piece = StreamEvent::Delta {
            index: 0,
            delta: Delta::Text("word".to_owned()),
        };
        let update = SessionUpdate::Piece(&piece);
        assert_eq!(update.text(), Some("word"));
        let event = EventKind::TextDelta {
            text: "word".to_owned(),
        };
        assert_eq!(update.event().as_deref(), Some(&event));
        assert_eq!(update.record(), None);
    }
}
