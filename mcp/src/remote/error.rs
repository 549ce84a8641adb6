//! Errors of unavailable servers, worded for people and models.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use reqwest::Url;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::auth::WWWAuthenticateParams;

use crate::remote::name::{clean, clean_line};

/// Lines of a server's standard error that are kept to explain its end.
const LAST_LINES: usize = 3;

/// Error of an unavailable server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// Credentials are missing or were refused.
    NeedsAuth {
        /// Scopes that the server names.
        scope: Option<String>,
    },
    /// Retrying makes no difference.
    Permanent(String),
    /// A retry may succeed.
    Transient(String),
}

impl ServerError {
    pub(crate) fn permanent(text: impl fmt::Display) -> Self {
        Self::Permanent(text.to_string())
    }

    pub(crate) fn transient(text: impl Into<String>) -> Self {
        Self::Transient(text.into())
    }

    /// Returns the error of the server `name`, with what the user can do.
    pub(crate) fn of_server(&self, name: &str) -> String {
        match self {
            Self::NeedsAuth { .. } => format!("{self}; `ah mcp login {name}` signs in"),
            Self::Permanent(text) | Self::Transient(text) => text.clone(),
        }
    }

    /// Appends a text about the sandbox, which may be the cause.
    pub(crate) fn because(self, cause: &str) -> Self {
        let add = |text: String| format!("{text}; {cause}");
        match self {
            Self::NeedsAuth { .. } => self,
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

    /// Converts an error of a request.
    pub(crate) fn of_request(error: &ServiceError) -> Self {
        match error.auth_challenge() {
            Some(challenge) => Self::refused(challenge),
            None => Self::of(error),
        }
    }

    /// Returns the error for a refusal over HTTP, with the header that says what is wanted.
    fn refused(challenge: &str) -> Self {
        // The address is only for relative URLs, which are not used.
        let nowhere = Url::parse("http://localhost");
        let scope = nowhere
            .ok()
            .and_then(|it| WWWAuthenticateParams::parse(challenge, &it).scope);
        Self::NeedsAuth { scope }
    }

    /// Converts an error of the initialization handshake.
    pub(crate) fn of_start(error: &ClientInitializeError) -> Self {
        match error {
            error if let Some(challenge) = error.auth_challenge() => Self::refused(challenge),
            error if error.is_authorization_required() => Self::NeedsAuth { scope: None },
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
            Self::NeedsAuth { .. } => {
                f.write_str("authentication required: credentials are missing or were refused")
            }
            Self::Permanent(text) | Self::Transient(text) => f.write_str(text),
        }
    }
}

/// The last lines of a server's standard error, and errors in reading its messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Why no more messages are read.
    fault: Arc<OnceLock<String>>,
}

impl ErrorTail {
    /// Notes why no more messages are read.
    pub(crate) fn end(&self, fault: String) {
        self.add(fault.clone());
        // The first one is the reason.
        let _ = self.fault.set(fault);
    }

    /// Returns why no more messages are read, if the server has not just ended.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Appends a line; the oldest one goes when there are too many. Lines of a stack trace are left out.
    pub(crate) fn add(&self, line: String) {
        if is_of_trace(&line) {
            return;
        }
        let mut lines = self.lines.lock();
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Appends the collected lines to a transient `error`.
    pub(crate) fn explain(&self, error: ServerError) -> ServerError {
        let lines: Vec<_> = self.lines.lock().iter().cloned().collect();
        match error {
            ServerError::Transient(text) if !lines.is_empty() => {
                let output = clean(&lines.join("; "), 500);
                ServerError::Transient(format!("{text}; last output: {output}"))
            }
            error => error,
        }
    }
}

/// Returns whether a line says where a program was, not what failed: frames are indented by Node, Python, Java and Rust.
fn is_of_trace(line: &str) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "Traceback (most recent call last)",
        "node:internal/",
        "Node.js v",
        "stack backtrace:",
        "npm notice",
    ];
    line.starts_with([' ', '\t'])
        || !line.contains(char::is_alphanumeric)
        || BEGINNINGS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_and_where_is_not() {
        let node = "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module 'x'\n    \
            at Module._load (node:internal/modules/cjs/loader:1051:27)\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.20.2";
        let python = "Traceback (most recent call last):\n  File \"/a.py\", line 1, in <module>\n    import x\n\
            ModuleNotFoundError: No module named 'x'";
        for (text, expected) in [
            (
                node,
                "it exited; last output: Error: Cannot find module 'x'",
            ),
            (
                python,
                "it exited; last output: ModuleNotFoundError: No module named 'x'",
            ),
            ("a\nb\nc\nd", "it exited; last output: b; c; d"),
            ("", "it exited"),
        ] {
            let tail = ErrorTail::default();
            text.lines().for_each(|line| tail.add(line.to_owned()));
            let error = tail.explain(ServerError::transient("it exited"));
            assert_eq!(error.to_string(), expected);
        }
    }
}
