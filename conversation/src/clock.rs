//! Time and fresh ids, as a port: whoever drives a session hands them in, so that a test or a replay repeats them.

use serde::{Deserialize, Serialize};

use crate::MessageId;

/// A moment: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Whole seconds since the Unix epoch, as the database and the events give them.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment, `milliseconds` later.
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add_unsigned(milliseconds))
    }

    /// Milliseconds from `earlier` to this moment, 0 if the clock was set back in between.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }
}

/// What tells the time and mints message ids.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Time;
    /// An id that no other message has, greater than all that this clock gave before.
    fn message_id(&self) -> MessageId;
}
