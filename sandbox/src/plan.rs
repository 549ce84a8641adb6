//! What the launcher is told: what to run and how, and then the policy with every path looked up.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::access::{Access, Tier};

/// What programs need to run at all.
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

/// What the launcher needs to know to begin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub tier: Tier,
    /// What is run; a bare name is searched for in `PATH`.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub cwd: PathBuf,
    /// Whether the command stays with the terminal that it has.
    pub keeps_terminal: bool,
    /// Whether signals that the launcher gets are the command's.
    pub forwards_signals: bool,
    /// The file descriptor over which the launcher talks to its parent.
    pub link: i32,
    /// The one from which the first process inside reads its [`Layout`], to the end: it is looked up while the launcher
    /// comes to life.
    pub layout: i32,
    /// User and network namespace to join; none: new ones.
    pub namespaces: Option<(i32, i32)>,
    pub limits: ResourceLimits,
}

/// What of the file system is seen, and how.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// What the command sees, in the order in which it is laid out.
    pub mounts: Vec<Mount>,
    /// Symbolic links outside of these places, from where to what.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// What looks empty though it is in one of the places.
    pub masked: Vec<PathBuf>,
    /// Folders that cannot be renamed.
    pub pinned: Vec<PathBuf>,
}

/// Something that the command sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// Where, without symbolic links.
    pub path: PathBuf,
    pub source: MountSource,
    pub access: Access,
}

/// What is seen at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountSource {
    /// The same as outside.
    Same,
    /// What is outside at another path.
    Other(PathBuf),
    /// An empty folder of at most so many MiB, gone with the command.
    Empty { mebibytes: u64 },
}

/// How much a command may take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    pub processes: u64,
    pub file_bytes: u64,
    pub open_files: u64,
    /// Memory of all its processes together.
    pub memory_bytes: u64,
}
