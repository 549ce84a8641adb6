//! What commands of an agent have overwritten of another one, kept in files of the session.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ah_agent::Conflict;
use ah_conversation::FileState;
use ah_store::Paths;

use super::agents::Agent;
use super::entry::State;

/// Time that a command has to open a file and to write to it what it has ready.
const SETTLING: Duration = Duration::from_millis(500);
/// Longest wait for another agent's command to close a file.
const LONGEST: Duration = Duration::from_secs(5);

/// Conflicts so far.
#[derive(Default)]
pub(super) struct Conflicts {
    list: Vec<Noted>,
}

struct Noted {
    by: Agent,
    is_told: bool,
    conflict: Conflict,
}

impl Conflicts {
    /// Keeps the version of `other` in `folder`, which `by` is about to overwrite. Returns its size in bytes. Folders and
    /// missing files have no versions.
    pub fn keep(
        &mut self,
        folder: &Path,
        path: &Path,
        other: Agent,
        by: &Agent,
        found: &State,
    ) -> u64 {
        let number = self.list.len();
        let (content, big) = match found {
            FileState::File { content, .. } => (Some(&content[..]), None),
            FileState::Link { target } => (Some(target.as_os_str().as_encoded_bytes()), None),
            FileState::Big { file, .. } => (None, Some(file.clone())),
            FileState::Unkept => (None, None),
            FileState::Absent { .. } | FileState::Folder { .. } => return 0,
        };
        let written = content.and_then(|content| write(folder, number, path, content).ok());
        let version = written.or(big);
        self.list.push(Noted {
            by: by.clone(),
            is_told: false,
            conflict: Conflict {
                path: path.to_owned(),
                other,
                version,
            },
        });
        content.map_or(0, |content| content.len() as u64)
    }

    /// Returns the conflicts of an agent that were not returned yet.
    pub fn news(&mut self, by: &Agent) -> Vec<Conflict> {
        self.forget_equal(by);
        let new = { self.list.iter_mut() }.filter(|noted| noted.by == *by && !noted.is_told);
        new.map(|noted| {
            noted.is_told = true;
            noted.conflict.clone()
        })
        .collect()
    }

    /// Returns the conflicts of an agent.
    pub fn all(&mut self, by: &Agent) -> Vec<Conflict> {
        self.forget_equal(by);
        let own = self.list.iter().filter(|noted| noted.by == *by);
        own.map(|noted| noted.conflict.clone()).collect()
    }

    /// Leaves out those of an agent whose file is as the other one had left it.
    fn forget_equal(&mut self, by: &Agent) {
        self.list.retain(|noted| {
            let Some(version) = noted.conflict.version.as_ref().filter(|_| noted.by == *by) else {
                return true;
            };
            let is_equal = is_equal(version, &noted.conflict.path).unwrap_or(false);
            if is_equal && is_own(version) {
                let _ = fs::remove_file(version);
            }
            !is_equal
        });
    }
}

/// Returns whether a version is a file of its own, not one that undo keeps as well.
fn is_own(version: &Path) -> bool {
    let name = version.file_name().unwrap_or_default();
    name.as_encoded_bytes()
        .starts_with(Paths::CONFLICTS.as_bytes())
}

/// Waits until an agent that began to write a file at this time has written it, which a command does some time after it
/// was stopped for that: at most [`LONGEST`].
pub(super) fn wait_for_writer(path: &Path, written: Instant) {
    thread::sleep(SETTLING.saturating_sub(written.elapsed()));
    while written.elapsed() < LONGEST && is_open_for_writing(path) {
        thread::sleep(SETTLING / 50);
    }
}

/// Returns whether a process that this one may look into has a file open for writing.
fn is_open_for_writing(path: &Path) -> bool {
    let all = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let files = all(Path::new("/proc")).flat_map(|process| all(&process.path().join("fd")));
    let mut open = files.filter(|file| fs::read_link(file.path()).is_ok_and(|name| name == *path));
    // The link has the rights that the file was opened with.
    open.any(|file| {
        let link = fs::symlink_metadata(file.path());
        link.is_ok_and(|link| link.permissions().mode() & 0o200 != 0)
    })
}

/// Returns whether a file, not a link, has the content of a version.
fn is_equal(version: &Path, file: &Path) -> io::Result<bool> {
    let (kept, found) = (fs::symlink_metadata(version)?, fs::symlink_metadata(file)?);
    Ok(found.is_file() && kept.len() == found.len() && fs::read(version)? == fs::read(file)?)
}

fn write(folder: &Path, number: usize, path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    // Names of earlier versions may be taken: by a former run, or since equal ones were forgotten.
    for number in number.. {
        let version = folder.join(format!("{}{number}-{name}", Paths::CONFLICTS));
        match options.open(&version) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                opened?.write_all(content)?;
                return Ok(version);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
