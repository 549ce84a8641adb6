//! The one place that starts a child process, so that every child behaves alike: it leads a group of its own, what
//! it writes to stdout and stderr is kept in the order in which it came, it has a deadline, and nothing that it
//! started outlives it.
//!
//! Each child is owned by one thread, from its start to the death of its last descendant. What a caller
//! holds is a handle: to drop it is to stop the child, also while the runtime shuts down. What a command means, and
//! whether it may run at all, is for others to say.

mod child;
mod command;
mod living;
mod orphans;
mod output;
mod tree;
mod watch;

pub use ah_sandbox::{
    Allowlist, Authority, Confinement, ConnectionPermit, Egress, Sandbox, is_public,
};
pub use child::{Child, Pipes};
pub use command::{Command, Ending, Keep, Outcome, StartError};
pub use living::finish_all;
pub use orphans::finish_orphans;
