//! File checkpoints: file contents are recorded before a tool changes them, and restored on request.
//!
//! The files that a call is about to write ([`Access::Write`]) are read and stored in the same transaction as the
//! start of the call. A rewind has two parts: planning a [`Rewind`] changes nothing; [`Files::go`] first records the
//! current state, as the step by which the rewind itself can be undone, and then writes. `conversation` decides which
//! place an undo leads to.
//!
//! What commands change is recorded by the sandbox, which stops each change until the state before it is written down
//! ([`CommandFiles`]). Calls whose changes nobody sees are noted by name.
//!
//! A rewind never touches files outside the workspace, files that programs obey (such as `.git`), files that were not
//! kept, or files that somebody else has changed since.

mod big;
mod edit;
mod rewind;
mod state;
mod way;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Access, Clock, FileCause, FileChange, FileStep, FilesLeft, Message, MessageId, Record, Store,
    StoreError, cut_off, place_of, redo, undo,
};

pub use self::rewind::{FileEdit, Rewind, SkippedFile};
pub use self::state::MAX_BYTES;
use self::state::{file_time, state};
use crate::Session;
use crate::ports::CommandFiles;

/// Returns a record with the current state of the files that a call of the run `run` will write, to be stored before
/// the call runs; `None` if it writes none. `unseen` names the call if nobody sees its changes.
pub fn record<'a>(
    accesses: impl IntoIterator<Item = &'a Access>,
    unseen: Option<String>,
    run: &MessageId,
    clock: &dyn Clock,
) -> Option<Record> {
    let before: Vec<_> = { accesses.into_iter() }
        .filter_map(written)
        .map(|path| (path.clone(), state(path)))
        .collect();
    (!before.is_empty() || unseen.is_some()).then(|| {
        Record::Files(FileChange {
            cause: FileCause::Run(run.clone()),
            at: clock.now(),
            before,
            unseen: unseen.into_iter().collect(),
        })
    })
}

/// Returns the file that an access writes, if it names one.
fn written(access: &Access) -> Option<&PathBuf> {
    match access {
        Access::Write(path) if path.is_absolute() => Some(path),
        _ => None,
    }
}

/// Returns whether a call may change files that nobody sees; `sees_commands` says whether those of confined commands
/// are seen.
pub(crate) fn is_unseen(accesses: &[Access], sees_commands: bool) -> bool {
    accesses.iter().any(|access| match access {
        Access::Command(line) => !line.harmless && !sees_commands,
        Access::Confined { promised } => !promised && !sees_commands,
        Access::Unknown => true,
        _ => false,
    })
}

/// Returns records of what calls of the run `run` have changed, to be stored with the result of one with these
/// accesses.
pub(crate) fn after(
    accesses: &[Access],
    commands: Option<&dyn CommandFiles>,
    run: &MessageId,
    clock: &dyn Clock,
) -> Vec<Record> {
    let seen = commands.map(CommandFiles::take).unwrap_or_default();
    let mut paths = seen.changed;
    for path in accesses.iter().filter_map(written) {
        if let Some(commands) = commands {
            commands.wrote(path);
        }
        paths.push(path.clone());
    }
    let is_unseen = is_unseen(accesses, commands.is_some());
    let mut records = Vec::new();
    if !seen.before.is_empty() || !seen.unseen.is_empty() {
        records.push(Record::Files(FileChange {
            cause: FileCause::Run(run.clone()),
            at: clock.now(),
            before: seen.before,
            unseen: seen.unseen,
        }));
    }
    if is_unseen || !paths.is_empty() {
        records.push(Record::FilesLeft(FilesLeft {
            paths: (!is_unseen).then_some(paths),
            until: file_time(),
        }));
    }
    records
}

/// What has become of a rewind that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOff {
    /// It is finished; the number of files that it had not restored yet.
    Finished(usize),
    /// It stays as it is, since this user has not recorded it.
    OfOthers,
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

    /// Plans the undo of the last run; `None` if there is nothing to undo. If nothing is known of what the session's
    /// calls have changed, the plan is empty but for their names.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn undo(&self) -> Result<Option<Rewind>, StoreError> {
        let steps = self.steps().await?;
        let is_unknown = || {
            steps
                .iter()
                .any(|step| !step.unseen.is_empty())
                .then_some(0)
        };
        self.along(undo(&steps).or_else(is_unknown)).await
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

    /// Finishes a rewind that was cut off by a kill or a power cut, if there is one and this user has recorded all that it
    /// obeys: the files become what it was leading to. To be called before anything else.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn recover(&self) -> Result<Option<CutOff>, StoreError> {
        let steps = self.steps().await?;
        let (Some(place), [before @ .., last]) = (cut_off(&steps), &steps[..]) else {
            return Ok(None);
        };
        if last.before.is_empty() || steps[place..].iter().any(|step| !step.is_own) {
            return Ok(Some(CutOff::OfOthers));
        }
        let way = Rewind::plan(&*self.store, before, place, &self.roots).await?;
        way.finish(last, &*self.store).await?;
        Ok(Some(CutOff::Finished(way.changes.len())))
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

#[cfg(test)]
mod tests;
