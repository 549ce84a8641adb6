//! A planned rewind: which files it changes, which it leaves and why, and the order in which it writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use ah_conversation::{
    Clock, FileCause, FileChange, FileState, FileStep, FilesLeft, Record, Steered, Store,
    StoreError, Time, left_at, states_at, steered_by, steered_in,
};

use super::big;
pub use super::edit::FileEdit;
use super::state::{Found, Lookout, State, Workspace, file_time};

/// Why a file that somebody else has changed is left as it is.
const CHANGED_SINCE: &str = "somebody else has changed it since";

/// A planned rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    /// Number of the step before which it leads; `None` if nothing has changed.
    target: Option<i64>,
    /// The workspace folders, without symbolic links.
    roots: Vec<PathBuf>,
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
    /// Whether it obeys a record that this user has not made, as in a session that came from somebody else.
    pub is_of_others: bool,
    is_agreed: bool,
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
        let workspace = Workspace::open(roots);
        let mut rewind = Self::nothing(steps, place, roots);
        // The last folder to come back where something else is now: nothing is below it yet, and its paths come next.
        let mut returning: Option<&Path> = None;
        let states = states_at(steps, place);
        let mut lookout = Lookout::new(&workspace);
        let mut steering = Steering::default();
        let mut changed = HashMap::new();
        for (path, then) in &states {
            let path = *path;
            let then = with_content(then, store).await?;
            let is_below = returning.is_some_and(|folder| path.starts_with(folder));
            let now = match is_below {
                true => lookout.nothing(path),
                false => lookout.look(path),
            };
            let is_changed = is_changed_since(&now, left.get(path).copied());
            changed.insert(path, is_changed);
            let why = reason(steering.by(path), &now, &then);
            if is_same(&now.state, &then) {
                if !is_changed {
                    rewind.same.push(path.to_owned());
                }
                if why.is_none() {
                    rewind.unmake(path, &then);
                }
                continue;
            }
            if let Some(why) = why {
                rewind.skip(path, why, None);
            } else if is_changed {
                rewind.put_beside(path, then, &mut lookout);
            } else {
                if !is_below
                    && matches!(then, FileState::Folder { .. })
                    && !matches!(now.state, FileState::Folder { .. })
                {
                    returning = Some(path);
                }
                rewind.unmake(path, &then);
                rewind
                    .changes
                    .push(FileEdit::new(path.to_owned(), now, then));
            }
        }
        // Among them are further names of files that only lost or got another name.
        let left = left.iter();
        let names = left.filter(|(path, left)| match changed.get(*path) {
            Some(is_changed) => !is_changed,
            None => !is_changed_since(&lookout.look(path), Some(**left)),
        });
        rewind
            .same
            .extend(names.map(|(path, _)| path.to_path_buf()));
        // One that was there before was made again.
        let is_folder = |path: &Path| matches!(states.get(path), Some(FileState::Folder { .. }));
        rewind.made.retain(|path| !is_folder(path));
        rewind.leave_filled_folders(&mut lookout);
        rewind.changes.sort_by(|a, b| a.path.cmp(&b.path));
        rewind.find_names();
        rewind.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(rewind)
    }

    /// Returns one that changes nothing yet.
    fn nothing(steps: &[FileStep], place: usize, roots: &[PathBuf]) -> Self {
        Self {
            target: steps.get(place).map(|step| step.number),
            roots: roots.to_owned(),
            changes: Vec::new(),
            skipped: Vec::new(),
            made: BTreeSet::new(),
            same: Vec::new(),
            unseen: { steps.iter().skip(place) }
                .flat_map(|step| step.unseen.clone())
                .collect(),
            is_of_others: steps.iter().skip(place).any(|step| !step.is_own),
            is_agreed: false,
        }
    }

    /// Returns the total numbers of added and removed lines.
    pub fn lines(&self) -> (usize, usize) {
        self.changes.iter().fold((0, 0), |(come, go), edit| {
            (come + edit.insertions, go + edit.deletions)
        })
    }

    /// Says that the user was shown what it changes, and agreed. Without that nothing is done on the record of others.
    #[must_use]
    pub fn agreed(&self) -> Self {
        Self {
            is_agreed: true,
            ..self.clone()
        }
    }

    /// Finds out which files have further names. Names that all get a content of their own are parted.
    fn find_names(&mut self) {
        let file = |edit: &FileEdit| {
            let found = edit.seen?;
            // What is kept of a big file may be a name of it.
            let is_big = matches!(edit.now, FileState::Big { .. });
            let has_names = found.is_file() && found.names > 1 && !is_big;
            has_names.then_some(found.identity)
        };
        let files: Vec<_> = self.changes.iter().map(file).collect();
        let mut counts = HashMap::new();
        for file in files.iter().flatten() {
            *counts.entry(*file).or_insert(0) += 1;
        }
        for (edit, own) in self.changes.iter_mut().zip(files) {
            edit.has_names = own.is_some_and(|own| counts.get(&own) == Some(&1));
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
    fn put_beside(&mut self, path: &Path, then: State, lookout: &mut Lookout<'_>) {
        if !matches!(then, FileState::File { .. } | FileState::Big { .. }) {
            self.skip(path, CHANGED_SINCE, None);
            return;
        }
        let (beside, now) = name_beside(path, &then, lookout);
        if !is_same(&now.state, &then) {
            self.changes.push(FileEdit::new(beside.clone(), now, then));
        }
        self.skip(path, CHANGED_SINCE, Some(beside));
    }

    /// Leaves folders that would go, if they contain anything that stays.
    fn leave_filled_folders(&mut self, lookout: &mut Lookout<'_>) {
        let mut going: BTreeSet<PathBuf> = { self.changes.iter() }
            .filter(|edit| edit.takes_away())
            .map(|edit| edit.path.clone())
            .collect();
        let is_folder =
            |edit: &&FileEdit| edit.takes_away() && matches!(edit.now, FileState::Folder { .. });
        let folders = self.changes.iter().filter(is_folder);
        let listed: Vec<_> = folders
            .map(|edit| (&edit.path, lookout.list(&edit.path)))
            .collect();
        // Deepest first.
        for (folder, names) in listed.iter().rev() {
            let mut names = names.iter().flatten();
            if !names.all(|name| going.contains(&folder.join(name))) {
                going.remove(*folder);
            }
        }
        let (stay, changes) = std::mem::take(&mut self.changes)
            .into_iter()
            .partition(|edit: &FileEdit| edit.takes_away() && !going.contains(&edit.path));
        self.changes = changes;
        for edit in stay {
            self.skip(&edit.path, "it contains other files", None);
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
        if self.is_of_others && !self.is_agreed {
            let why = || io::Error::other("it was not recorded by you on this machine");
            let all = self.changes.iter().map(|edit| (edit.path.clone(), why()));
            return Ok(all.collect());
        }
        let workspace = Workspace::open(&self.roots);
        // What is replaced is stored first, so it must be what was planned for.
        let is_there = |edit: &FileEdit| edit.check(&workspace).map_err(|why| why.to_string());
        let (rest, mut failed) = self.without(|edit| is_there(edit).err());
        if rest.changes.is_empty() && !failed.is_empty() {
            return Ok(failed);
        }
        let before = rest.changes.iter();
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
        let is_big = |edit: &FileEdit| matches!(edit.now, FileState::Big { .. });
        let unkept = match rest.changes.iter().any(is_big) {
            true => unkept(store).await?,
            false => BTreeSet::new(),
        };
        let why = |edit: &FileEdit| {
            let is_unkept = unkept.contains(&edit.path);
            is_unkept.then(|| "its current content cannot be kept".to_owned())
        };
        let (rest, lost) = rest.without(why);
        failed.extend(lost);
        failed.extend(rest.perform(&workspace, store).await?);
        Ok(failed)
    }

    /// Returns the rewind without the changes for which there is a reason not to make them, and these.
    fn without(
        &self,
        reason: impl Fn(&FileEdit) -> Option<String>,
    ) -> (Self, Vec<(PathBuf, io::Error)>) {
        let mut failed = Vec::new();
        let mut rest = self.clone();
        rest.changes.retain(|edit| {
            let why = reason(edit);
            failed.extend(
                why.iter()
                    .map(|why| (edit.path.clone(), io::Error::other(why.clone()))),
            );
            why.is_none()
        });
        (rest, failed)
    }

    /// Does what the last step has not done before it was cut off.
    pub(super) async fn finish(
        &self,
        step: &FileStep,
        store: &dyn Store,
    ) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        let workspace = Workspace::open(&self.roots);
        for path in step.before.keys() {
            let _ = FileEdit::remove_drafts(path, &workspace);
        }
        self.perform(&workspace, store).await
    }

    async fn perform(
        &self,
        workspace: &Workspace,
        store: &dyn Store,
    ) -> Result<Vec<(PathBuf, io::Error)>, StoreError> {
        let failed = self.write(workspace);
        let remove = |path: &Path| {
            let (around, name) = workspace.entry(path)?;
            around.remove_folder(name)
        };
        // Deepest first.
        for folder in self.made.iter().rev() {
            // It stays if anything is in it.
            let _ = remove(folder);
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
    /// Nothing comes below something that did not go.
    fn write(&self, workspace: &Workspace) -> Vec<(PathBuf, io::Error)> {
        let mut failed: BTreeMap<PathBuf, io::Error> = BTreeMap::new();
        for edit in self.changes.iter().rev().filter(|edit| edit.takes_away()) {
            if let Err(error) = edit.remove(workspace) {
                failed.insert(edit.path.clone(), error);
            }
        }
        let stayed: BTreeSet<PathBuf> = failed.keys().cloned().collect();
        let is_blocked = |edit: &&FileEdit| {
            let mut above = edit.path.ancestors().skip(1);
            above.any(|above| stayed.contains(above))
        };
        let (blocked, free): (Vec<_>, Vec<_>) = self.changes.iter().partition(is_blocked);
        for edit in blocked {
            let why = || io::Error::other("what is in its way could not be removed");
            failed.entry(edit.path.clone()).or_insert_with(why);
        }
        let free = free.into_iter().filter(|edit| !stayed.contains(&edit.path));
        let free: Vec<&FileEdit> = free.collect();
        let mut note = |edit: &FileEdit, result: io::Result<()>| {
            if let Err(error) = result {
                failed.entry(edit.path.clone()).or_insert(error);
            }
        };
        for edit in &free {
            note(edit, edit.put(workspace));
        }
        for edit in free.iter().rev() {
            note(edit, edit.close(workspace));
        }
        failed.into_iter().collect()
    }
}

/// Returns the paths of the last step whose contents the store could not keep.
async fn unkept(store: &dyn Store) -> Result<BTreeSet<PathBuf>, StoreError> {
    let last = store.file_steps().await?.pop();
    let before = last.into_iter().flat_map(|step| step.before);
    let unkept = before.filter(|(_, state)| *state == FileState::Unkept);
    Ok(unkept.map(|(path, _)| path).collect())
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
fn is_changed_since(found: &Found, left: Option<Time>) -> bool {
    let (Some(left), Some(found)) = (left, &found.status) else {
        return false;
    };
    let (seconds, nanoseconds) = found.changed;
    !found.is_folder() && seconds * 1000 + nanoseconds / 1_000_000 > left.0
}

/// Returns a name beside `path` that nothing has, or that has the wanted state already, and its state.
fn name_beside(path: &Path, wanted: &State, lookout: &mut Lookout<'_>) -> (PathBuf, Found) {
    let names = (1..).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".restored".to_owned(),
            number => format!(".restored-{number}"),
        });
        PathBuf::from(name)
    });
    let mut states = names.map(|name| {
        let now = lookout.look(&name);
        (name, now)
    });
    let fits = |now: &State| matches!(now, FileState::Absent { .. }) || is_same(now, wanted);
    let free = states.find(|(_, now)| fits(&now.state));
    free.unwrap_or_else(|| (path.to_owned(), Found::nothing(0)))
}

/// What paths steer. The folders around them are kept in mind, since many have the same.
#[derive(Default)]
struct Steering(HashMap<PathBuf, Option<Steered>>);

impl Steering {
    fn by(&mut self, path: &Path) -> Option<Steered> {
        let around = match path.parent() {
            None => None,
            Some(folder) => match self.0.get(folder) {
                Some(known) => *known,
                None => {
                    let steered = steered_by(folder);
                    self.0.insert(folder.to_owned(), steered);
                    steered
                }
            },
        };
        let steered = steered_in(around, path);
        // It may be a folder with the next ones in it.
        self.0.insert(path.to_owned(), steered);
        steered
    }
}

/// Returns why a changed path is not restored, if there is a reason.
fn reason(steered: Option<Steered>, now: &Found, then: &State) -> Option<&'static str> {
    if now.is_outside {
        Some("outside the workspace")
    } else if !matches!(steered, None | Some(Steered::Builds | Steered::Packages)) {
        Some("protected file")
    } else if now.is_behind_link {
        Some("its path contains a symbolic link")
    } else if *then == FileState::Unkept {
        Some("its earlier content was not kept")
    } else if now.state == FileState::Unkept {
        Some("its current content cannot be kept")
    } else {
        None
    }
}
