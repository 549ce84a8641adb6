//! File checkpoints: file contents are recorded before a tool changes them, and restored on request.
//!
//! The files that a call is about to write ([`Access::Write`]) are read and stored in the same transaction as the
//! start of the call. A rewind has two parts: planning a [`Rewind`] changes nothing; [`Files::go`] first records the
//! current state, as the step by which the rewind itself can be undone, and then writes. `conversation` decides which
//! place an undo leads to.
//!
//! A rewind never touches files outside the workspace, files that programs obey (such as `.git`), or files that were
//! not kept. Changes by commands that did not announce them are not known here.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, Clock, FileCause, FileChange, FileState, FileStep, Message, MessageId, Record, Steered,
    Store, StoreError, place_of, redo, states_at, steered_by, undo,
};
use similar::{ChangeTag, TextDiff};

use crate::Session;

/// Bigger files are not kept, and so not restored.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum size for a line diff; for bigger files only the lines are counted.
const MAX_COMPARED: usize = 1024 * 1024;
/// Time after which the diff becomes approximate.
const MAX_TIME: Duration = Duration::from_millis(200);

/// Returns a record with the current state of the files that a call of the run `run` will write, to be stored before
/// the call runs; `None` if it writes none.
pub fn record<'a>(
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

/// Reads the state of a path. An unreadable file counts as not kept.
fn state(path: &Path) -> FileState<Arc<[u8]>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileState::Absent {
            folders: path
                .ancestors()
                .skip(1)
                .take_while(|folder| fs::symlink_metadata(folder).is_err())
                .count(),
        },
        Ok(found) if found.is_file() && found.len() <= MAX_BYTES => match read(path) {
            Ok((content, mode)) if content.len() as u64 <= MAX_BYTES => FileState::File {
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
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok((content, mode))
}

/// The files changed by a session, for undo and redo, also during a run.
#[derive(Clone)]
pub struct Files {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    roots: Vec<PathBuf>,
}

impl Files {
    /// Creates the handle for the session in `store`; `roots` are the workspace folders without symbolic links.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, roots: Vec<PathBuf>) -> Self {
        Self {
            store,
            clock,
            roots,
        }
    }

    /// Returns the steps so far, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.store.file_steps().await
    }

    /// Plans the rewind to a place of [`Files::steps`]; place 0 is the beginning of the session.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn to(&self, place: usize) -> Result<Rewind, StoreError> {
        Rewind::plan(&*self.store, &self.steps().await?, place, &self.roots).await
    }

    /// Plans the undo of the last run; `None` if there is nothing to undo.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn undo(&self) -> Result<Option<Rewind>, StoreError> {
        self.along(undo(&self.steps().await?)).await
    }

    /// Plans the redo of the last undo; `None` if there is nothing to redo.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn redo(&self) -> Result<Option<Rewind>, StoreError> {
        self.along(redo(&self.steps().await?)).await
    }

    /// Plans the rewind to the state before the run with this prompt; `None` if the branch has no such message.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
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

    /// Performs a planned rewind: records the current state, then restores the files. Returns the files that could
    /// not be restored, and why.
    ///
    /// # Errors
    ///
    /// If the current state cannot be stored; no file has changed then.
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
    /// Returns the handle on the files that the session has changed.
    pub fn files(&self) -> Files {
        Files::new(
            self.ports.store.clone(),
            self.ports.clock.clone(),
            self.settings.permissions.roots(),
        )
    }
}

/// A planned rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    /// Number of the step before which it leads; `None` if nothing has changed.
    target: Option<i64>,
    /// Changes to make, sorted by path.
    pub changes: Vec<FileEdit>,
    /// Changed files that are not restored.
    pub skipped: Vec<SkippedFile>,
}

/// A file that a rewind restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Path of the file.
    pub path: PathBuf,
    /// Current state.
    pub now: FileState<Arc<[u8]>>,
    /// State after the rewind.
    pub then: FileState<Arc<[u8]>>,
    /// Number of added lines.
    pub insertions: usize,
    /// Number of removed lines.
    pub deletions: usize,
}

/// A file that a rewind does not restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason.
    pub why: &'static str,
}

impl Rewind {
    /// Plans the rewind to `place` of `steps`.
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

    /// Returns the total numbers of added and removed lines.
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
        let failed = self
            .changes
            .iter()
            .filter_map(|edit| {
                let error = put(&edit.path, &edit.then).err()?;
                Some((edit.path.clone(), error))
            })
            .collect();
        self.remove_folders();
        Ok(failed)
    }

    /// Removes the folders that were created for files now removed, unless they contain something else.
    fn remove_folders(&self) {
        let created = self.changes.iter().flat_map(|edit| {
            let made = match edit.then {
                FileState::Absent { folders } => folders,
                FileState::File { .. } | FileState::Unkept => 0,
            };
            edit.path.ancestors().skip(1).take(made)
        });
        // Deepest first.
        let folders: BTreeSet<_> = created.collect();
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

/// Counts the lines added and removed between two contents.
fn lines_between(now: &[u8], then: &[u8]) -> (usize, usize) {
    if now.len().max(then.len()) > MAX_COMPARED {
        let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count();
        return (count(then), count(now));
    }
    let (now, then) = (String::from_utf8_lossy(now), String::from_utf8_lossy(then));
    let diff = TextDiff::configure()
        .timeout(MAX_TIME)
        .diff_lines(&*now, &*then);
    let count = |tag| diff.iter_all_changes().filter(|it| it.tag() == tag).count();
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// Returns why a changed file is not restored, if so.
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
        Some("outside the workspace")
    } else if !matches!(steered_by(path), None | Some(Steered::Builds)) {
        Some("protected file")
    } else if !is_direct {
        Some("its path contains a symbolic link")
    } else if *then == FileState::Unkept {
        Some("its earlier content was not kept")
    } else if *now == FileState::Unkept {
        Some("its current content cannot be kept")
    } else {
        None
    }
}

/// Restores the state of a path; a file is written atomically.
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
