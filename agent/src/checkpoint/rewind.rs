//! A planned rewind: which files it changes, which it leaves and why, and the order in which it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Clock, FileCause, FileChange, FileState, FileStep, FilesLeft, Record, Steered, Store,
    StoreError, Time, left_at, states_at, steered_by,
};
use similar::{ChangeTag, TextDiff};

use super::state::{file_time, state};

/// Maximum size for a line diff; for bigger files only the lines are counted.
const MAX_COMPARED: usize = 1024 * 1024;
/// Time after which the diff becomes approximate.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Why a file that somebody else has changed is left as it is.
const CHANGED_SINCE: &str = "somebody else has changed it since";

/// State of a path with its content.
type State = FileState<Arc<[u8]>>;

/// A planned rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    /// Number of the step before which it leads; `None` if nothing has changed.
    target: Option<i64>,
    /// Changes to make, sorted by path.
    pub changes: Vec<FileEdit>,
    /// Changed files that are not restored.
    pub skipped: Vec<SkippedFile>,
    /// Paths that are as they were. Writing others may change the times of these, if they are names of the same file.
    same: Vec<PathBuf>,
    /// Calls since, each in a few words, whose changes were not seen: they stay.
    pub unseen: Vec<String>,
}

/// A path that a rewind restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The path.
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

/// A path that a rewind does not restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The path.
    pub path: PathBuf,
    /// Reason.
    pub why: &'static str,
    /// Where the rewind puts the earlier content instead.
    pub beside: Option<PathBuf>,
}

impl Rewind {
    /// Plans the rewind to `place` of `steps`.
    pub(super) async fn plan(
        store: &dyn Store,
        steps: &[FileStep],
        place: usize,
        roots: &[PathBuf],
    ) -> Result<Self, StoreError> {
        let left = left_at(steps, place);
        let mut rewind = Self {
            target: steps.get(place).map(|step| step.number),
            changes: Vec::new(),
            skipped: Vec::new(),
            same: Vec::new(),
            unseen: { steps.iter().skip(place) }
                .flat_map(|step| step.unseen.clone())
                .collect(),
        };
        // Folders to come back where something else is now: nothing is below them yet.
        let mut returning: Vec<&Path> = Vec::new();
        for (path, then) in states_at(steps, place) {
            let then = with_content(then, store).await?;
            let is_below = returning.iter().any(|folder| path.starts_with(folder));
            let now = match is_below {
                true => FileState::Absent { folders: 0 },
                false => state(path),
            };
            if is_same(&now, &then) {
                if !is_changed_since(path, left.get(path).copied()) {
                    rewind.same.push(path.to_owned());
                }
                continue;
            }
            let why = match is_below {
                true => reason_by_states(path, &now, &then, roots),
                false => {
                    reason_by_states(path, &now, &then, roots).or_else(|| reason_by_place(path))
                }
            };
            if let Some(why) = why {
                rewind.skip(path, why, None);
            } else if !is_below && is_changed_since(path, left.get(path).copied()) {
                rewind.put_beside(path, then);
            } else {
                if matches!(then, FileState::Folder { .. })
                    && !matches!(now, FileState::Folder { .. })
                {
                    returning.push(path);
                }
                rewind
                    .changes
                    .push(FileEdit::new(path.to_owned(), now, then));
            }
        }
        rewind.leave_filled_folders();
        rewind.changes.sort_by(|a, b| a.path.cmp(&b.path));
        rewind.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(rewind)
    }

    /// Returns the total numbers of added and removed lines.
    pub fn lines(&self) -> (usize, usize) {
        self.changes.iter().fold((0, 0), |(come, go), edit| {
            (come + edit.insertions, go + edit.deletions)
        })
    }

    fn skip(&mut self, path: &Path, why: &'static str, beside: Option<PathBuf>) {
        self.skipped.push(SkippedFile {
            path: path.to_owned(),
            why,
            beside,
        });
    }

