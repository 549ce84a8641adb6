//! How a policy is enforced on Linux.

mod check;
mod filter;
mod inner;
mod inside;
mod landlock;
mod launch;
mod mounts;
mod setup;
mod signals;
mod spawn;
mod watched;
mod wire;

pub use check::{Guarantee, check, probe, remedy};
pub use inner::is_confined;
pub use launch::launcher;
pub use spawn::{Child, Link, Prepared, Sandbox};
