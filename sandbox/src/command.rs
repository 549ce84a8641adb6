//! What every way to confine a command has in common.

/// Whether a command stays with the terminal that it is started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// It has none, and signals are sent to whom they are meant for.
    None,
    /// It has this process's terminal, and gets the signals that its launcher gets.
    Inherited,
    /// It has none, and gets the signals that its launcher gets.
    Detached,
}

/// Why a command did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The sandbox could not be built.
    #[error("cannot build the sandbox: {0}")]
    Sandbox(String),
    /// The command itself could not be executed.
    #[error("{0}")]
    Program(String),
}
