//! A planned rewind: which files it changes, which it leaves and why, and the order in which it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Clock, FileCause, FileChange, FileState, FileStep, FilesLeft, Record, Steered, Store,
    StoreError, Time, left_at, states_at, steered_by,
};
use ah_replace::{Content, FurtherNames, Replacement};

use super::big;
use super::state::{file_time, state};

/// Maximum size for a line diff; for bigger files only the lines are counted.
const MAX_COMPARED: usize = 1024 * 1024;
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
    /// Folders that tools made for new files; removed by the rewind if they are empty.
    made: BTreeSet<PathBuf>,
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
    /// Whether the file has further names, which lead to the earlier content as well afterwards.
    has_names: bool,
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
            made: BTreeSet::new(),
            same: Vec::new(),
            unseen: { steps.iter().skip(place) }
                .flat_map(|step| step.unseen.clone())
                .collect(),
        };
        // Folders to come back where something else is now: nothing is below them yet.
        let mut returning: Vec<&Path> = Vec::new();
        let states = states_at(steps, place);
        for (path, then) in &states {
            let path = *path;
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
                if reason(path, is_below, &now, &then, roots).is_none() {
                    rewind.unmake(path, &then);
                }
                continue;
            }
            let why = reason(path, is_below, &now, &then, roots);
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
                rewind.unmake(path, &then);
                rewind
                    .changes
                    .push(FileEdit::new(path.to_owned(), now, then));
            }
        }
        // Among them are further names of files that only lost or got another name.
        let left = left.iter();
        let names = left.filter(|(path, left)| !is_changed_since(path, Some(**left)));
        rewind
            .same
            .extend(names.map(|(path, _)| path.to_path_buf()));
        // One that was there before was made again.
        let is_folder = |path: &PathBuf| {
            let then = states.get(path.as_path());
            matches!(then, Some(FileState::Folder { .. }))
        };
        rewind.made.retain(|path| !is_folder(path));
        rewind.leave_filled_folders();
        rewind.changes.sort_by(|a, b| a.path.cmp(&b.path));
        rewind.find_names();
        rewind.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(rewind)
    }

    /// Returns the total numbers of added and removed lines.
    pub fn lines(&self) -> (usize, usize) {
        self.changes.iter().fold((0, 0), |(come, go), edit| {
            (come + edit.insertions, go + edit.deletions)
        })
    }

    /// Finds out which files have further names. Names that all get a content of their own are parted.
    fn find_names(&mut self) {
        let file = |edit: &FileEdit| {
            let found = fs::symlink_metadata(&edit.path).ok()?;
            // What is kept of a big file may be a name of it.
            let is_big = matches!(edit.now, FileState::Big { .. });
            let has_names = found.is_file() && found.nlink() > 1 && !is_big;
            has_names.then(|| (found.dev(), found.ino()))
        };
        let files: Vec<_> = self.changes.iter().map(file).collect();
        for (edit, own) in self.changes.iter_mut().zip(&files) {
            let count = files.iter().filter(|file| *file == own).count();
            edit.has_names = own.is_some() && count == 1;
        }
    }

    /// Notes the folders that were made for a file that goes.
    fn unmake(&mut self, path: &Path, then: &State) {
        if let FileState::Absent { folders } = then {
            let made = path.ancestors().skip(1).take(*folders);
            self.made.extend(made.map(Path::to_owned));
        }
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
        let beside = matches!(then, FileState::File { .. } | FileState::Big { .. })
            .then(|| name_beside(path, &then));
        if let Some((beside, now)) = &beside
            && !is_same(now, &then)
        {
            let edit = FileEdit::new(beside.clone(), now.clone(), then);
            self.changes.push(edit);
        }
        let beside = beside.map(|(beside, _)| beside);
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
        let has_big = { self.changes.iter() }.any(|edit| matches!(edit.now, FileState::Big { .. }));
        let before = self.changes.iter();
        let change = FileChange {
            cause: FileCause::Rewind(target),
            at: clock.now(),
            before: before
                .map(|edit| (edit.path.clone(), edit.now.clone()))
                .collect(),
            unseen: Vec::new(),
        };
        let begun = Record::FilesLeft(FilesLeft {
            paths: None,
            until: FilesLeft::ONGOING,
        });
        store.append(vec![Record::Files(change), begun]).await?;
        if !has_big {
            return self.perform(store).await;
        }
        let (rest, unkept) = self.without_unkept(store).await?;
        let mut failed = rest.perform(store).await?;
        failed.extend(unkept);
        Ok(failed)
    }

    /// Returns the rewind without the files whose present content the store could not keep, and these.
    async fn without_unkept(
        &self,
        store: &dyn Store,
    ) -> Result<(Self, Vec<(PathBuf, io::Error)>), StoreError> {
        let steps = store.file_steps().await?;
        let before = steps.last().map(|step| &step.before);
        let is_unkept = |edit: &FileEdit| {
            let kept = before.and_then(|before| before.get(&edit.path));
            kept == Some(&FileState::Unkept)
        };
        let (unkept, changes) = { self.changes.iter().cloned() }.partition(is_unkept);
        let unkept: Vec<FileEdit> = unkept;
        let rest = Self {
            changes,
            ..self.clone()
        };
        let why = || io::Error::other("its current content cannot be kept");
        Ok((
            rest,
            unkept.into_iter().map(|edit| (edit.path, why())).collect(),
        ))
    }

    /// Does what the last step has not done before it was cut off.
    pub(super) async fn finish(
        &self,
        step: &FileStep,
        store: &dyn Store,
    ) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        for path in step.before.keys() {
            remove_drafts(path);
        }
        self.perform(store).await
    }

    async fn perform(&self, store: &dyn Store) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        let failed = self.write();
        // Deepest first.
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        let until = file_time();
        let all = FilesLeft { paths: None, until };
        let same = FilesLeft {
            paths: Some(self.same.clone()),
            until,
        };
        let left = [all, same].map(Record::FilesLeft);
        store.append(left.into()).await?;
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
            has_names: false,
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

    /// Puts the earlier state in place.
    fn put(&self) -> io::Result<()> {
        match &self.then {
            FileState::Unkept | FileState::Absent { .. } => Ok(()),
            FileState::Folder { .. } => {
                fs::create_dir_all(&self.path)?;
                // Files can be put into it, whatever mode it will have.
                let mode = fs::metadata(&self.path)?.permissions().mode();
                fs::set_permissions(&self.path, fs::Permissions::from_mode(mode | 0o700))
            }
            FileState::Link { target } => {
                let draft = self.draft()?;
                let draft = self.path.with_file_name(draft);
                let made = symlink(target, &draft).and_then(|()| fs::rename(&draft, &self.path));
                if made.is_err() {
                    let _ = fs::remove_file(&draft);
                }
                made
            }
            FileState::File { content, mode } => self.replace(Content::Bytes(content), *mode),
            FileState::Big { file, mode } => self.replace(Content::File(file), *mode),
        }
    }

    fn replace(&self, content: Content<'_>, mode: u32) -> io::Result<()> {
        let replacement = Replacement {
            path: &self.path,
            content,
            mode: Some(mode),
            draft: &self.draft()?,
            names: match self.has_names {
                true => FurtherNames::Stay,
                false => FurtherNames::Part,
            },
        };
        replacement.perform(|| Ok(()))
    }

    /// Makes the folder of the path, and returns the name of a draft in it.
    fn draft(&self) -> io::Result<OsString> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(io::Error::other("it has no name"));
        };
        fs::create_dir_all(folder)?;
        let (mut draft, end) = draft_name(name);
        draft.push(format!("{}{end}", std::process::id()));
        Ok(draft)
    }
}

