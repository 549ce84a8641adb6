//! What hosts and readers of transcripts know this program and its messages by.

use ah_conversation::{Clock, MessageId, SessionId, Time};
use ah_ids::{SystemClock, uuid_of};
use ah_transcript::Ids;

/// Version of the official program that this one is compatible with; the SDKs read the digits.
pub const STANDS_IN_FOR: &str = "2.1.332";

/// Clock and ids of the system.
#[derive(Default)]
pub struct SystemIds(SystemClock);

impl Clock for SystemIds {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn message_id(&self) -> MessageId {
        self.0.message_id()
    }
}

impl Ids for SystemIds {
    fn fresh(&self) -> String {
        self.of(&self.message_id())
    }

    fn of(&self, message: &MessageId) -> String {
        uuid_of(&SessionId::from(message.as_str()))
    }
}
