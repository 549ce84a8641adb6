//! How a policy is enforced on Linux.

mod check;
mod filter;
mod inner;
mod inside;
mod landlock;
mod launch;
mod mounts;
mod spawn;
mod watched;
mod wire;

pub use check::{Guarantee, check, probe, remedy};
pub use inner::is_confined;
pub use launch::launcher;
pub use spawn::{Child, Link, Prepared, Sandbox};

use rustix::io::Errno;

/// A step that failed, in words.
pub(crate) type Step<T> = Result<T, String>;

/// Says what failed.
pub(crate) trait During<T> {
    fn during(self, what: impl std::fmt::Display) -> Step<T>;
}

impl<T> During<T> for Result<T, Errno> {
    fn during(self, what: impl std::fmt::Display) -> Step<T> {
        self.map_err(|errno| format!("{what}: {errno}"))
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: impl std::fmt::Display) -> Step<T> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}