    /// Leaves a file that somebody else has changed, and puts its earlier content beside it.
    fn put_beside(&mut self, path: &Path, then: State) {
        let beside = matches!(then, FileState::File { .. }).then(|| free_name(path));
        if let Some(beside) = &beside {
            let nothing = FileState::Absent { folders: 0 };
            let edit = FileEdit::new(beside.clone(), nothing, then);
            self.changes.push(edit);
        }
        self.skip(path, CHANGED_SINCE, beside);
    }

    /// Leaves folders that would go, if they contain anything that stays.
    fn leave_filled_folders(&mut self) {
        let mut going: BTreeSet<PathBuf> = { self.changes.iter() }
            .filter(|edit| edit.takes_away())
            .map(|edit| edit.path.clone())
            .collect();
        // Deepest first.
        for edit in self.changes.iter().rev() {
            if edit.takes_away() && matches!(edit.now, FileState::Folder { .. }) {
                let entries = fs::read_dir(&edit.path).into_iter().flatten().flatten();
                let mut entries = entries.map(|entry| entry.path());
                if !entries.all(|entry| going.contains(&entry)) {
                    going.remove(&edit.path);
                }
            }
        }
        let (stay, changes) = std::mem::take(&mut self.changes)
            .into_iter()
            .partition(|edit: &FileEdit| edit.takes_away() && !going.contains(&edit.path));
        self.changes = changes;
        for edit in stay {
            self.skip(&edit.path, "it contains files of others", None);
        }
    }

