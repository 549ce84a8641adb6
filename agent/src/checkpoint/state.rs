//! The present states of paths.

use std::ffi::{OsStr, OsString};
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

/// Looks at many paths of a workspace for a plan: at each from the folder of the last one, if it is in there, so that a path in a
/// deep folder is not walked from the top. Before something changes, it is looked at once more from the top.
pub(super) struct Lookout<'a> {
    workspace: &'a Workspace,
    /// The last folder, open.
    last: Option<(PathBuf, Folder)>,
}

impl<'a> Lookout<'a> {
    pub fn new(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            last: None,
        }
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
        let looked = match self.nearer(path) {
            Some((folder, below)) => look(folder, below, path),
            None => look(folder, below, path),
        };
        self.found(looked, path)
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
        let opened = match self.nearer(path) {
            Some((folder, below)) => folder.folder(below),
            None => folder.folder(below),
        };
        let opened = opened?;
        let names = opened.list();
        self.last = Some((path.to_owned(), opened));
        names
    }

    /// Returns the last folder, if a path is in it, with the path below it.
    fn nearer<'b>(&self, path: &'b Path) -> Option<(&Folder, &'b Path)> {
        let (last, folder) = self.last.as_ref()?;
        let below = path.strip_prefix(last).ok()?;
        (!below.as_os_str().is_empty()).then_some((folder, below))
    }

    fn found(&mut self, looked: io::Result<Looked>, path: &Path) -> Found {
        found(looked.map(|looked| {
            if let (Some(around), Some(folder)) = (looked.around, path.parent()) {
                self.last = Some((folder.to_owned(), around));
            }
            looked.found
        }))
    }
}

/// Reads the state of an absolute path. What cannot be read, or is behind a symbolic link, counts as not kept.
pub(super) fn state(path: &Path) -> State {
    look_anywhere(path).state
}

fn look_anywhere(path: &Path) -> Found {
    let below = path.strip_prefix("/").map_err(io::Error::other);
    let looked = below.and_then(|below| look(&Folder::top()?, below, path));
    found(looked.map(|looked| looked.found))
}

fn found(looked: io::Result<Found>) -> Found {
    looked.unwrap_or_else(|error| Found {
        state: FileState::Unkept,
        status: None,
        is_behind_link: has_link(&error),
        is_outside: false,
    })
}

/// What was found, and the folder around it if there is one.
struct Looked {
    found: Found,
    around: Option<Folder>,
}

/// Looks at what is at `path`, which is `below` the folder.
fn look(folder: &Folder, below: &Path, path: &Path) -> io::Result<Looked> {
    let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(io::Error::other("it has no name"));
    };
    let (around, missing) = folder.descend(above)?;
    if missing > 0 {
        // Below a file there is nothing either.
        let first = above.iter().rev().nth(missing - 1).unwrap_or_default();
        let is_file = around.status(first)?.is_some();
        return Ok(Looked {
            found: Found::nothing(missing - usize::from(is_file)),
            around: None,
        });
    }
    let found = match around.status(name)? {
        None => Found::nothing(0),
        Some(status) => Found {
            state: state_of(&around, name, &status, path),
            status: Some(status),
            ..Found::nothing(0)
        },
    };
    Ok(Looked {
        found,
        around: Some(around),
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
