//! Origin of a value.

use std::fmt;
use std::path::PathBuf;

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line, of the library or of a host.
    CommandLine,
    /// The environment variable of this name.
    Environment(&'static str),
    /// The administrator's settings: a file, or what the host handed over.
    Managed(Option<PathBuf>),
    /// JSON given to `--settings`.
    Inline,
    /// A settings file.
    File(PathBuf),
    /// The session that continues.
    Session,
    /// Settings embedded in this copy of the program.
    Embedded,
    /// The program itself.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(variable) => f.write_str(variable),
            Self::Managed(Some(path)) => write!(f, "managed settings, {}", path.display()),
            Self::Managed(None) => f.write_str("--managed-settings"),
            Self::Inline => f.write_str("--settings"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Session => f.write_str("the session"),
            Self::Embedded => f.write_str("embedded"),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Returns a value set by the caller.
    pub fn typed(value: T) -> Self {
        Self {
            value,
            origin: Origin::CommandLine,
        }
    }

    /// Returns a default value.
    pub fn built_in(value: T) -> Self {
        Self {
            value,
            origin: Origin::BuiltIn,
        }
    }
}
