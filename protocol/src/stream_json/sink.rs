//! Destination of a session's messages: JSON lines for another process, or typed messages for this program.

use std::time::Duration;

use ah_conversation::ExitReason;
use serde_json::Value;

use super::output::Lines;
use super::program::MessageSender;
use crate::message::Message;

/// Takes messages in the order in which they are sent.
pub(crate) enum Sink {
    /// JSON lines.
    Lines(Lines),
    /// Typed messages.
    Messages(MessageSender),
}

impl Sink {
    /// Sends a message of the session.
    pub(crate) fn send(&self, message: Value) {
        match self {
            Self::Lines(lines) => lines.send(message),
            Self::Messages(_) => self.tell(message.into()),
        }
    }

    /// Sends the result of a prompt.
    pub(crate) fn send_result(&self, message: Value, exit_reason: Option<ExitReason>) {
        match self {
            Self::Lines(lines) => lines.send(message),
            Self::Messages(_) => {
                let mut message = message.into();
                if let Message::Result(result) = &mut message {
                    result.exit_reason = exit_reason;
                }
                self.tell(message);
            }
        }
    }

    /// Sends a line that only the protocol of another process has, such as a control request. Returns whether there is
    /// such a process.
    pub(crate) fn send_control(&self, line: Value) -> bool {
        match self {
            Self::Lines(lines) => {
                lines.send(line);
                true
            }
            Self::Messages(_) => false,
        }
    }

    /// Waits until not too many messages are waiting to be read.
    pub(crate) async fn ready(&self) {
        match self {
            Self::Lines(lines) => lines.ready().await,
            Self::Messages(sender) => sender.ready().await,
        }
    }

    /// Returns the error after which nothing could be written any more, if there was one.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            Self::Lines(lines) => lines.fault(),
            Self::Messages(sender) => sender
                .is_abandoned()
                .then(|| "the messages are no longer received".to_owned()),
        }
    }

    /// Sends nothing more, and waits until all lines are written: without limit, or for `patience`.
    pub(crate) fn finish(&self, patience: Option<Duration>) {
        match self {
            Self::Lines(lines) => lines.finish(patience),
            Self::Messages(sender) => sender.close(),
        }
    }

    fn tell(&self, message: Message) {
        if let Self::Messages(sender) = self {
            sender.send(message);
        }
    }
}
