//! The state of a project before a command, as the journal keeps it: what a look afterwards is compared with, and what
//! has to be known for that look. Short, since it is written before every command.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::confinement::Confinement;
use crate::folders::{Folders, Found};
use crate::git::Pending;
use crate::plan::Identity;

/// What there is in a project.
#[derive(Default)]
pub(super) struct Seen {
    pub folders: Arc<Folders>,
    /// Existing `.git` of work trees.
    pub gits: HashSet<PathBuf>,
    pub repositories: Vec<PathBuf>,
    pub modules: HashSet<PathBuf>,
    pub worktrees: HashSet<PathBuf>,
    pub pending: BTreeSet<Pending>,
    /// What must not be written.
    pub protected: BTreeSet<PathBuf>,
}

/// Bytes, most often of a path: text where they are, since the journal is text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Bytes<'a> {
    Text(Cow<'a, str>),
    Others(Cow<'a, [u8]>),
}

impl<'a> Bytes<'a> {
    pub fn of(path: &'a Path) -> Self {
        Self::new(path.as_os_str().as_bytes())
    }

    fn new(bytes: &'a [u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Others(bytes.into()),
        }
    }

    pub fn path(&self) -> PathBuf {
        OsStr::from_bytes(self.bytes()).into()
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Others(bytes) => bytes,
        }
    }
}

type Paths<'a> = Vec<Bytes<'a>>;

fn record<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Paths<'a> {
    paths.into_iter().map(|path| Bytes::of(path)).collect()
}

fn paths<T: FromIterator<PathBuf>>(recorded: &Paths<'_>) -> T {
    recorded.iter().map(Bytes::path).collect()
}

/// A project before a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProjectRecord<'a> {
    workspace: Option<Bytes<'a>>,
    /// The workspace itself.
    folder: Option<Identity>,
    steering: Cow<'a, [String]>,
    git_home: Option<Bytes<'a>>,
    git_configuration: Paths<'a>,
    /// Folders that are not looked at.
    left_out: Paths<'a>,
    /// What was found in the others, each kind by itself.
    found: [Paths<'a>; 4],
    gits: Paths<'a>,
    repositories: Paths<'a>,
    modules: Paths<'a>,
    worktrees: Paths<'a>,
    pending: Vec<(Bytes<'a>, Bytes<'a>)>,
}

/// The kinds of entries, in the order of the record.
const KINDS: [fn(PathBuf) -> Found; 4] = [Found::Git, Found::Bare, Found::Steering, Found::Closed];

impl<'a> ProjectRecord<'a> {
    /// Records what was seen in a project.
    pub fn of(confinement: &'a Confinement, seen: &'a Seen) -> Self {
        let mut found = <[Paths<'a>; 4]>::default();
        for entry in seen.folders.found() {
            let kind = match entry {
                Found::Git(_) => 0,
                Found::Bare(_) => 1,
                Found::Steering(_) => 2,
                Found::Closed(_) => 3,
            };
            found[kind].push(Bytes::of(entry.path()));
        }
        let pending = seen.pending.iter();
        let folder = fs::symlink_metadata(&confinement.workspace).ok();
        Self {
            workspace: Some(Bytes::of(&confinement.workspace)),
            folder: folder.map(|folder| (folder.dev(), folder.ino())),
            steering: confinement.steering.as_slice().into(),
            git_home: confinement.git_home.as_deref().map(Bytes::of),
            git_configuration: record(&confinement.git_configuration),
            left_out: record(seen.folders.left_out()),
            found,
            gits: record(&seen.gits),
            repositories: record(&seen.repositories),
            modules: record(&seen.modules),
            worktrees: record(&seen.worktrees),
            pending: pending
                .map(|pending| (Bytes::of(&pending.folder), Bytes::new(&pending.what)))
                .collect(),
        }
    }

    /// Returns the number of the project's device then and now, which may change when the machine starts. `None` if the
    /// folder is gone or another one, such as that of another container.
    pub fn devices(&self) -> Option<(u64, u64)> {
        let (Some(workspace), Some((device, number))) = (&self.workspace, self.folder) else {
            return Some((0, 0));
        };
        let now = fs::symlink_metadata(workspace.path()).ok()?;
        (now.ino() == number).then(|| (device, now.dev()))
    }

    /// Returns the project as it was, with what has to be known to look at it again; `None` if nothing was recorded.
    pub fn project(&self) -> Option<(Confinement, Seen)> {
        let workspace = self.workspace.as_ref()?.path();
        let mut confinement = Confinement::new(workspace, self.git_home.as_ref().map(Bytes::path));
        confinement.steering = self.steering.to_vec();
        confinement.git_configuration = paths(&self.git_configuration);
        let found = KINDS.iter().zip(&self.found);
        let found = found.flat_map(|(kind, paths)| paths.iter().map(|path| kind(path.path())));
        let folders = Folders::recorded(&confinement.workspace, found, paths(&self.left_out));
        let pending = self.pending.iter().map(|(folder, what)| Pending {
            folder: folder.path(),
            what: what.bytes().to_vec(),
        });
        let seen = Seen {
            folders: Arc::new(folders),
            gits: paths(&self.gits),
            repositories: paths(&self.repositories),
            modules: paths(&self.modules),
            worktrees: paths(&self.worktrees),
            pending: pending.collect(),
            protected: BTreeSet::new(),
        };
        Some((confinement, seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_read_as_it_was_written() {
        let at = |name: &[u8]| Path::new("/p").join(OsStr::from_bytes(name));
        let mut confinement = Confinement::new("/p".into(), Some("/home/u".into()));
        confinement.steering = vec![".claude".to_owned()];
        confinement.git_configuration = vec!["/home/u/.gitconfig".into()];
        // Names are bytes.
        let found = [
            Found::Git(at(b"a/.git")),
            Found::Bare(at(b"\xff")),
            Found::Steering(at(b"\n\"/.claude")),
            Found::Closed(at(b"closed")),
        ];
        let seen = Seen {
            folders: Arc::new(Folders::recorded(
                Path::new("/p"),
                found,
                [at(b"z\xfe")].into(),
            )),
            gits: [at(b".git"), at(b"a/.git")].into(),
            repositories: vec![at(b".git")],
            modules: [at(b".git/modules/m")].into(),
            worktrees: [at(b".git/worktrees/w")].into(),
            pending: [Pending {
                folder: at(b".git/sequencer"),
                what: b"exec \xff".to_vec(),
            }]
            .into(),
            protected: BTreeSet::new(),
        };
        let text = serde_json::to_vec(&ProjectRecord::of(&confinement, &seen)).unwrap();
        let record: ProjectRecord<'_> = serde_json::from_slice(&text).unwrap();
        let (read, now) = record.project().unwrap();
        assert_eq!(read, confinement);
        let sorted = |seen: &Seen| seen.folders.found().cloned().collect::<BTreeSet<_>>();
        let left_out = |seen: &Seen| seen.folders.left_out().cloned().collect::<Vec<_>>();
        assert_eq!(sorted(&now), sorted(&seen));
        assert_eq!(left_out(&now), left_out(&seen));
        assert_eq!(now.gits, seen.gits);
        assert_eq!(now.repositories, seen.repositories);
        assert_eq!(now.modules, seen.modules);
        assert_eq!(now.worktrees, seen.worktrees);
        assert_eq!(now.pending, seen.pending);
        assert!(ProjectRecord::default().project().is_none());
    }
}
