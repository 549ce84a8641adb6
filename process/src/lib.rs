//! Starts child processes: the only crate that does, so that all children behave alike. A child leads its own process
//! group, its stdout and stderr are recorded in the order of writing, it may have a deadline, and none of its
//! descendants outlives it.
//!
//! One thread owns each child, from its start to the end of its last descendant. The caller holds a handle; dropping
//! it stops the child, even while the runtime shuts down. What a command means, and whether it may run, is decided by
//! the caller.

mod child;
mod command;
mod living;
mod orphans;
mod output;
mod shell_line;
mod tree;
mod watch;

pub use ah_sandbox::{
    Allowlist, Authority, Bounds, Confinement, ConnectionPermit, Egress, Sandbox, Withheld,
    is_public,
};
pub use child::{Child, Pipes};
pub use command::{Command, CommandOutcome, Ending, Keep, StartError};
pub use living::{finish_all, finish_stopped};
pub use orphans::finish_orphans;
pub use shell_line::{Behind, ShellLine};
