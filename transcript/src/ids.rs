//! Port: UUIDs of lines and messages.

use ah_conversation::{Clock, MessageId};

/// Source of UUIDs beside the message ids; passed in so that tests can repeat them.
pub trait Ids: Clock {
    /// Returns a new UUID.
    fn fresh(&self) -> String;

    /// Returns the UUID that stands for a message.
    fn of(&self, message: &MessageId) -> String;
}
