//! Sandbox for child processes: restricts which files, programs and hosts a command can reach.
//!
//! The policy is a [`Confinement`]. Two independent layers enforce it: namespaces with their own file system, and
//! Landlock. Around both there are a system call filter, dropped capabilities, resource limits, a filtered environment
//! and closed file descriptors. One faulty layer is therefore no escape. If a part of the policy cannot be enforced,
//! the command does not start.
//!
//! A separate process, the launcher, sets the sandbox up: this executable, started with [`LAUNCHER`] as its first
//! argument, which must then call [`launcher`] and nothing else. The launcher is single-threaded, as namespaces
//! require, and holds nothing of the parent's memory.
//!
//! This is the only crate with `unsafe`, so it also has what keeps SQLite from deleting files that a journal names. It does not
//! decide which commands are confined.

#![cfg_attr(
    not(all(target_os = "linux", feature = "enforcement")),
    allow(
        dead_code,
        unused_imports,
        reason = "the plan of a sandbox is drawn for its layers alone"
    )
)]

mod access;
mod allowlist;
mod apart;
mod bounds;
mod command;
mod confinement;
mod environment;
#[cfg(feature = "enforcement")]
mod folders;
#[cfg_attr(not(feature = "enforcement"), path = "absent/git.rs")]
mod git;
mod host_policy;
#[cfg(all(target_os = "linux", feature = "enforcement"))]
mod linux;
#[cfg_attr(not(feature = "enforcement"), path = "absent/listing.rs")]
mod listing;
#[cfg(all(target_os = "macos", feature = "enforcement"))]
mod macos;
mod pinned;
mod plan;
mod protected;
mod proxy;
mod recorder;
#[cfg(any(test, all(target_os = "macos", feature = "enforcement")))]
mod seatbelt;
mod second_name;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod survey;
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), feature = "enforcement")))]
mod unsupported;

pub use access::{Access, Grant, Tier};
pub use allowlist::{Allowlist, Authority, AuthorityError, Domain, Egress, Host, is_public};
pub use apart::without_terminal;
pub use bounds::{Bounds, Withheld};
pub use command::{Invocation, SetupError, Streams, Terminal};
pub use confinement::Confinement;
pub use environment::{PROXY_PORT, variables};
pub use host_policy::{AskHost, ConnectionPermit, HostDecision};
#[cfg(all(target_os = "linux", feature = "enforcement"))]
pub use linux::{
    Child, ChildGuard, Guarantee, Sandbox, check, conceal, finish_journal, is_confined, launcher,
    probe, remedy,
};
#[cfg(all(target_os = "macos", feature = "enforcement"))]
pub use macos::{
    Child, ChildGuard, Guarantee, Sandbox, check, conceal, finish_journal, is_confined, launcher,
    probe, remedy,
};
pub use proxy::Proxy;
pub use recorder::{Recorder, Recorders, UpcomingChange};
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), feature = "enforcement")))]
pub use unsupported::{
    Child, ChildGuard, Guarantee, Sandbox, check, conceal, finish_journal, is_confined, launcher,
    probe, remedy,
};

/// First argument that starts this executable as the launcher.
pub const LAUNCHER: &str = "__confine";
/// First argument that starts this executable as the probe, which tries forbidden operations from inside the sandbox.
pub const PROBE: &str = "__probe";
