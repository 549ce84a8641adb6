//! The error of configuration, assembly and runs: what failed, on what, and what to do.

use std::fmt;
use std::sync::Arc;

use ah_conversation::StoreError;
use ah_git::NoGit;

/// Error with a message for the user.
///
/// The message says what failed and on what; the hint, if there is one, what to try. [`kind`](Error::kind) is for
/// programs that react to it, [`source`](std::error::Error::source) for logs.
///
/// ```
/// use ah_config::{Error, ErrorKind};
///
/// let error = Error::usage("the agent has no model").hint("name one");
/// assert_eq!(error.kind, ErrorKind::Usage);
/// assert_eq!(error.to_string(), "the agent has no model");
/// assert_eq!(error.hint.as_deref(), Some("name one"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Error {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// The failure and its object, in one line. Empty if there is nothing to say.
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of [`Error`] that a caller may want to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Anything else: a file that cannot be read, a setting with a wrong value, a run that failed.
    Failure,
    /// An option makes no sense, or contradicts another one.
    Usage,
    /// The model cannot be asked: no such name, no key, no price.
    Provider,
    /// The session's database cannot be read or written.
    Store,
    /// Another process holds the session; the same may succeed later.
    SessionBusy,
    /// There is no such session, or it has no such message.
    NotFound,
    /// The required sandbox cannot be built here.
    SandboxUnavailable,
    /// The reader of the output has closed it.
    OutputClosed,
}

impl Error {
    /// Returns an error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            source: None,
        }
    }

    /// Returns an error of kind [`ErrorKind::Failure`].
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failure, message)
    }

    /// Returns an error of kind [`ErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds what the user can do, if there is anything.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns the message, with what the user can do in parentheses, for places that have one line.
    pub fn in_one_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} ({hint})", self.message),
            None => self.message.clone(),
        }
    }

    /// Changes the kind.
    #[must_use]
    pub fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn caused_by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Arc::new(source)),
            ..self
        }
    }
}

/// The source does not count: two errors are equal if they say the same.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message, &self.hint) == (other.kind, &other.message, &other.hint)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_ref()?;
        Some(&**source)
    }
}

impl From<NoGit> for Error {
    fn from(error: NoGit) -> Self {
        Self::failure(error.to_string()).hint("install it, or put it on PATH")
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorKind::Store, error.to_string())
            .maybe_hint(error.hint.clone())
            .caused_by(error)
    }
}
