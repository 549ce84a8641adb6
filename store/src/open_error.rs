//! Error of opening a session for writing.

use std::fmt;

use ah_conversation::StoreError;

use crate::sqlite::lock::Holder;

/// Error of opening a session for writing.
#[derive(Debug)]
pub enum OpenError {
    /// Another process holds the session. A prompt can be put into its [`Queue`](crate::Queue).
    Busy(Holder),
    /// The session cannot be read or written.
    Store(StoreError),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(Holder { pid: Some(pid) }) => {
                write!(f, "the session is open in another process (pid {pid})")
            }
            Self::Busy(Holder { pid: None }) => {
                write!(f, "the session is open in another process")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
