//! Faults that are planted, to show that they are found.

/// A fault of a port, put between the agent and what is real. None of it is in the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// A write is acknowledged and not made.
    UnwrittenAcknowledged,
    /// Messages are not written, all else is.
    MessageLost,
    /// The beginning of a call is not in the journal.
    StartNotJournalled,
    /// The end of a call is not in the journal.
    EndNotJournalled,
    /// An id is given to two messages.
    IdUsedTwice,
    /// A tool runs twice for one call.
    EffectTwice,
    /// A tool does something else than it says.
    EffectUntold,
    /// Queued messages are delivered again under another id.
    MailTwice,
    /// Queued messages are not delivered.
    MailLost,
    /// Queued messages are delivered in the wrong order.
    MailReversed,
    /// Results are stored for the wrong calls.
    ResultsSwapped,
}

impl Plant {
    /// All faults.
    pub const ALL: [Self; 11] = [
        Self::UnwrittenAcknowledged,
        Self::MessageLost,
        Self::StartNotJournalled,
        Self::EndNotJournalled,
        Self::IdUsedTwice,
        Self::EffectTwice,
        Self::EffectUntold,
        Self::MailTwice,
        Self::MailLost,
        Self::MailReversed,
        Self::ResultsSwapped,
    ];
}
