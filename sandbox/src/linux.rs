//! Enforcement on Linux.

mod bounded;
mod changes;
mod check;
mod covers;
mod descendants;
mod filter;
mod init;
mod inner;
mod inside;
mod journal;
mod kept;
mod landlock;
mod launch;
mod mounts;
mod newcomers;
mod numbers;
mod own;
mod quarantine;
mod record;
mod session;
mod setup;
mod signals;
mod spawn;
mod users;
mod veil;
mod waiting;
mod wire;

pub use check::{Guarantee, check, probe, remedy};
pub use inner::is_confined;
pub use journal::finish_journal;
pub use launch::launcher;
pub use own::conceal;
pub use spawn::{Child, ChildGuard, Sandbox};
