//! A command to run, and its outcome.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Content, LiveOutput};
use ah_sandbox::{Bounds, Sandbox};

/// A program to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// Path of the program; `PATH` is not searched.
    pub program: PathBuf,
    /// Arguments.
    pub arguments: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// All environment variables, except for `AH_CALL`, which is added.
    pub environment: Vec<(String, String)>,
    /// All of standard input.
    pub stdin: Vec<u8>,
    /// Time limit.
    pub deadline: Option<Duration>,
    /// Limits for the recording of its output.
    pub keep: Keep,
    /// Sandbox; without one it has the permissions of this process.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Bounds of its own, in a sandbox or without one.
    pub bounds: Option<Bounds>,
    /// Returns a line that is appended to the output, from how the program ended.
    pub note: fn(Ending) -> Option<String>,
}

/// Limits for the recording of output.
#[derive(Debug, Clone)]
pub struct Keep {
    /// Maximum number of bytes kept in memory; longer output goes to the file, all of it.
    pub in_memory: usize,
    /// Path of the file, which is replaced if it exists; its folder is created if missing.
    pub path: PathBuf,
    /// Maximum size of the file in bytes, at least 128 KiB. Longer output is cut before the last 64 KiB.
    pub cap: u64,
    /// Receives the output as it comes.
    pub live: Option<LiveOutput>,
}

impl Keep {
    /// Records output of more than 256 KiB in a file at `path` of at most `cap` bytes.
    pub fn new(path: PathBuf, cap: u64) -> Self {
        Self {
            in_memory: 256 * 1024,
            path,
            cap,
            live: None,
        }
    }

    /// Gives the output to `live` as it comes.
    #[must_use]
    pub fn followed_by(self, live: LiveOutput) -> Self {
        Self {
            live: Some(live),
            ..self
        }
    }

    /// Records all output in the file, so that it can be read while the child runs.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self {
            in_memory: 0,
            ..self
        }
    }
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandOutcome {
    /// The end of the program.
    pub ending: Ending,
    /// Its output; if that is a file, it is synced.
    pub output: Content,
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal, from outside.
    Killed(i32),
    /// It was stopped at its deadline, after this time.
    TimedOut(Duration),
    /// It was stopped by the caller.
    Stopped,
}

impl Ending {
    /// Returns the exit code as a shell reports it.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
            Self::TimedOut(_) => 124,
            Self::Stopped => 128 + 15,
        }
    }
}

/// Error of a program that could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot start `{}` in `{}`: {reason}", program.display(), cwd.display())]
pub struct StartError {
    /// Path of the program.
    pub program: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// Cause.
    pub reason: String,
}
