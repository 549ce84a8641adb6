//! Contents of protected files, for the tier without mounts: there a command can write them, so they are compared after
//! it has ended, and restored.
//!
//! What was changed is moved aside, never deleted. Paths are not trusted, since the command can change the project:
//! folders are opened without following links, and files are created where nothing is.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Timespec, Timestamps, Uid, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::quarantine::{is_aside, move_aside, parts};
use super::veil::Veil;
use crate::listing::{entries, look, open};

/// Most bytes that are kept for a command. What exceeds them is only compared by its identity.
const MOST_BYTES: u64 = 4 << 20;
/// Most files and folders that are kept for a command.
const MOST_FILES: usize = 2000;
/// Folder of this program, in which it writes sessions itself while commands run.
pub(super) const OWN: &str = ".ah";

/// Contents of protected files before a command.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    files: Vec<(PathBuf, Entry)>,
    /// Names in our own folders; what appears beside them is moved aside.
    own: Vec<(PathBuf, BTreeSet<OsString>)>,
    /// What is hidden in folders that can be written.
    #[serde(default)]
    veil: Veil,
}

/// A file, a folder with all that is in it, or a link.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Entry {
    File {
        attributes: Attributes,
        /// Seconds and nanoseconds of the last change.
        changed: (i64, i64),
        content: Content,
    },
    Folder {
        attributes: Attributes,
        /// Sorted by name.
        entries: Vec<(OsString, Self)>,
    },
    Link(PathBuf),
    /// Neither readable nor of these kinds: it is compared, but cannot be restored.
    Other,
}

/// Mode, owner and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Attributes(u32, u32, u32);

/// Content of a file; the journal is text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

/// What may still be read.
struct Room {
    bytes: u64,
    files: usize,
}

impl Kept {
    /// Reads the files at `paths`, which must be absolute; those that are missing are left out.
    pub fn take(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut room = Room {
            bytes: MOST_BYTES,
            files: MOST_FILES,
        };
        let mut kept = Self::default();
        let all: BTreeSet<_> = paths.into_iter().collect();
        let mut outer: Option<PathBuf> = None;
        for path in all {
            // A folder is kept with all that is in it.
            if outer.as_ref().is_some_and(|outer| path.starts_with(outer)) {
                continue;
            }
            if path.file_name() == Some(OsStr::new(OWN)) && path.is_dir() {
                kept.own.push((path.clone(), names(&path)));
                let lasting = names(&path).into_iter().map(|name| path.join(name));
                let read: Vec<_> = lasting
                    .filter_map(|path| Some((Entry::read(&path, &mut room)?, path)))
                    .collect();
                kept.files
                    .extend(read.into_iter().map(|(entry, path)| (path, entry)));
            } else if let Some(entry) = Entry::read(&path, &mut room) {
                kept.files.push((path.clone(), entry));
            }
            outer = Some(path);
        }
        kept
    }

    /// Returns the same with what is hidden.
    pub fn veiled(self, veil: Veil) -> Self {
        Self { veil, ..self }
    }

    /// Returns the same where the number of a device is another one since.
    pub fn on_device(self, before: u64, now: u64) -> Self {
        Self {
            veil: self.veil.on_device(before, now),
            ..self
        }
    }

    /// Puts back what was moved of what is hidden. Returns the new names of what was in its place.
    pub fn put_back(&self) -> std::io::Result<Vec<PathBuf>> {
        self.veil.restore()
    }

    /// Moves aside what has changed and restores what was there. Returns the new names of what was moved.
    pub fn restore(&self) -> Vec<PathBuf> {
        let mut moved = Vec::new();
        for (folder, before) in &self.own {
            let new = names(folder)
                .into_iter()
                .filter(|name| !before.contains(name));
            moved.extend(new.map(|name| move_aside(&folder.join(name))));
        }
        for (path, before) in &self.files {
            let mut room = Room {
                bytes: MOST_BYTES,
                files: MOST_FILES,
            };
            let is_there = look(path).is_ok();
            if Entry::read(path, &mut room).as_ref() == Some(before) {
                continue;
            }
            if is_there {
                moved.push(move_aside(path));
            }
            // If the folder around it is gone, or a link, there is no safe place for it.
            let _ = parts(path).and_then(|(folder, name)| before.write(&open(folder)?, name));
        }
        moved
    }
}

/// Returns the names in a folder of this program, but for its sessions, what belongs to them, and worktrees: they change
/// while a command runs. What was moved aside there has been dealt with.
pub(super) fn names(folder: &Path) -> BTreeSet<OsString> {
    let entries = entries(folder).into_iter().flatten().flatten();
    let is_of_sessions = |name: &OsStr| {
        let name = name.to_string_lossy();
        let is_other = matches!(&*name, ".gitignore" | "worktrees");
        is_other || name.contains(".db") || name.ends_with(".lock") || name.ends_with(".out")
    };
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| !is_of_sessions(name) && !is_aside(name))
        .collect()
}

