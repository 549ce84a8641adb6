//! Types for starting a confined command, shared by all platforms.

/// Terminal and signals of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// No terminal; signals sent to the launcher are not forwarded.
    None,
    /// This process's terminal; signals sent to the launcher are forwarded.
    Inherited,
    /// No terminal; signals sent to the launcher are forwarded.
    Detached,
}

/// Reason why a command did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The sandbox could not be set up.
    #[error("cannot set up the sandbox: {0}")]
    Sandbox(String),
    /// The program could not be executed.
    #[error("{0}")]
    Program(String),
}
