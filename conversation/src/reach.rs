//! What an allowed call may do at most: no more than the verdict that allows it has foreseen. A wrong verdict about a command
//! line then costs a failed command, since the line runs within these bounds.

use std::path::PathBuf;

/// What a command may do at most, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It changes no file and connects to nothing.
    ReadOnly,
    /// It changes files in these folders, and connects to nothing.
    Edits(Vec<PathBuf>),
    /// As much as any command of the session: a person, a rule, the mode or the sandbox allows it.
    #[default]
    Anything,
}
