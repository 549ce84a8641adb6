//! Types for starting a confined command, shared by all platforms.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use crate::bounds::Bounds;

/// A command to start in a sandbox. Nothing is inherited but what is listed here.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// Program to run; a name without a slash is looked up in the command's own `PATH`.
    pub program: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Working directory.
    pub cwd: &'a Path,
    /// All environment variables.
    pub environment: Vec<(String, String)>,
    /// Standard streams.
    pub streams: Streams,
    /// Terminal and signals.
    pub terminal: Terminal,
    /// Bounds of this command within the sandbox, if it has some of its own.
    pub bounds: Option<Bounds>,
}

/// Standard streams of a command.
#[derive(Debug)]
pub struct Streams {
    /// Input.
    pub stdin: OwnedFd,
    /// Output.
    pub stdout: OwnedFd,
    /// Errors.
    pub stderr: OwnedFd,
}

impl Streams {
    /// Returns an empty input, and outputs that are discarded.
    ///
    /// # Errors
    ///
    /// If `/dev/null` cannot be opened.
    pub fn null() -> io::Result<Self> {
        let discarded = || OpenOptions::new().write(true).open("/dev/null");
        Ok(Self {
            stdin: File::open("/dev/null")?.into(),
            stdout: discarded()?.into(),
            stderr: discarded()?.into(),
        })
    }

    /// Returns those of this process.
    ///
    /// # Errors
    ///
    /// If they cannot be duplicated: one of them is closed, or too many files are open.
    pub fn inherited() -> io::Result<Self> {
        // SAFETY: these three are open as long as the process; if one is not, duplicating it is an error.
        let own = |number| unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned();
        Ok(Self {
            stdin: own(0)?,
            stdout: own(1)?,
            stderr: own(2)?,
        })
    }
}

/// Terminal and signals of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// No terminal, and a process group of its own; signals sent to the launcher are not forwarded.
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

impl SetupError {
    /// Returns the error that this part of the setup failed with.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn of(reason: impl ToString) -> Self {
        Self::Sandbox(reason.to_string())
    }
}
