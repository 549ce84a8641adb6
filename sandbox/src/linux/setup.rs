//! How a step of building the sandbox fails.

use rustix::io::Errno;

/// The exit code where the sandbox could not be built.
pub(crate) const NO_SANDBOX: i32 = 78;

/// A step that failed, in words.
pub(crate) type SetupResult<T> = Result<T, String>;

/// Says what failed.
pub(crate) trait DescribeError<T> {
    fn describe(self, what: impl std::fmt::Display) -> SetupResult<T>;
}

impl<T> DescribeError<T> for Result<T, Errno> {
    fn describe(self, what: impl std::fmt::Display) -> SetupResult<T> {
        self.map_err(|errno| format!("{what}: {errno}"))
    }
}

impl<T> DescribeError<T> for std::io::Result<T> {
    fn describe(self, what: impl std::fmt::Display) -> SetupResult<T> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}
