//! Notices for the user about an opened session: interruption, damage and recovery.

use std::fmt;
use std::path::PathBuf;

/// A notice for the user about an opened session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The last process died during a run.
    Interrupted,
    /// Number of messages without content that were removed.
    EmptyMessages(usize),
    /// The database was damaged.
    Salvaged {
        /// Path of the damaged file.
        kept: PathBuf,
        /// Messages recovered.
        messages: usize,
    },
    /// The queue was damaged.
    QueueSalvaged {
        /// Path of the damaged file.
        kept: PathBuf,
        /// Queued messages recovered, read ones included.
        messages: usize,
    },
    /// Queued messages that this user has not sent were removed.
    QueuedByOthers {
        /// Number of them.
        count: usize,
        /// Beginning of the first.
        first: String,
    },
    /// The write-ahead log was unreadable; the latest writes may be lost.
    LogLost {
        /// Path of the unreadable file.
        kept: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => write!(
                f,
                "the last run of this session was interrupted; continuing from what is stored"
            ),
            Self::EmptyMessages(1) => write!(f, "removed 1 message without content"),
            Self::EmptyMessages(count) => write!(f, "removed {count} messages without content"),
            Self::Salvaged { kept, messages } => write!(
                f,
                "the session database was damaged: recovered {messages} messages; the damaged file is kept as `{}`",
                kept.display()
            ),
            Self::QueueSalvaged { kept, messages } => write!(
                f,
                "the session's queue was damaged: recovered {messages} queued messages, read ones included; the \
                 damaged file is kept as `{}`",
                kept.display()
            ),
            Self::QueuedByOthers { count, first } => write!(
                f,
                "the session came with queued messages, which were removed ({count}): `{first}`"
            ),
            Self::LogLost { kept } => write!(
                f,
                "the write-ahead log of the session database was damaged: the latest messages may be lost; the damaged \
                 file is kept as `{}`",
                kept.display()
            ),
        }
    }
}
