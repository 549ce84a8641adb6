//! Errors of unavailable servers, worded for people and models.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

use rmcp::service::ClientInitializeError;

use crate::remote::lock::lock;
use crate::remote::name::{clean, clean_line};

/// Lines of a server's standard error that are kept to explain its end.
const LAST_LINES: usize = 3;

/// Error of an unavailable server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// Credentials are missing or were refused.
    NeedsAuth,
    /// Retrying makes no difference.
    Permanent(String),
    /// A retry may succeed.
    Transient(String),
}

/// Hint added to the error of a server in the sandbox.
const SANDBOX_HINT: &str = "it runs in the sandbox: allow what it needs with `sandbox.allowHosts`, `unveil` and `env` \
    in your settings, or run it outside with `unconfinedServers`";

impl ServerError {
    pub(crate) fn permanent(text: impl fmt::Display) -> Self {
        Self::Permanent(text.to_string())
    }

    pub(crate) fn transient(text: impl Into<String>) -> Self {
        Self::Transient(text.into())
    }

    /// Adds a hint about the sandbox, which may be the cause.
    pub(crate) fn in_sandbox(self) -> Self {
        let add = |text: String| format!("{text}; {SANDBOX_HINT}");
        match self {
            Self::NeedsAuth => self,
            Self::Permanent(text) => Self::Permanent(add(text)),
            Self::Transient(text) => Self::Transient(add(text)),
        }
    }

    /// Converts a network error, with its chain of causes in one line.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Transient(clean_line(&text, 500))
    }

    /// Converts an error of the initialization handshake.
    pub(crate) fn of_start(error: &ClientInitializeError) -> Self {
        match error {
            error if error.is_authorization_required() => Self::NeedsAuth,
            ClientInitializeError::ConnectionClosed(_) => {
                Self::transient("it closed the connection during initialization")
            }
            ClientInitializeError::TransportError { error, .. } => Self::of(&*error.error),
            other => Self::of(other),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsAuth => {
                f.write_str("authentication required: credentials are missing or were refused")
            }
            Self::Permanent(text) | Self::Transient(text) => f.write_str(text),
        }
    }
}

/// The last lines of a server's standard error, and errors in reading its messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorTail(Arc<Mutex<VecDeque<String>>>);

impl ErrorTail {
    /// Appends a line; the oldest one goes when there are too many.
    pub(crate) fn add(&self, line: String) {
        let mut lines = lock(&self.0);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Appends the collected lines to a transient `error`.
    pub(crate) fn explain(&self, error: ServerError) -> ServerError {
        let lines: Vec<_> = lock(&self.0).iter().cloned().collect();
        match error {
            ServerError::Transient(text) if !lines.is_empty() => {
                let output = clean(&lines.join("; "), 500);
                ServerError::Transient(format!("{text}; last output: {output}"))
            }
            error => error,
        }
    }
}
