//! Who is told of file changes by confined commands before they happen, so that they can be undone.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A change that a command is about to make.
#[derive(Debug, Clone, Copy)]
pub struct UpcomingChange<'a> {
    /// Absolute path without symbolic links, as the command sees it. In the workspace it is the same outside.
    pub path: &'a Path,
    /// What is there now, opened with `O_PATH`; `None` if there is nothing.
    pub found: Option<BorrowedFd<'a>>,
    /// Whether the file itself changes, also under its other names (hard links); else only this name does.
    pub is_in_place: bool,
}

/// Gives each command its recorder.
pub trait Recorders: Send + Sync {
    /// Returns the recorder for a command with these environment variables.
    fn of_command(&self, environment: &[(String, String)]) -> Arc<dyn Recorder>;
}

/// Records what confined commands are about to change. The command waits meanwhile, so it must be quick. It may be told
/// of changes that fail afterwards.
pub trait Recorder: Send + Sync {
    /// Says that a command has ended, with all that it had started: what it had open is written.
    fn ended(&self);

    /// Returns whether changes at this path are of interest.
    fn covers(&self, path: &Path) -> bool;

    /// Returns whether further changes of the file at this path need not be told: it is known, and no symbolic link.
    fn is_settled(&self, path: &Path) -> bool;

    /// Records the state before a change. It must not panic.
    fn before(&self, change: UpcomingChange<'_>);

    /// Notes that changes at this path, or below it, could not be recorded.
    fn missed(&self, path: &Path, reason: &str);
}
