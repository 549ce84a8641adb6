//! Files as they were: noted before a tool changes them, and given back at a person's wish.
//!
//! What a call says that it will write ([`Access::Write`]) is read and stored in the transaction that says that the call
//! starts. Going back is in two parts: a [`Rewind`] is a look that changes nothing, [`Files::go`] first notes what is
//! there now, as the step that lets the rewind itself be undone, and then writes. Which place a way back leads to is
//! decided in `conversation`.
//!
//! Nothing outside of the workspace is touched, nothing that programs obey (`.git` among it), and nothing that was not
//! kept. What commands changed without saying so before is not known here.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, Clock, FileCause, FileChange, FileState, FileStep, Message, MessageId, Record, Store,
    StoreError, is_protected, place_of, redo, states_at, undo,
};
use similar::{ChangeTag, TextDiff};

use crate::Session;

/// A bigger file is not kept, and then not given back either.
const MOST_BYTES: u64 = 10 * 1024 * 1024;
/// So much of a file is compared line by line; of a bigger one, only its length in lines is counted.
const MOST_COMPARED: usize = 1024 * 1024;
/// After so long the comparison becomes a rough one.
const MOST_TIME: Duration = Duration::from_millis(200);

/// What a call of the run that began with `run` will write, as it is now, to be stored before it runs; `None` if that is
/// nothing.
pub fn note<'a>(
    accesses: impl IntoIterator<Item = &'a Access>,
    run: &MessageId,
    clock: &dyn Clock,
) -> Option<Record> {
    let paths = accesses.into_iter().filter_map(|access| match access {
        Access::Write(path) if path.is_absolute() => Some(path),
        _ => None,
    });
    let before: Vec<_> = paths.map(|path| (path.clone(), state(path))).collect();
    (!before.is_empty()).then(|| {
        Record::Files(FileChange {
            cause: FileCause::Run(run.clone()),
            at: clock.now(),
            before,
        })
    })
}

/// What is at a path. What cannot be read is as good as not kept.
fn state(path: &Path) -> FileState<Arc<[u8]>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileState::Absent {
            folders: { path.ancestors().skip(1) }
                .take_while(|folder| fs::symlink_metadata(folder).is_err())
                .count(),
        },
        Ok(found) if found.is_file() && found.len() <= MOST_BYTES => match read(path) {
            Ok((content, mode)) if content.len() as u64 <= MOST_BYTES => FileState::File {
                content: content.into(),
                mode,
            },
            Ok(_) | Err(_) => FileState::Unkept,
        },
        Ok(_) | Err(_) => FileState::Unkept,
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    let mut content = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut content)?;
    Ok((content, mode))
}

/// The files that a session has changed, for whoever gives them back, also while it is at work.
#[derive(Clone)]
pub struct Files {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    roots: Vec<PathBuf>,
}

impl Files {
    /// Those of the session in `store`, in a workspace with these folders, named without symbolic links.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, roots: Vec<PathBuf>) -> Self {
        Self {
            store,
            clock,
            roots,
        }
    }

    /// What has changed so far, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.store.file_steps().await
    }

    /// The way to a place of [`Files::steps`]; place 0 is the beginning of the session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn to(&self, place: usize) -> Result<Rewind, StoreError> {
        Rewind::plan(&*self.store, &self.steps().await?, place, &self.roots).await
    }

    /// The way back by one run; `None` if there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn undo(&self) -> Result<Option<Rewind>, StoreError> {
        self.along(undo(&self.steps().await?)).await
    }

    /// The way forth after the last one back; `None` if there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn redo(&self) -> Result<Option<Rewind>, StoreError> {
        self.along(redo(&self.steps().await?)).await
    }

    /// The way to how files were when the run with this prompt began; `None` if the branch has no such message.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn before(
        &self,
        is_prompt: impl Fn(&Message) -> bool,
    ) -> Result<Option<Rewind>, StoreError> {
        let transcript = self.store.load().await?;
        let mut messages = transcript.messages().iter();
        let Some(prompt) = messages.find(|message| is_prompt(message)) else {
            return Ok(None);
        };
        let place = place_of(&self.steps().await?, &prompt.id, prompt.created_at);
        self.along(Some(place)).await
    }

    /// Goes a way that was looked at: notes what is there now, then gives the files back. Gives what could not be, and
    /// why.
    ///
    /// # Errors
    /// When what is there now cannot be stored; no file has changed then.
    pub async fn go(&self, way: &Rewind) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        way.apply(&*self.store, &*self.clock).await
    }

    async fn along(&self, place: Option<usize>) -> Result<Option<Rewind>, StoreError> {
        match place {
            Some(place) => Ok(Some(self.to(place).await?)),
            None => Ok(None),
        }
    }
}

impl Session {
    /// The files that it has changed.
    pub fn files(&self) -> Files {
        Files::new(
            self.ports.store.clone(),
            self.ports.clock.clone(),
            self.settings.permissions.roots(),
        )
    }
}

/// A way to how files were, looked at and not yet gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    /// The number of the step before which it leads; `None` where there is no way to go, since nothing has changed.
    target: Option<i64>,
    /// What will change, in the order of the paths.
    pub changes: Vec<FileEdit>,
    /// What has changed since then and stays as it is.
    pub skipped: Vec<SkippedFile>,
}

/// A file that a rewind gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Where.
    pub path: PathBuf,
    /// What is there now.
    pub now: FileState<Arc<[u8]>>,
    /// What will be there.
    pub then: FileState<Arc<[u8]>>,
    /// Lines that come.
    pub insertions: usize,
    /// Lines that go.
    pub deletions: usize,
}

