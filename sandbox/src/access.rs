//! What may be done with a path, and how much of a policy must hold.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Everything: namespaces, Landlock and the filter of system calls.
    #[default]
    Full,
    /// Landlock and the filter, where no namespaces can be had. No network at all, not even its own.
    Landlock,
}

impl Tier {
    /// The tier as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
        }
    }
}

/// A path and what may be done with it, and with all below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// An absolute path.
    pub path: PathBuf,
    /// What may be done.
    pub access: Access,
}

/// What may be done with a path. To write is to change files that are there, to create is to make, remove and rename.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Read files, list folders.
    pub read: bool,
    /// Change files.
    pub write: bool,
    /// Execute files.
    pub execute: bool,
    /// Make and remove files and folders.
    pub create: bool,
}

impl Access {
    /// Only reading.
    pub const READ: Self = Self {
        read: true,
        write: false,
        execute: false,
        create: false,
    };
    /// Reading and executing, as programs and libraries want it.
    pub const RUN: Self = Self {
        execute: true,
        ..Self::READ
    };
    /// Everything.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        execute: true,
        create: true,
    };

    /// Whether nothing can be changed.
    pub fn is_read_only(self) -> bool {
        !self.write && !self.create
    }
}

impl FromStr for Access {
    type Err = String;

    /// Reads letters of `rwxc`.
    fn from_str(letters: &str) -> Result<Self, String> {
        let mut access = Self::default();
        for letter in letters.chars() {
            let field = match letter {
                'r' => &mut access.read,
                'w' => &mut access.write,
                'x' => &mut access.execute,
                'c' => &mut access.create,
                _ => return Err(format!("`{letter}` is none of the letters r, w, x, c")),
            };
            *field = true;
        }
        match access == Self::default() {
            true => Err("expected letters of rwxc".to_owned()),
            false => Ok(access),
        }
    }
}

impl FromStr for Grant {
    type Err = String;

    /// Reads `PATH` or `PATH:LETTERS`; without letters the path may be read.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, access) = match text.rsplit_once(':') {
            // A path may hold a colon itself.
            Some((path, letters)) if !letters.contains('/') && !path.is_empty() => {
                (path, letters.parse()?)
            }
            _ => (text, Access::READ),
        };
        match path.is_empty() {
            true => Err("expected a path".to_owned()),
            false => Ok(Self {
                path: path.into(),
                access,
            }),
        }
    }
}
