//! System calls that can change files, and where their arguments name them.

use std::sync::LazyLock;

use crate::linux::filter::{Architecture, ArgumentTest, number};

/// Longest path that the kernel takes, in bytes, with its end.
pub(super) const PATH_MAX: usize = 4096;

/// A path argument: the number of the argument with the folder's descriptor, if the call has one, and of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathArgument {
    pub folder: Option<u8>,
    pub path: u8,
}

/// What a call does to the files that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Opens a file, by the flags in this argument.
    Open(PathArgument, u8),
    /// Opens a file, by the flags at the address in this argument.
    OpenHow(PathArgument, u8),
    /// Creates or empties a file.
    Create(PathArgument),
    /// Changes a file, or a link's target.
    Change(PathArgument),
    /// Changes an open file.
    ChangeOpen(u8),
    /// Changes a file or link, by the flags in this argument.
    ChangeBy(PathArgument, u8),
    /// Makes something new.
    Make(PathArgument),
    /// Removes a name.
    Remove(PathArgument),
    /// Moves the first to the second, or swaps them by the flags in the argument.
    Move(PathArgument, PathArgument, Option<u8>),
    /// Gives the first the second as a further name, by the flags in the argument.
    Link(PathArgument, PathArgument, Option<u8>),
}

const fn plain(path: u8) -> PathArgument {
    PathArgument { folder: None, path }
}

const fn below(folder: u8) -> PathArgument {
    PathArgument {
        folder: Some(folder),
        path: folder + 1,
    }
}

/// Flags by which opening may change a file: for writing, creating, emptying.
const CHANGING: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).unsigned_abs();

/// The calls. What changes an open file's content is not among them: the file was opened for writing before.
const CALLS: [(&str, Deed); 23] = [
    ("open", Deed::Open(plain(0), 1)),
    ("openat", Deed::Open(below(0), 2)),
    ("openat2", Deed::OpenHow(below(0), 2)),
    ("creat", Deed::Create(plain(0))),
    ("truncate", Deed::Change(plain(0))),
    ("chmod", Deed::Change(plain(0))),
    ("fchmod", Deed::ChangeOpen(0)),
    ("fchmodat", Deed::Change(below(0))),
    ("fchmodat2", Deed::ChangeBy(below(0), 3)),
    ("mkdir", Deed::Make(plain(0))),
    ("mkdirat", Deed::Make(below(0))),
    ("mknod", Deed::Make(plain(0))),
    ("mknodat", Deed::Make(below(0))),
    ("symlink", Deed::Make(plain(1))),
    ("symlinkat", Deed::Make(below(1))),
    ("unlink", Deed::Remove(plain(0))),
    ("unlinkat", Deed::Remove(below(0))),
    ("rmdir", Deed::Remove(plain(0))),
    ("rename", Deed::Move(plain(0), plain(1), None)),
    ("renameat", Deed::Move(below(0), below(2), None)),
    ("renameat2", Deed::Move(below(0), below(2), Some(4))),
    ("link", Deed::Link(plain(0), plain(1), None)),
    ("linkat", Deed::Link(below(0), below(2), Some(4))),
];

/// Returns the calls to stop: each with the conditions on its arguments under which it may change files.
pub(in crate::linux) fn watched(architecture: Architecture) -> Vec<(u32, Vec<ArgumentTest>)> {
    let calls = CALLS.iter().filter_map(|(name, deed)| {
        let conditions = match deed {
            Deed::Open(_, flags) => vec![ArgumentTest::AnyBit(*flags, CHANGING)],
            _ => Vec::new(),
        };
        Some((number(architecture, name)?, conditions))
    });
    calls.collect()
}

/// Returns what a call of this number does.
pub(super) fn deed_of(number_: i32) -> Option<Deed> {
    static DEEDS: LazyLock<Vec<(u32, Deed)>> = LazyLock::new(|| {
        let calls = CALLS.iter();
        let native = Architecture::NATIVE;
        calls
            .filter_map(|(name, deed)| Some((number(native, name)?, *deed)))
            .collect()
    });
    let number = u32::try_from(number_).ok()?;
    DEEDS
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, deed)| *deed)
}

/// Returns whether a file that is opened with these flags may change.
pub(super) fn is_changing(flags: u64) -> bool {
    flags & u64::from(CHANGING) != 0
}
