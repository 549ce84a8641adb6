//! What the user is told when something cannot be done: what and where, and what to try instead.

use std::fmt;
use std::io;

use ah_conversation::{Interface, StoreError};

/// Exit code of a failure that is neither a usage error nor one of the special cases.
pub const FAILURE: u8 = 1;
/// Exit code of a usage error.
pub const USAGE: u8 = 2;
/// Exit code where the same may go well later: another process holds the session.
pub const TRY_AGAIN: u8 = 75;
/// Exit code where a sandbox is wanted and cannot be built.
pub const NO_SANDBOX: u8 = 78;
/// Exit code after standard output was closed by its reader.
pub const OUTPUT_CLOSED: u8 = 141;

/// Why the program stops, in words for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// What went wrong, and where. Empty where nothing is to be said.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
}

impl CliError {
    /// Something failed.
    pub fn failure(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: FAILURE,
        }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            ..Self::failure(message)
        }
    }

    /// The same error with advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The same error as programs see it that start another agent: they expect no code of its own for usage errors.
    #[must_use]
    pub fn for_interface(self, interface: Interface) -> Self {
        match (interface, self.code) {
            (Interface::AgentSdk, USAGE) => self.code(FAILURE),
            _ => self,
        }
    }

    /// A failure that has an exit code of its own.
    #[must_use]
    pub fn code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

/// Meant for writing to standard output, where a reader that went away is nothing to complain of.
impl From<&io::Error> for CliError {
    fn from(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::failure("").code(OUTPUT_CLOSED);
        }
        Self::failure(format!("cannot write to standard output: {error}"))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self {
            message: error.to_string(),
            hint: error.hint,
            code: FAILURE,
        }
    }
}
