//! The names of what must hold, and of what does not.

use std::fmt;

use ah_conversation::StoreError;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// A request continues the one before, with the same messages.
    Continued,
    /// The history of a request is one that every vendor accepts.
    Accepted,
    /// What was acknowledged is there: messages in order, and results of calls as they were journalled.
    Kept,
    /// No call has its effect twice, and none is reported that did not happen.
    Once,
    /// Each effect is reported, or as one that may have happened.
    Reported,
    /// Queued messages arrive once and in order.
    Delivered,
    /// An answer to a question arrives.
    Answered,
    /// A rewind gives back what the files had, and the way forth what they had before it.
    Undone,
    /// What watchers are shown is what is stored, and all of it.
    Shown,
    /// A call that may change something runs only if hosts and hooks let it, with the input that they have seen.
    Permitted,
    /// All agents of a run together stay within its budget, but for the answer of each that is on its way.
    Bounded,
    /// Each run ends.
    Ended,
    /// No store and no queue fails.
    Usable,
}

/// A law that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The law.
    pub law: Law,
    /// What is the case instead, a sentence.
    pub what: String,
}

impl Law {
    pub(crate) fn broken(self, what: impl Into<String>) -> Fault {
        Fault {
            law: self,
            what: what.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} does not hold: {}", self.law, self.what)
    }
}

/// Returns the fault without the file, whose name is another each time.
pub(crate) fn unusable(error: &StoreError) -> Fault {
    Law::Usable.broken(format!("{}: {}", error.action, error.reason))
}
