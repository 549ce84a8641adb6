//! Why a server cannot be asked, in words for people and models.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::ClientInitializeError;

use crate::name::{clean, clean_line};

/// How many lines of a server's standard error are kept to explain its end.
const LAST_LINES: usize = 3;

/// Why a server cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It wants to know who asks.
    NeedsAuth,
    /// Trying again makes no difference.
    Hopeless(String),
    /// It may be there later.
    Failed(String),
}

/// What a user can do about a sandbox that a server does not work in.
const IN_SANDBOX: &str = "it runs in the sandbox: `sandbox.allowHosts`, `unveil` and `env` in your settings say what it finds \
    there, `unconfinedServers` lets it run outside";

impl Fault {
    pub(crate) fn hopeless(text: impl fmt::Display) -> Self {
        Self::Hopeless(text.to_string())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The same of a server in the sandbox, which may be the reason.
    pub(crate) fn in_sandbox(self) -> Self {
        let add = |text: String| format!("{text}; {IN_SANDBOX}");
        match self {
            Self::NeedsAuth => self,
            Self::Hopeless(text) => Self::Hopeless(add(text)),
            Self::Failed(text) => Self::Failed(add(text)),
        }
    }

    /// An error of the network, with what caused it.
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
        Self::Failed(clean_line(&text, 500))
    }

    pub(crate) fn of_start(error: &ClientInitializeError) -> Self {
        match error {
            error if error.is_authorization_required() => Self::NeedsAuth,
            ClientInitializeError::ConnectionClosed(_) => Self::failed("it ended while starting"),
            ClientInitializeError::TransportError { error, .. } => Self::of(&*error.error),
            other => Self::of(other),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsAuth => f.write_str("it wants credentials, or other ones than it was given"),
            Self::Hopeless(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

/// The last that a server said on its way out, and what its messages broke on.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    pub(crate) fn add(&self, line: String) {
        // Each change is whole, so a panic leaves nothing half done.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// `fault`, with the last words where there are some.
    pub(crate) fn explain(&self, fault: Fault) -> Fault {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = lines.iter().map(String::as_str).collect::<Vec<_>>();
        match fault {
            Fault::Failed(text) if !words.is_empty() => {
                let words = clean(&words.join("; "), 500);
                Fault::Failed(format!("{text}; it said: {words}"))
            }
            fault => fault,
        }
    }
}
