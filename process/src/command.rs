//! What is to be run, and what came of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::Content;
use ah_sandbox::Sandbox;

/// A program to be run.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program, as a path: nothing is searched for.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// All variables that it sees, but for a mark of our own.
    pub environment: Vec<(String, String)>,
    /// What it reads from its standard input, before the end.
    pub stdin: Vec<u8>,
    /// After which time it is ended.
    pub deadline: Option<Duration>,
    /// How its output is kept.
    pub keep: Keep,
    /// What it runs in; without it, it may do what we may.
    pub sandbox: Option<Arc<Sandbox>>,
    /// A line to be added to the output, given how it ended.
    pub note: fn(Ending) -> Option<String>,
}

/// How output is kept.
#[derive(Debug, Clone)]
pub struct Keep {
    /// Up to so many bytes are given back as they are; more go to the file, from the first byte on.
    pub in_memory: usize,
    /// The file, replaced if it exists; its folder is made where it is missing.
    pub path: PathBuf,
    /// How many bytes the file may have, at least 128 KiB. Of longer output it has the head and the last 64 KiB.
    pub cap: u64,
}

impl Keep {
    /// A file at `path` of at most `cap` bytes, for output of more than 256 KiB.
    pub fn new(path: PathBuf, cap: u64) -> Self {
        Self {
            in_memory: 256 * 1024,
            path,
            cap,
        }
    }

    /// The same file from the first byte on, to be read while the child runs.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self {
            in_memory: 0,
            ..self
        }
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// What it wrote; a file is synced.
    pub output: Content,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which was not ours.
    Killed(i32),
    /// By us, for its time was over: so much it had.
    TimedOut(Duration),
    /// By us, as it was asked for.
    Stopped,
}

impl Ending {
    /// The exit code that a shell would tell.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
            Self::TimedOut(_) => 124,
            Self::Stopped => 128 + 15,
        }
    }
}

/// Why a program could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot start `{}` in `{}`: {reason}", program.display(), cwd.display())]
pub struct StartError {
    /// The program.
    pub program: PathBuf,
    /// Where it should have run.
    pub cwd: PathBuf,
    /// Why not.
    pub reason: String,
}
