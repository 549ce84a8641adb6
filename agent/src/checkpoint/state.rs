//! The present states of paths.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ah_beneath::{Folder, Status, has_link};
use ah_conversation::{FileState, Time};
use rustix::fs::OFlags;

/// Contents of bigger files are kept in files of their own.
pub const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// State of a path with its content.
pub(super) type State = FileState<Arc<[u8]>>;

/// Returns the time that the file system gives to changes now. It is not that of [`Clock`], which may be one of tests.
pub(super) fn file_time() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Time(since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }))
}

/// What was found at a path.
pub(super) struct Found {
    pub state: State,
    /// `None` if nothing is there, or it cannot be seen.
    pub status: Option<Status>,
    /// Whether a folder above it is a symbolic link, which is not followed.
    pub is_behind_link: bool,
}

impl Found {
    pub fn nothing(folders: usize) -> Self {
        Self {
            state: FileState::Absent { folders },
            status: None,
            is_behind_link: false,
        }
    }
}

/// Where another process may act. Tests do it here.
pub(super) fn between_steps() {
    #[cfg(test)]
    super::tests::interfere();
}

/// The folders of a workspace, open.
pub(super) struct Workspace(Vec<(PathBuf, io::Result<Folder>)>);

impl Workspace {
    /// Opens the folders, whose paths have no symbolic links.
    pub fn open(roots: &[PathBuf]) -> Self {
        let mut roots: Vec<_> = { roots.iter() }
            .map(|root| (root.clone(), Folder::open(root)))
            .collect();
        // The outermost one comes first.
        roots.sort_by_key(|(root, _)| root.as_os_str().len());
        Self(roots)
    }

    /// Returns the open folder of the workspace that a path is in, and the path below it.
    pub fn place<'a>(&self, path: &'a Path) -> io::Result<(&Folder, &'a Path)> {
        between_steps();
        let mut roots = self.0.iter();
        let place = roots.find_map(|(root, folder)| Some((folder, path.strip_prefix(root).ok()?)));
        let Some((folder, below)) = place.filter(|(_, below)| *below != Path::new("")) else {
            return Err(io::Error::other("it is outside the workspace"));
        };
        ah_beneath::way(below)?;
        match folder {
            Ok(folder) => Ok((folder, below)),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// Opens the folder of the workspace around a path. Returns also the name in it.
    pub fn entry<'a>(&self, path: &'a Path) -> io::Result<(Folder, &'a OsStr)> {
        let (folder, below) = self.place(path)?;
        folder.entry(below)
    }

    /// Looks at a path, also at one outside of the workspace.
    pub fn look(&self, path: &Path) -> Found {
        match self.place(path) {
            Ok((folder, below)) => found(look(folder, below, path)),
            Err(_) => look_anywhere(path),
        }
    }
}

/// Reads the state of an absolute path. What cannot be read, or is behind a symbolic link, counts as not kept.
pub(super) fn state(path: &Path) -> State {
    look_anywhere(path).state
}

fn look_anywhere(path: &Path) -> Found {
    let below = path.strip_prefix("/").map_err(io::Error::other);
    found(below.and_then(|below| look(&Folder::top()?, below, path)))
}

fn found(looked: io::Result<Found>) -> Found {
    looked.unwrap_or_else(|error| Found {
        state: FileState::Unkept,
        status: None,
        is_behind_link: has_link(&error),
    })
}

/// Looks at what is at `path`, which is `below` the folder.
fn look(folder: &Folder, below: &Path, path: &Path) -> io::Result<Found> {
    let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(io::Error::other("it has no name"));
    };
    let (around, missing) = folder.descend(above)?;
    if missing > 0 {
        // Below a file there is nothing either.
        let first = above.iter().rev().nth(missing - 1).unwrap_or_default();
        let is_file = around.status(first)?.is_some();
        return Ok(Found::nothing(missing - usize::from(is_file)));
    }
    let Some(status) = around.status(name)? else {
        return Ok(Found::nothing(0));
    };
    Ok(Found {
        state: state_of(&around, name, &status, path),
        status: Some(status),
        is_behind_link: false,
    })
}

fn state_of(around: &Folder, name: &OsStr, found: &Status, path: &Path) -> State {
    let mode = found.mode;
    if found.is_folder() {
        return FileState::Folder { mode };
    }
    if found.is_link() {
        let target = around.read_link(name);
        return target.map_or(FileState::Unkept, |target| FileState::Link { target });
    }
    if found.is_file() && found.length > MAX_BYTES {
        let file = path.to_owned();
        return FileState::Big { file, mode };
    }
    match read(around, name) {
        Ok(content) if content.len() as u64 <= MAX_BYTES => FileState::File {
            content: content.into(),
            mode,
        },
        Ok(_) | Err(_) => FileState::Unkept,
    }
}

fn read(around: &Folder, name: &OsStr) -> io::Result<Vec<u8>> {
    let file = around.open_file(name, OFlags::RDONLY)?;
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok(content)
}
