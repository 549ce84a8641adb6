//! Data passed to the launcher: first what all commands have in common, then the policy resolved against the file system,
//! then the command. So the launcher can have the sandbox ready before there is a command.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::access::{Access, Tier};
use crate::bounds::Bounds;

/// System directories that programs need to run.
#[cfg(target_os = "macos")]
pub(crate) const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/opt",
    "/Applications/Xcode.app",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/select",
];
/// System directories that programs need to run.
#[cfg(not(target_os = "macos"))]
pub(crate) const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/sys/devices/system/cpu",
];

/// What the launcher sets up before it knows the command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub tier: Tier,
    /// Whether the command keeps the current terminal.
    pub keeps_terminal: bool,
    /// Whether signals sent to the launcher are forwarded to the command.
    pub forwards_signals: bool,
    pub limits: ResourceLimits,
}

/// The command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Program to run; a name without a slash is looked up in `PATH`.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub cwd: PathBuf,
    /// All environment variables.
    pub environment: Vec<(String, String)>,
    pub bounds: Option<Bounds>,
}

/// File system layout inside the sandbox.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Visible paths, in mounting order.
    pub mounts: Vec<Mount>,
    /// Symbolic links to create outside the mounts: link path and target.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Paths that appear empty although they lie within a mount.
    pub masked: Vec<PathBuf>,
    /// Directories that cannot be renamed.
    pub pinned: Vec<PathBuf>,
    /// Without mounts: folders with something hidden in or below them, that can be written.
    pub way: Vec<(PathBuf, Known)>,
    /// Without mounts: what is beside hidden files in these folders.
    pub beside: Vec<(PathBuf, Known)>,
}

/// Path that is visible to the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// Path without symbolic links.
    pub path: PathBuf,
    pub source: MountSource,
    pub access: Access,
    /// The source when it was looked up; `None` for an empty directory.
    pub identity: Option<Identity>,
}

/// Device and inode of a file.
pub(crate) type Identity = (u64, u64);

/// What a file is known by, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Known {
    pub inode: Identity,
    pub is_folder: bool,
    /// Time at which it was made, in nanoseconds since 1970, where the file system tells: inodes are used again.
    born: Option<u64>,
}

impl Known {
    pub fn of(found: &Metadata) -> Self {
        let born = found.created().ok();
        let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: (found.dev(), found.ino()),
            is_folder: found.is_dir(),
            born: born.and_then(|born| born.as_nanos().try_into().ok()),
        }
    }
}

/// Content of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountSource {
    /// Same path as on the host.
    Same,
    /// Different path on the host.
    Other(PathBuf),
    /// Empty directory limited to this many MiB, discarded when the command ends.
    Empty { mebibytes: u64 },
}

/// Resource limits of a command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    pub processes: u64,
    pub file_bytes: u64,
    pub open_files: u64,
    /// Memory of all processes together.
    pub memory_bytes: u64,
}