async fn with_content(then: &FileState<String>, store: &dyn Store) -> Result<State, StoreError> {
    Ok(match then {
        FileState::Absent { folders } => FileState::Absent { folders: *folders },
        FileState::Folder { mode } => FileState::Folder { mode: *mode },
        FileState::Link { target } => FileState::Link {
            target: target.clone(),
        },
        FileState::Big { file, mode } => FileState::Big {
            file: file.clone(),
            mode: *mode,
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
        (
            FileState::Big { file, mode },
            FileState::Big {
                file: other,
                mode: then,
            },
        ) => mode == then && big::is_same(file, other).unwrap_or(false),
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

/// Returns a name beside `path` that nothing has, or that has the wanted state already, and its state.
fn name_beside(path: &Path, wanted: &State) -> (PathBuf, State) {
    let names = (1..).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".restored".to_owned(),
            number => format!(".restored-{number}"),
        });
        PathBuf::from(name)
    });
    let mut states = names.map(|name| {
        let now = state(&name);
        (name, now)
    });
    let fits = |now: &State| matches!(now, FileState::Absent { .. }) || is_same(now, wanted);
    let free = states.find(|(_, now)| fits(now));
    free.unwrap_or_else(|| (path.to_owned(), FileState::Unkept))
}

/// Returns the beginning and the end of the names of drafts for a file; a process number is between.
fn draft_name(name: &OsStr) -> (OsString, &'static str) {
    // A name may be 255 bytes long.
    let mut start = if name.len() > 200 {
        OsString::new()
    } else {
        name.to_owned()
    };
    start.push(".");
    (start, ".ah-rewind")
}

/// Removes drafts that a killed process has left beside a file.
fn remove_drafts(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let (start, end) = draft_name(name);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let between = { name.as_bytes().strip_prefix(start.as_bytes()) }
            .and_then(|rest| rest.strip_suffix(end.as_bytes()));
        if between.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
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
    ah_diff::counts(&now, &then)
}

/// Returns why a changed path is not restored, if there is a reason. `is_below` says whether its folder will be another
/// one than that which is there now.
fn reason(
    path: &Path,
    is_below: bool,
    now: &State,
    then: &State,
    roots: &[PathBuf],
) -> Option<&'static str> {
    if !roots.iter().any(|root| path.starts_with(root)) {
        Some("outside the workspace")
    } else if !matches!(
        steered_by(path),
        None | Some(Steered::Builds | Steered::Packages)
    ) {
        Some("protected file")
    } else if *then == FileState::Unkept {
        Some("its earlier content was not kept")
    } else if *now == FileState::Unkept {
        Some("its current content cannot be kept")
    } else if !is_below && has_link(path) {
        Some("its path contains a symbolic link")
    } else {
        None
    }
}

/// Returns whether a folder above the path is a link.
fn has_link(path: &Path) -> bool {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    folder.is_none_or(|folder| fs::canonicalize(folder).map_or(true, |resolved| resolved != folder))
}
