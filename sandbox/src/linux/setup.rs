//! How a step of building the sandbox fails.

use rustix::io::Errno;

/// The exit code where the sandbox could not be built.
pub(crate) const NO_SANDBOX: i32 = 78;

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