/// A file that a rewind leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub why: &'static str,
}

impl Rewind {
    /// Looks at what going to `place` of `steps` would change.
    async fn plan(
        store: &dyn Store,
        steps: &[FileStep],
        place: usize,
        roots: &[PathBuf],
    ) -> Result<Self, StoreError> {
        let (mut changes, mut skipped) = (Vec::new(), Vec::new());
        for (path, then) in states_at(steps, place) {
            let now = state(path);
            let then = match then {
                FileState::Absent { folders } => FileState::Absent { folders: *folders },
                FileState::Unkept => FileState::Unkept,
                FileState::File { content, mode } => match store.file_content(content).await? {
                    Some(content) => FileState::File {
                        content: content.into(),
                        mode: *mode,
                    },
                    None => FileState::Unkept,
                },
            };
            let is_same = match (&now, &then) {
                (FileState::Absent { .. }, FileState::Absent { .. }) => true,
                (now, then) => now == then && *now != FileState::Unkept,
            };
            if is_same {
                continue;
            }
            let path = path.to_owned();
            match reason_to_leave(&path, &now, &then, roots) {
                Some(why) => skipped.push(SkippedFile { path, why }),
                None => changes.push(FileEdit::new(path, now, then)),
            }
        }
        Ok(Self {
            target: steps.get(place).map(|step| step.number),
            changes,
            skipped,
        })
    }

    /// Lines that come, and lines that go, of all files.
    pub fn lines(&self) -> (usize, usize) {
        self.changes.iter().fold((0, 0), |(come, go), edit| {
            (come + edit.insertions, go + edit.deletions)
        })
    }

    async fn apply(
        &self,
        store: &dyn Store,
        clock: &dyn Clock,
    ) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        let Some(target) = self.target else {
            return Ok(Vec::new());
        };
        let before = self.changes.iter();
        let change = FileChange {
            cause: FileCause::Rewind(target),
            at: clock.now(),
            before: before
                .map(|edit| (edit.path.clone(), edit.now.clone()))
                .collect(),
        };
        store.append(vec![Record::Files(change)]).await?;
        let failed = self.changes.iter().filter_map(|edit| {
            let error = put(&edit.path, &edit.then).err()?;
            Some((edit.path.clone(), error))
        });
        let failed = failed.collect();
        self.remove_folders();
        Ok(failed)
    }

    /// Removes the folders that were made for files that are gone again, unless something else is in them now.
    fn remove_folders(&self) {
        let folders = self.changes.iter().flat_map(|edit| {
            let made = match edit.then {
                FileState::Absent { folders } => folders,
                FileState::File { .. } | FileState::Unkept => 0,
            };
            edit.path.ancestors().skip(1).take(made)
        });
        // What lies deepest goes first.
        let folders: BTreeSet<_> = folders.collect();
        for folder in folders.into_iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl FileEdit {
    fn new(path: PathBuf, now: FileState<Arc<[u8]>>, then: FileState<Arc<[u8]>>) -> Self {
        let (insertions, deletions) = lines_between(text(&now), text(&then));
        Self {
            path,
            now,
            then,
            insertions,
            deletions,
        }
    }
}

fn text(state: &FileState<Arc<[u8]>>) -> &[u8] {
    match state {
        FileState::File { content, .. } => content,
        FileState::Absent { .. } | FileState::Unkept => &[],
    }
}

/// How many lines come and go between two contents.
fn lines_between(now: &[u8], then: &[u8]) -> (usize, usize) {
    if now.len().max(then.len()) > MOST_COMPARED {
        let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count();
        return (count(then), count(now));
    }
    let (now, then) = (String::from_utf8_lossy(now), String::from_utf8_lossy(then));
    let diff = TextDiff::configure()
        .timeout(MOST_TIME)
        .diff_lines(&*now, &*then);
    let count = |tag| diff.iter_all_changes().filter(|it| it.tag() == tag).count();
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// Why a file is not given back, though it has changed.
fn reason_to_leave(
    path: &Path,
    now: &FileState<Arc<[u8]>>,
    then: &FileState<Arc<[u8]>>,
    roots: &[PathBuf],
) -> Option<&'static str> {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let is_direct = folder
        .is_some_and(|folder| fs::canonicalize(folder).is_ok_and(|resolved| resolved == folder));
    if !roots.iter().any(|root| path.starts_with(root)) {
        Some("it is outside of the workspace")
    } else if is_protected(path) {
        Some("programs obey it, so it is not changed unasked")
    } else if !is_direct {
        Some("a symbolic link is on the way to it")
    } else if *then == FileState::Unkept {
        Some("what it was is not kept")
    } else if *now == FileState::Unkept {
        Some("what is there now could not be kept")
    } else {
        None
    }
}

/// Makes what is at a path so; a file is there whole or not at all.
fn put(path: &Path, state: &FileState<Arc<[u8]>>) -> io::Result<()> {
    match state {
        FileState::Unkept => Ok(()),
        FileState::Absent { .. } => fs::remove_file(path),
        FileState::File { content, mode } => {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::Error::other("it has no name"));
            };
            fs::create_dir_all(folder)?;
            let mut draft = name.to_owned();
            draft.push(format!(".{}.ah-rewind", std::process::id()));
            let draft = folder.join(draft);
            let written = write(&draft, content, *mode).and_then(|()| fs::rename(&draft, path));
            if written.is_err() {
                let _ = fs::remove_file(&draft);
            }
            written
        }
    }
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
