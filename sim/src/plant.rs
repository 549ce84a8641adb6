//! Faults that are planted, to show that they are found.

use crate::law::Law;

/// A fault of a port, put between the agent and what is real. None of it is in the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// A write is acknowledged and not made.
    UnwrittenAcknowledged,
    /// Messages are not written, all else is.
    MessageLost,
    /// The beginning of a call is not in the journal.
    StartNotJournalled,
    /// The end of a call is not in the journal.
    EndNotJournalled,
    /// Results are stored for each other's calls.
    ResultsSwapped,
    /// What the user says is stored with other words.
    WordsChanged,
    /// An id is given to two messages.
    IdUsedTwice,
    /// A tool runs twice for one call.
    EffectTwice,
    /// A tool does something else than it says.
    EffectUntold,
    /// Calls that run together get each other's results.
    ResultsMixedUp,
    /// Queued messages are delivered again under another id.
    MailTwice,
    /// Queued messages are not delivered.
    MailLost,
    /// Queued messages are delivered in the wrong order.
    MailReversed,
    /// The model never has enough.
    CallsForEver,
    /// The disk says that it has synced what it has not.
    SyncIgnored,
    /// What files were before a call is not recorded.
    FilesNotRecorded,
    /// Watchers are shown a message that is stored with other words.
    ShownOtherwise,
    /// Watchers are not shown a message.
    NotShown,
    /// A run is acknowledged and not in the queue of the fleet.
    RunForgotten,
    /// Mail for a session of the fleet wakes no run.
    MailWakesNobody,
    /// A request is sent without one of its results.
    RequestWithoutResult,
    /// A request is sent with a result that names another call.
    CallIdChanged,
    /// The disk does not sync the queues of sessions.
    QueueSyncIgnored,
    /// The disk loses a write that it has synced when the power fails.
    WriteForgotten,
    /// The disk syncs one time what it was to sync the time before.
    SyncLate,
    /// A write is acknowledged and made with the next one.
    AcknowledgedEarly,
    /// The beginning of a call is journalled with what comes after it.
    BegunTooLate,
    /// A copy of a session is empty.
    CopyEmpty,
    /// An answer to a question is acknowledged and not stored.
    AnswerForgotten,
    /// Mail counts as read before it is in the conversation.
    MailTakenEarly,
    /// A change is acknowledged that the log does not have.
    CommitForgotten,
    /// Each worker begins the run of a schedule. The test does not look for it: two rarely look in the same moment.
    ScheduleTwice,
    /// A call that a host has denied is allowed.
    DenialIgnored,
    /// What a hook has said against something is not heard.
    HookUnheard,
    /// A host is not told something.
    HostNotTold,
    /// A run is not told its budget.
    BudgetForgotten,
    /// A server that has died behind an effect is taken for one that was not called.
    DeathHidden,
}

impl PlantedFault {
    /// Those that the test finds, each with the law that it breaks.
    pub const ALL: [(Self, Law); 36] = [
        (Self::UnwrittenAcknowledged, Law::Kept),
        (Self::MessageLost, Law::Kept),
        (Self::StartNotJournalled, Law::Reported),
        (Self::EndNotJournalled, Law::Kept),
        (Self::ResultsSwapped, Law::Kept),
        (Self::WordsChanged, Law::Continued),
        (Self::IdUsedTwice, Law::Accepted),
        (Self::EffectTwice, Law::Once),
        (Self::EffectUntold, Law::Reported),
        (Self::ResultsMixedUp, Law::Once),
        (Self::MailTwice, Law::Delivered),
        (Self::MailLost, Law::Delivered),
        (Self::MailReversed, Law::Delivered),
        (Self::CallsForEver, Law::Ended),
        (Self::SyncIgnored, Law::Kept),
        (Self::FilesNotRecorded, Law::Undone),
        (Self::ShownOtherwise, Law::Shown),
        (Self::NotShown, Law::Shown),
        (Self::RunForgotten, Law::Delivered),
        (Self::MailWakesNobody, Law::Delivered),
        (Self::RequestWithoutResult, Law::Accepted),
        (Self::CallIdChanged, Law::Accepted),
        (Self::QueueSyncIgnored, Law::Delivered),
        (Self::WriteForgotten, Law::Kept),
        (Self::SyncLate, Law::Kept),
        (Self::AcknowledgedEarly, Law::Accepted),
        (Self::BegunTooLate, Law::Reported),
        (Self::CopyEmpty, Law::Continued),
        (Self::AnswerForgotten, Law::Answered),
        (Self::MailTakenEarly, Law::Delivered),
        (Self::CommitForgotten, Law::Kept),
        (Self::DenialIgnored, Law::Permitted),
        (Self::HookUnheard, Law::Permitted),
        (Self::HostNotTold, Law::Shown),
        (Self::BudgetForgotten, Law::Bounded),
        (Self::DeathHidden, Law::Reported),
    ];

    /// Returns whether only fleets can show it.
    pub fn is_of_fleet(self) -> bool {
        matches!(
            self,
            Self::RunForgotten
                | Self::MailWakesNobody
                | Self::AnswerForgotten
                | Self::MailTakenEarly
                | Self::CommitForgotten
                | Self::ScheduleTwice
        )
    }
}