    pub(super) async fn apply(
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
            unseen: Vec::new(),
        };
        store.append(vec![Record::Files(change)]).await?;
        let failed = self.write();
        self.remove_folders();
        let paths = self.changes.iter().map(|edit| &edit.path);
        let left = FilesLeft {
            paths: Some(paths.chain(&self.same).cloned().collect()),
            until: file_time(),
        };
        store.append(vec![Record::FilesLeft(left)]).await?;
        Ok(failed)
    }

    /// Writes the changes: first all that goes, the deepest first; then folders and what is in them; their modes last.
    fn write(&self) -> Vec<(PathBuf, io::Error)> {
        let mut failed = BTreeMap::new();
        let mut note = |edit: &FileEdit, result: io::Result<()>| {
            if let Err(error) = result {
                failed.entry(edit.path.clone()).or_insert(error);
            }
        };
        for edit in self.changes.iter().rev().filter(|edit| edit.takes_away()) {
            note(edit, edit.remove());
        }
        for edit in &self.changes {
            note(edit, edit.put());
        }
        for edit in self.changes.iter().rev() {
            if let FileState::Folder { mode } = edit.then {
                let mode = fs::Permissions::from_mode(mode);
                note(edit, fs::set_permissions(&edit.path, mode));
            }
        }
        failed.into_iter().collect()
    }

    /// Removes the folders that were created for files now removed, unless they contain something else.
    fn remove_folders(&self) {
        let created = self.changes.iter().flat_map(|edit| {
            let made = match edit.then {
                FileState::Absent { folders } => folders,
                _ => 0,
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
    fn new(path: PathBuf, now: State, then: State) -> Self {
        let (insertions, deletions) = lines_between(text(&now), text(&then));
        Self {
            path,
            now,
            then,
            insertions,
            deletions,
        }
    }

    /// Whether what is there now goes before anything comes.
    fn takes_away(&self) -> bool {
        let is_folder = |state: &State| matches!(state, FileState::Folder { .. });
        match (&self.now, &self.then) {
            (FileState::Absent { .. }, _) => false,
            (_, FileState::Absent { .. }) => true,
            (now, then) => is_folder(now) != is_folder(then),
        }
    }

    fn remove(&self) -> io::Result<()> {
        match self.now {
            FileState::Folder { .. } => fs::remove_dir(&self.path),
            _ => fs::remove_file(&self.path),
        }
    }

    /// Puts the earlier state in place; files and links atomically.
    fn put(&self) -> io::Result<()> {
        match &self.then {
            FileState::Unkept | FileState::Absent { .. } => Ok(()),
            FileState::Folder { .. } => {
                fs::create_dir_all(&self.path)?;
                // Files can be put into it, whatever mode it will have.
                let mode = fs::metadata(&self.path)?.permissions().mode();
                fs::set_permissions(&self.path, fs::Permissions::from_mode(mode | 0o700))
            }
            FileState::Link { target } => self.replace(|draft| symlink(target, draft)),
            // Never in place: other names of the file may have come since, and are to keep their content.
            FileState::File { content, mode } => self.replace(|draft| write(draft, content, *mode)),
        }
    }

    /// Makes a draft in the same folder, and renames it.
    fn replace(&self, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(io::Error::other("it has no name"));
        };
        fs::create_dir_all(folder)?;
        let mut draft = name.to_owned();
        // A name may be 255 bytes long.
        if draft.len() > 200 {
            draft.clear();
        }
        draft.push(format!(".{}.ah-rewind", std::process::id()));
        let draft = folder.join(draft);
        let made = make(&draft).and_then(|()| fs::rename(&draft, &self.path));
        if made.is_err() {
            let _ = fs::remove_file(&draft);
        }
        made
    }
}

async fn with_content(then: &FileState<String>, store: &dyn Store) -> Result<State, StoreError> {
    Ok(match then {
        FileState::Absent { folders } => FileState::Absent { folders: *folders },
        FileState::Folder { mode } => FileState::Folder { mode: *mode },
        FileState::Link { target } => FileState::Link {
            target: target.clone(),
        },
        FileState::Unkept => FileState::Unkept,
        FileState::File { content, mode } => match store.file_content(content).await? {
            Some(content) => FileState::File {
                content: content.into(),
                mode: *mode,
            },
            None => FileState::Unkept,
        },
    })
}

fn is_same(now: &State, then: &State) -> bool {
    match (now, then) {
        (FileState::Absent { .. }, FileState::Absent { .. }) => true,
        (now, then) => now == then && *now != FileState::Unkept,
    }
}

/// Returns whether a file was changed after the last step that changed it. A folder changes with each file in it.
fn is_changed_since(path: &Path, left: Option<Time>) -> bool {
    let (Some(left), Ok(found)) = (left, fs::symlink_metadata(path)) else {
        return false;
    };
    !found.is_dir() && found.ctime() * 1000 + found.ctime_nsec() / 1_000_000 > left.0
}

/// Returns a name beside `path` that nothing has.
fn free_name(path: &Path) -> PathBuf {
    let names = (1..).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".restored".to_owned(),
            number => format!(".restored-{number}"),
        });
        PathBuf::from(name)
    });
    let mut free = names.filter(|name| fs::symlink_metadata(name).is_err());
    free.next().unwrap_or_else(|| path.to_owned())
}

fn text(state: &State) -> &[u8] {
    match state {
        FileState::File { content, .. } => content,
        _ => &[],
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

/// Returns why a changed path is not restored, if its name or its states are the reason.
fn reason_by_states(
    path: &Path,
    now: &State,
    then: &State,
    roots: &[PathBuf],
) -> Option<&'static str> {
    if !roots.iter().any(|root| path.starts_with(root)) {
        Some("outside the workspace")
    } else if !matches!(steered_by(path), None | Some(Steered::Builds)) {
        Some("protected file")
    } else if *then == FileState::Unkept {
        Some("its earlier content was not kept")
    } else if *now == FileState::Unkept {
        Some("its current content cannot be kept")
    } else {
        None
    }
}

/// Returns why a changed path is not restored, if the folders above it are the reason.
fn reason_by_place(path: &Path) -> Option<&'static str> {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let is_direct = folder
        .is_some_and(|folder| fs::canonicalize(folder).is_ok_and(|resolved| resolved == folder));
    (!is_direct).then_some("its path contains a symbolic link")
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
