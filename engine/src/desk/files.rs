//! What is changed in a stored session for the doors: its name, and the files that it has changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_config::Error;
use ah_conversation::FileState;
use ah_desk::{FileDiff, FileFate, FileLeft, FilesAt, FilesDiff};
use ah_ids::SystemClock;
use ah_store::Paths;

use super::starts::{Starts, unopened};
use crate::confinement::command_files::recover;
use crate::person::hunks;
use crate::sessions::folders::sessions;
use crate::sessions::place::take;

impl Starts {
    /// Gives a session a name.
    pub(super) async fn rename(&self, paths: &Paths, name: &str) -> Result<(), Error> {
        let config = self.config_of(None)?;
        if name.trim().is_empty() {
            return Err(Error::failure("the name is empty"));
        }
        let named = sessions(&config).named(name)?;
        if named.is_some_and(|named| named != *paths) {
            let message = format!("another session has the name `{name}`");
            return Err(Error::failure(message));
        }
        let store = take(paths).map_err(unopened)?;
        Ok(store.set_name(name.to_owned()).await?)
    }

    /// Returns how the files of a session differ from another state of them.
    pub(super) async fn files(
        &self,
        paths: &Paths,
        at: FilesAt,
    ) -> Result<Option<FilesDiff>, Error> {
        let (files, cwd) = self.files_of(paths).await?;
        let rewind = rewind(&files, at).await?;
        Ok(rewind.map(|rewind| told(&rewind, at, &cwd)))
    }

    /// Gives them that state, if `plan` is what it would change.
    pub(super) async fn restore(
        &self,
        paths: &Paths,
        at: FilesAt,
        plan: &str,
    ) -> Result<Option<Vec<FileLeft>>, Error> {
        let (files, cwd) = self.files_of(paths).await?;
        let rewind = rewind(&files, at).await?;
        let Some(rewind) = rewind.filter(|rewind| told(rewind, at, &cwd).plan == plan) else {
            return Ok(None);
        };
        let failed = files.go(&rewind.agreed()).await?;
        let failed = failed.into_iter().map(|(path, error)| FileLeft {
            path: shown(&path, &cwd),
            why: error.to_string(),
        });
        Ok(Some(failed.collect()))
    }

    /// Returns the files of a session, which nobody else has open meanwhile, and its folder.
    async fn files_of(&self, paths: &Paths) -> Result<(Files, PathBuf), Error> {
        let config = self.config_of(None)?;
        let store = Arc::new(take(paths).map_err(unopened)?);
        recover(&store, &config).await?;
        let clock = Arc::new(SystemClock::default());
        let files = Files::new(store, clock, config.permissions().roots());
        Ok((files, config.environment.cwd().to_owned()))
    }
}

async fn rewind(files: &Files, at: FilesAt) -> Result<Option<Rewind>, Error> {
    Ok(match at {
        FilesAt::Beginning => Some(files.to(0).await?),
        FilesAt::Undo => files.undo().await?,
        FilesAt::Redo => files.redo().await?,
    })
}

/// Returns a rewind as clients see it: with [`FilesAt::Beginning`] what it would take back, else what it would do.
fn told(rewind: &Rewind, at: FilesAt, cwd: &Path) -> FilesDiff {
    let is_back = at == FilesAt::Beginning;
    let mut diff = FilesDiff {
        files: { rewind.changes.iter() }
            .filter(|edit| !is_folder(edit))
            .map(|edit| file(edit, is_back, cwd))
            .collect(),
        left: { rewind.skipped.iter() }
            .map(|left| FileLeft {
                path: shown(&left.path, cwd),
                why: match &left.beside {
                    None => left.why.to_owned(),
                    Some(beside) => {
                        let beside = shown(beside, cwd);
                        format!("{}; its earlier content goes to {beside}", left.why)
                    }
                },
            })
            .collect(),
        unseen: rewind.unseen.clone(),
        is_of_others: rewind.is_of_others,
        plan: String::new(),
    };
    let mut hasher = DefaultHasher::new();
    // What is no text has no hunks, so its content counts as well.
    format!("{:?}", (&diff, &rewind.changes)).hash(&mut hasher);
    diff.plan = format!("{:016x}", hasher.finish());
    diff
}

fn is_folder(edit: &FileEdit) -> bool {
    let is_folder = |state| matches!(state, &FileState::Folder { .. });
    let is_absent = |state| matches!(state, &FileState::Absent { .. });
    (is_folder(&edit.now) || is_absent(&edit.now))
        && (is_folder(&edit.then) || is_absent(&edit.then))
}

fn file(edit: &FileEdit, is_back: bool, cwd: &Path) -> FileDiff {
    let (before, after) = match is_back {
        true => (&edit.then, &edit.now),
        false => (&edit.now, &edit.then),
    };
    let is_absent = |state| matches!(state, &FileState::Absent { .. });
    let hunks = edit.texts().map(|(then, now)| {
        let (before, after) = if is_back { (then, now) } else { (now, then) };
        hunks(before, after)
    });
    let (added, removed) = match is_back {
        true => (edit.deletions, edit.insertions),
        false => (edit.insertions, edit.deletions),
    };
    FileDiff {
        path: shown(&edit.path, cwd),
        change: match (is_absent(before), is_absent(after)) {
            (true, _) => FileFate::Created,
            (_, true) => FileFate::Removed,
            (false, false) => FileFate::Changed,
        },
        added,
        removed,
        hunks,
    }
}

fn shown(path: &Path, cwd: &Path) -> String {
    let below = path.strip_prefix(cwd);
    below.unwrap_or(path).to_string_lossy().into_owned()
}
