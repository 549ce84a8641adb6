//! The present states of paths.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ah_beneath::{Folder, Status, has_link};
use ah_conversation::{FileState, Time};
use rustix::fs::OFlags;

use super::way::{Reached, Way};

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
    /// Whether it is outside of the workspace.
    pub is_outside: bool,
}

impl Found {
    pub fn nothing(folders: usize) -> Self {
        Self {
            state: FileState::Absent { folders },
            status: None,
            is_behind_link: false,
            is_outside: false,
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
}

/// Looks at many paths of a workspace for a plan, each from the folders that are open on its way. Before something changes, it
/// is looked at once more from the top.
pub(super) struct Lookout<'a> {
    workspace: &'a Workspace,
    way: Way,
}

impl<'a> Lookout<'a> {
    pub fn new(workspace: &'a Workspace) -> Self {
        let way = Way::new();
        Self { workspace, way }
    }

    /// Looks at a path, also at one outside of the workspace.
    pub fn look(&mut self, path: &Path) -> Found {
        let Ok((folder, below)) = self.workspace.place(path) else {
            let found = look_anywhere(path);
            return Found {
                is_outside: true,
                ..found
            };
        };
        found(self.look_below(folder, below, path))
    }

    fn look_below(&mut self, folder: &Folder, below: &Path, path: &Path) -> io::Result<Found> {
        let (Some(around), Some(above), Some(name)) =
            (path.parent(), below.parent(), below.file_name())
        else {
            return Err(io::Error::other("it has no name"));
        };
        let reached = self.way.open(around, folder, above)?;
        found_in(&reached, name, path)
    }

    /// Returns what is found at a path in a folder that is not there.
    pub fn nothing(&self, path: &Path) -> Found {
        Found {
            is_outside: self.workspace.place(path).is_err(),
            ..Found::nothing(0)
        }
    }

    /// Returns the names in a folder.
    pub fn list(&mut self, path: &Path) -> io::Result<Vec<OsString>> {
        let (folder, below) = self.workspace.place(path)?;
        let reached = self.way.open(path, folder, below)?;
        match reached.missing == Path::new("") {
            true => reached.folder.list(),
            false => Err(io::ErrorKind::NotFound.into()),
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
        is_outside: false,
    })
}

/// Looks at what is at `path`, which is `below` the folder.
fn look(folder: &Folder, below: &Path, path: &Path) -> io::Result<Found> {
    let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(io::Error::other("it has no name"));
    };
    let (around, missing) = folder.descend(above)?;
    let there = above.components().count() - missing;
    let mut rest = above.components();
    rest.by_ref().take(there).for_each(drop);
    let reached = Reached {
        folder: &around,
        missing: rest.as_path(),
    };
    found_in(&reached, name, path)
}

/// Looks at what has a name in a folder; if that is missing, there is nothing.
fn found_in(reached: &Reached<'_>, name: &OsStr, path: &Path) -> io::Result<Found> {
    let Reached { folder, missing } = reached;
    if let Some(first) = missing.iter().next() {
        // Below a file there is nothing either.
        let is_file = folder.status(first)?.is_some();
        let missing = missing.components().count();
        return Ok(Found::nothing(missing - usize::from(is_file)));
    }
    Ok(match folder.status(name)? {
        None => Found::nothing(0),
        Some(status) => Found {
            state: state_of(folder, name, &status, path),
            status: Some(status),
            ..Found::nothing(0)
        },
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
