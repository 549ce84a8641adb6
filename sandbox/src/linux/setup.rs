//! Errors of sandbox setup steps.

use rustix::io::Errno;

/// Exit code if the sandbox cannot be set up.
pub(crate) const NO_SANDBOX: i32 = 78;

/// Result of a setup step, with the error as text.
pub(crate) type SetupResult<T> = Result<T, String>;

/// Adds to an error the operation that failed.
pub(crate) trait DescribeError<T> {
    fn describe(self, operation: impl std::fmt::Display) -> SetupResult<T>;
}

impl<T> DescribeError<T> for Result<T, Errno> {
    fn describe(self, operation: impl std::fmt::Display) -> SetupResult<T> {
        self.map_err(|errno| format!("{operation}: {errno}"))
    }
}

impl<T> DescribeError<T> for std::io::Result<T> {
    fn describe(self, operation: impl std::fmt::Display) -> SetupResult<T> {
        self.map_err(|error| format!("{operation}: {error}"))
    }
}