impl Entry {
    /// Reads what is at `path`; `None` if nothing is there, or there is no room for it.
    fn read(path: &Path, room: &mut Room) -> Option<Self> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        room.files = room.files.checked_sub(1)?;
        let attributes = Attributes(metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
        if metadata.is_symlink() {
            return std::fs::read_link(path).ok().map(Self::Link);
        }
        if metadata.is_dir() {
            let Ok(found) = std::fs::read_dir(path) else {
                return Some(Self::Other);
            };
            let entries = found.flatten().map(|entry| {
                let read = Self::read(&entry.path(), room)?;
                Some((entry.file_name(), read))
            });
            let mut entries: Vec<_> = entries.collect::<Option<_>>()?;
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            return Some(Self::Folder {
                attributes,
                entries,
            });
        }
        if !metadata.is_file() {
            return Some(Self::Other);
        }
        room.bytes = room.bytes.checked_sub(metadata.len())?;
        // A pipe that has just taken its place would block.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path);
        let mut bytes = Vec::new();
        let read = opened.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
        if read.is_err() {
            return Some(Self::Other);
        }
        Some(Self::File {
            attributes,
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            content: match String::from_utf8(bytes) {
                Ok(text) => Content::Text(text),
                Err(error) => Content::Bytes(error.into_bytes()),
            },
        })
    }

    /// Creates this under a name that is free in an opened folder.
    fn write(&self, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        match self {
            Self::Other => Ok(()),
            Self::Link(target) => rustix::fs::symlinkat(target, folder, name),
            Self::File {
                attributes,
                changed: (seconds, nanoseconds),
                content,
            } => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mut file = std::fs::File::from(openat(folder, name, flags, Mode::RUSR)?);
                let bytes = match content {
                    Content::Text(text) => text.as_bytes(),
                    Content::Bytes(bytes) => bytes,
                };
                file.write_all(bytes)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                attributes.give(&file)?;
                let time = Timespec {
                    tv_sec: *seconds,
                    tv_nsec: *nanoseconds,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                rustix::fs::futimens(&file, &times)
            }
            Self::Folder {
                attributes,
                entries,
            } => {
                mkdirat(folder, name, Mode::RWXU)?;
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let own = openat(folder, name, flags, Mode::empty())?;
                for (name, entry) in entries {
                    entry.write(&own, name)?;
                }
                attributes.give(&own)
            }
        }
    }
}

impl Attributes {
    fn give(self, file: impl AsFd) -> Result<(), Errno> {
        let Self(mode, user, group) = self;
        // Only root may; others own what they create.
        let _ = rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Creates a project with settings, and keeps them.
    fn laid() -> (tempfile::TempDir, PathBuf, Kept) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join(".claude/hooks")).unwrap();
        fs::create_dir(root.join(".ah")).unwrap();
        fs::write(root.join(".claude/settings.json"), "{}").unwrap();
        fs::write(root.join(".claude/hooks/a"), [0xff, 0]).unwrap();
        fs::write(root.join(".ah/settings.json"), "{}").unwrap();
        fs::write(root.join(".ah/1.db"), "a session").unwrap();
        symlink("settings.json", root.join(".claude/link")).unwrap();
        let names = [".claude", ".claude/settings.json", ".ah", ".missing"];
        let kept = Kept::take(names.map(|name| root.join(name)));
        (folder, root, kept)
    }

    #[test]
    fn what_a_command_changed_is_moved_aside_and_restored() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 7] = [
            ("nothing", |_| ()),
            ("content", |own| {
                fs::write(own.join("settings.json"), "evil").unwrap();
            }),
            ("a new file", |own| {
                fs::write(own.join("new"), "evil").unwrap();
            }),
            ("the mode", |own| {
                fs::set_permissions(own.join("settings.json"), fs::Permissions::from_mode(0o777))
                    .unwrap();
            }),
            ("a link in its place", |own| {
                fs::remove_file(own.join("settings.json")).unwrap();
                symlink("/etc/passwd", own.join("settings.json")).unwrap();
            }),
            ("all", |own| fs::remove_dir_all(own).unwrap()),
            ("a pipe in its place", |own| {
                fs::remove_file(own.join("settings.json")).unwrap();
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    own.join("settings.json"),
                    rustix::fs::FileType::Fifo,
                    Mode::RUSR,
                    0,
                )
                .unwrap();
            }),
        ];
        for (what, change) in changes {
            let (_folder, root, kept) = laid();
            change(&root.join(".claude"));
            let is_moved = !matches!(what, "nothing" | "all");
            assert_eq!(kept.restore().len(), usize::from(is_moved), "{what}");
            let again = Kept::take([".claude", ".ah", ".missing"].map(|name| root.join(name)));
            assert_eq!(again, kept, "{what}");
            assert_eq!(
                root.join(".claude.quarantined").exists(),
                is_moved,
                "{what}"
            );
        }
    }

    #[test]
    fn sessions_are_left_and_other_new_files_beside_them_are_not() {
        let (_folder, root, kept) = laid();
        fs::write(root.join(".ah/1.db"), "more").unwrap();
        fs::write(root.join(".ah/2.db-wal"), "").unwrap();
        fs::create_dir(root.join(".ah/tools")).unwrap();
        assert_eq!(kept.restore(), [root.join(".ah/tools.quarantined")]);
        assert_eq!(fs::read_to_string(root.join(".ah/1.db")).unwrap(), "more");
        assert!(root.join(".ah/2.db-wal").exists());
    }

    #[test]
    fn a_link_above_leads_to_no_place() {
        let (_folder, root, kept) = laid();
        fs::rename(root.join(".ah"), root.join("away")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink("elsewhere", root.join(".ah")).unwrap();
        kept.restore();
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn it_survives_the_journal() {
        let (_folder, _root, kept) = laid();
        let text = serde_json::to_vec(&kept).unwrap();
        assert_eq!(serde_json::from_slice::<Kept>(&text).unwrap(), kept);
    }
}
