//! Port: time and fresh ids. The driver of a session passes them in, so that a test or a replay can repeat them.

use serde::{Deserialize, Serialize};

use crate::MessageId;

/// A point in time: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Returns whole seconds since the Unix epoch, as the database and the events store them.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns the time `milliseconds` later.
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add_unsigned(milliseconds))
    }

    /// Returns the milliseconds from `earlier` until this time, 0 if the clock was set back in between.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }
}

/// Source of the current time and of message ids.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Time;
    /// Returns a unique message id, greater than all earlier ones of this clock.
    fn message_id(&self) -> MessageId;
}
