//! File access rights, path grants and sandbox tiers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Layers of the sandbox that must be available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Namespaces, Landlock and the system call filter.
    #[default]
    Full,
    /// Namespaces and the system call filter, for kernels without Landlock, or with one that does not restrict
    /// truncation yet. An older Landlock is not used at all, so that the tier is the same everywhere.
    Namespaces,
    /// Landlock and the system call filter, for machines without user namespaces. No network at all, not even a
    /// loopback.
    Landlock,
}

impl Tier {
    /// All tiers, the strongest first.
    pub const ALL: [Self; 3] = [Self::Full, Self::Namespaces, Self::Landlock];

    /// Returns the name used in options and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
    }

    /// Returns whether commands have a file system, processes and a network of their own.
    pub fn has_namespaces(self) -> bool {
        match self {
            Self::Full | Self::Namespaces => true,
            Self::Landlock => false,
        }
    }

    /// Returns whether Landlock restricts access to files.
    pub fn has_landlock(self) -> bool {
        match self {
            Self::Full | Self::Landlock => true,
            Self::Namespaces => false,
        }
    }
}

/// Access to a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Absolute path.
    pub path: PathBuf,
    /// Permitted access.
    pub access: Access,
}

/// Access rights. `write` covers changing existing files; `create` covers creating, removing and renaming.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Read files and list directories.
    pub read: bool,
    /// Change existing files.
    pub write: bool,
    /// Execute files.
    pub execute: bool,
    /// Create, remove and rename files and directories.
    pub create: bool,
}

impl Access {
    /// Read-only access.
    pub const READ: Self = Self {
        read: true,
        write: false,
        execute: false,
        create: false,
    };
    /// Read and execute, as for programs and libraries.
    pub const RUN: Self = Self {
        execute: true,
        ..Self::READ
    };
    /// All rights.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        execute: true,
        create: true,
    };

    /// Returns whether nothing can be changed.
    pub fn is_read_only(self) -> bool {
        !self.write && !self.create
    }
}

impl FromStr for Access {
    type Err = String;

    /// Parses letters of `rwxc`.
    fn from_str(letters: &str) -> Result<Self, String> {
        let mut access = Self::default();
        for letter in letters.chars() {
            let field = match letter {
                'r' => &mut access.read,
                'w' => &mut access.write,
                'x' => &mut access.execute,
                'c' => &mut access.create,
                _ => return Err(format!("`{letter}` is not one of the letters r, w, x, c")),
            };
            *field = true;
        }
        if access == Self::default() {
            return Err("expected letters of rwxc".to_owned());
        }
        Ok(access)
    }
}

impl fmt::Display for Grant {
    /// Writes it as it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = self.access;
        let letters = [
            (access.read, "r"),
            (access.write, "w"),
            (access.execute, "x"),
            (access.create, "c"),
        ];
        let letters = letters.map(|(is, letter)| if is { letter } else { "" });
        write!(f, "{}:{}", self.path.display(), letters.concat())
    }
}

impl FromStr for Grant {
    type Err = String;

    /// Parses `PATH` or `PATH:LETTERS`; the default is read-only.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, access) = match text.rsplit_once(':') {
            // The path itself may contain a colon.
            Some((path, letters)) if !letters.contains('/') && !path.is_empty() => {
                (path, letters.parse()?)
            }
            _ => (text, Access::READ),
        };
        if path.is_empty() {
            return Err("expected a path".to_owned());
        }
        Ok(Self {
            path: path.into(),
            access,
        })
    }
}
