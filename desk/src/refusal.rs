//! Refusals, by which clients decide what to do.

use ah_conversation::{ProviderError, StoreError};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The reason in words, for the client.
    pub text: String,
    /// What kind of reason it is.
    pub kind: RefusalKind,
}

/// Kinds of reasons by which clients decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalKind {
    /// Another process has the session open.
    Busy,
    /// The session has no such message.
    Missing,
    /// The model cannot be asked; its error, if there is no key for it.
    Model(Option<Box<ProviderError>>),
    /// Anything else.
    Failed,
}

impl Refusal {
    /// Returns a refusal for any other reason.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: RefusalKind::Failed,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::failed(error.to_string())
    }
}
