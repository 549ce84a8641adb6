//! Confines a child process: what it may read, write, execute and reach, and nothing else.
//!
//! The policy is stated once, as a [`Confinement`], and enforced by two independent layers: namespaces with a file
//! system of their own, and Landlock; around both stand a filter of system calls, no capabilities, limits, few
//! variables and no inherited file. A fault in one layer is then no escape. What cannot be enforced is not weakened:
//! the command does not start.
//!
//! The work is done by a process between ours and the command, the launcher: this very program, called with
//! [`LAUNCHER`] as its first argument, which must then do nothing but call [`launcher`]. It is single-threaded, which
//! namespaces demand, and carries nothing of what our memory holds.
//!
//! This crate is the only one with `unsafe`. What is confined, and what for, is for others to say.

mod access;
mod allowlist;
mod command;
mod confinement;
mod environment;
mod git;
mod host_policy;
#[cfg(target_os = "linux")]
mod linux;
mod plan;
mod protected;
mod proxy;
mod survey;
#[cfg(not(target_os = "linux"))]
mod unsupported;

pub use access::{Access, Grant, Tier};
pub use allowlist::{Allowlist, Authority, AuthorityError, Domain, Egress, Host, is_public};
pub use command::{SetupError, Terminal};
pub use confinement::Confinement;
pub use environment::{PROXY_PORT, variables};
pub use host_policy::{AskHost, ConnectionPermit, HostDecision};
#[cfg(target_os = "linux")]
pub use linux::{
    Child, ChildGuard, Guarantee, Prepared, Sandbox, check, is_confined, launcher, probe, remedy,
};
pub use proxy::Proxy;
#[cfg(not(target_os = "linux"))]
pub use unsupported::{
    Child, ChildGuard, Guarantee, Prepared, Sandbox, check, is_confined, launcher, probe, remedy,
};

/// The first argument that makes this program the launcher.
pub const LAUNCHER: &str = "__confine";
/// The first argument that makes this program try, inside, what must not be possible there.
pub const PROBE: &str = "__probe";
