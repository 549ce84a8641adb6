//! The files that tools change. They outlive each process, and no power cut touches them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::{Input, ToolUse, ToolUseId};
use ah_store::Seal;

use crate::law::{Fault, Law};

/// Number of files.
pub(crate) const FILES: usize = 3;

/// The files.
#[derive(Default)]
pub(crate) struct Workspace {
    folder: PathBuf,
    /// Files with the calls that have changed them last, if their ends are not journalled. Nobody knows what they have left.
    unsettled: BTreeMap<PathBuf, ToolUseId>,
    /// Files that were unsettled when a process died: nobody can tell any more who has changed them.
    unowned: BTreeSet<PathBuf>,
}

impl Workspace {
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the key by which the user knows what their sessions have recorded of files.
    pub(crate) fn key(&self) -> Seal {
        Seal::at(&self.folder.join("key")).expect("there is a place for files")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file that a call with this input changes.
    pub(crate) fn file(&self, input: &Input) -> Option<PathBuf> {
        let number = input.get("file")?.as_u64()?;
        Some(self.folder.join(format!("file-{number}")))
    }

    /// Changes the file of a call.
    pub(crate) fn write(&mut self, call: &ToolUse) {
        let path = self.file(&call.input);
        if let Some(path) = path.filter(|path| fs::write(path, format!("By {}.", call.id)).is_ok())
        {
            self.unsettled.insert(path, call.id.clone());
        }
    }

    /// The end of a call is journalled.
    pub(crate) fn settle(&mut self, call: &ToolUseId) {
        self.unsettled.retain(|_, last| last != call);
    }

    /// A process begins: what the one before has not settled nobody will.
    pub(crate) fn begin(&mut self) {
        self.unowned
            .extend(std::mem::take(&mut self.unsettled).into_keys());
    }

    /// All files are to be changed. Returns those that were unowned before.
    pub(crate) fn forget_owners(&mut self) -> BTreeSet<PathBuf> {
        let files = (0..FILES).map(|number| self.folder.join(format!("file-{number}")));
        std::mem::replace(&mut self.unowned, files.collect())
    }

    /// The files were changed, and these are unowned.
    pub(crate) fn restore_owners(&mut self, unowned: BTreeSet<PathBuf>) {
        self.unowned = unowned;
    }

    /// Returns what the files are.
    pub(crate) fn now(&self) -> BTreeMap<PathBuf, String> {
        let files = (0..FILES).map(|number| self.folder.join(format!("file-{number}")));
        files
            .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
            .collect()
    }

    /// Looks at the files after a way to what they were.
    pub(crate) fn check_files(&self, wanted: &BTreeMap<PathBuf, String>) -> Result<(), Fault> {
        let now = self.now();
        for number in 0..FILES {
            let path = self.folder.join(format!("file-{number}"));
            let (has, had) = (now.get(&path), wanted.get(&path));
            if has != had && !self.unowned.contains(&path) {
                let what = format!("file-{number} has {has:?} in the place of {had:?}");
                return Err(Law::Undone.broken(what));
            }
        }
        Ok(())
    }
}
