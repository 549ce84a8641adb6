//! The disk: what SQLite has written and not synced is lost, torn or kept when the power fails; it may be full, or refuse something.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use ah_sandbox::sqlite::disk::{Disk, DiskFault};

use crate::chance::Chance;
use crate::plan::DiskEvent;
use crate::plant::PlantedFault;

/// How much of the writes that were not synced is there after a power cut.
const CHOICES: usize = 4;

/// The disk with the files of a session.
pub(crate) struct SimulatedDisk(Mutex<State>);

struct State {
    chance: Chance,
    plant: Option<PlantedFault>,
    /// The databases and their logs, by name.
    files: BTreeMap<OsString, Content>,
    /// Operations of the present process so far.
    operations: usize,
    event: Option<(usize, DiskEvent)>,
    is_full: bool,
    has_failed: bool,
    /// Nothing is written any more: the process is dead.
    is_off: bool,
    folder: PathBuf,
    /// Where the files go that the next process finds.
    rest: PathBuf,
    told: Vec<String>,
    /// A file that is other than it was written, if there is one.
    unknown: Option<String>,
}

/// What a file has, and what it is sure to have.
struct Content {
    synced: Vec<u8>,
    since: Vec<Change>,
    /// Bytes with the changes.
    size: usize,
    /// Changes at the last sync that it did not sync.
    late: usize,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Size(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => {
                let end = at + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*at..end].copy_from_slice(bytes);
            }
            Self::Size(size) => content.resize(*size, 0),
        }
    }

    /// Returns what is there of it if the power fails while it is made.
    fn torn(&self, chance: &mut Chance) -> Self {
        match self {
            Self::Write(at, bytes) => {
                Self::Write(*at, bytes[..chance.below(bytes.len() + 1)].to_vec())
            }
            Self::Size(_) => self.clone(),
        }
    }
}

impl Content {
    fn new(synced: Vec<u8>) -> Self {
        Self {
            size: synced.len(),
            synced,
            since: Vec::new(),
            late: 0,
        }
    }

    fn change(&mut self, change: Change) {
        self.size = match &change {
            Change::Write(at, bytes) => self.size.max(at + bytes.len()),
            Change::Size(size) => *size,
        };
        self.since.push(change);
    }

    /// Syncs so many changes.
    fn sync(&mut self, count: usize) {
        for change in self.since.drain(..count) {
            change.apply(&mut self.synced);
        }
        self.late = self.since.len();
    }

    fn now(&self) -> Vec<u8> {
        let mut content = self.synced.clone();
        self.since
            .iter()
            .for_each(|change| change.apply(&mut content));
        content
    }

    /// Returns what is there when the power comes back: of the changes since the last sync none, all, the first, or any of them.
    fn after_power_cut(&self, chance: &mut Chance) -> Vec<u8> {
        let mut content = self.synced.clone();
        let first = chance.below(self.since.len() + 1);
        let how = chance.below(CHOICES);
        for (at, change) in self.since.iter().enumerate() {
            let change = match how {
                0 => break,
                1 => Some(change.clone()),
                2 if at < first => Some(change.clone()),
                2 if at == first => Some(change.torn(chance)),
                2 => None,
                _ => match chance.below(3) {
                    0 => None,
                    1 => Some(change.clone()),
                    _ => Some(change.torn(chance)),
                },
            };
            if let Some(change) = change {
                change.apply(&mut content);
            }
        }
        content
    }
}

impl SimulatedDisk {
    pub(crate) fn new(plant: Option<PlantedFault>) -> Self {
        Self(Mutex::new(State {
            chance: Chance::new(0),
            plant,
            files: BTreeMap::new(),
            operations: 0,
            event: None,
            is_full: false,
            has_failed: false,
            is_off: false,
            folder: PathBuf::new(),
            rest: PathBuf::new(),
            told: Vec::new(),
            unknown: None,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a process with its files in `folder`. Those of the next one go to `rest` if it does not end by itself.
    pub(crate) fn begin(
        &self,
        seed: u64,
        event: Option<(usize, DiskEvent)>,
        folder: &Path,
        rest: &Path,
    ) {
        let mut state = self.state();
        state.chance = Chance::new(seed);
        (state.operations, state.event) = (0, event);
        (state.is_full, state.has_failed, state.is_off) = (false, false, false);
        state.folder = folder.to_owned();
        state.rest = rest.to_owned();
    }

    /// Nothing happens any more until the next process begins, and all can be read and written.
    pub(crate) fn calm(&self) {
        let mut state = self.state();
        state.event = None;
        (state.is_full, state.is_off) = (false, false);
    }

    /// Ends the process, with its power or alone.
    pub(crate) fn stop(&self, is_power_cut: bool) {
        self.state().stop(is_power_cut);
    }

    /// Refuses all while something is done, as the end of a process that does nothing any more.
    pub(crate) fn refuse_all(&self, work: impl FnOnce()) {
        let was_off = std::mem::replace(&mut self.state().is_off, true);
        work();
        self.state().is_off = was_off;
    }

    /// Returns whether the process is dead.
    pub(crate) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Returns whether the disk has refused something.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Returns what has happened, and what must not have.
    pub(crate) fn take_told(&self) -> (Vec<String>, Option<String>) {
        let mut state = self.state();
        (std::mem::take(&mut state.told), state.unknown.take())
    }
}

impl State {
    /// An operation, at which something may happen. `is_new` if it needs space.
    fn operation(&mut self, is_new: bool) -> Result<(), DiskFault> {
        if self.is_off {
            return Err(DiskFault::Broken);
        }
        let now = self.operations;
        self.operations += 1;
        if let Some((_, event)) = self.event.take_if(|(at, _)| *at == now) {
            match event {
                DiskEvent::PowerCut => {
                    self.stop(true);
                    return Err(DiskFault::Broken);
                }
                DiskEvent::Full => {
                    self.told.push("the disk is full".to_owned());
                    self.is_full = true;
                }
                DiskEvent::Error => {
                    self.told.push("the disk fails once".to_owned());
                    self.has_failed = true;
                    return Err(DiskFault::Broken);
                }
            }
        }
        if self.is_full && is_new {
            self.has_failed = true;
            return Err(DiskFault::Full);
        }
        Ok(())
    }

    fn planted(&mut self, plant: PlantedFault, times: usize) -> bool {
        self.plant == Some(plant) && self.chance.one_in(times)
    }

    fn stop(&mut self, is_power_cut: bool) {
        if std::mem::replace(&mut self.is_off, true) {
            return;
        }
        let what = match is_power_cut {
            true => "the power fails",
            false => "it is killed",
        };
        self.told.push(what.to_owned());
        let (from, to) = (self.folder.clone(), self.rest.clone());
        let copied = if is_power_cut {
            self.leave(&from, &to)
        } else {
            copy(&from, &to)
        };
        if let Err(error) = copied {
            self.told.push(format!("cannot copy: {error}"));
        }
    }

    /// Puts the files as they are after a power cut into the folder `to`.
    fn leave(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        copy(from, to)?;
        let is_lossy = self.plant == Some(PlantedFault::WriteForgotten);
        for (name, content) in &mut self.files {
            let path = to.join(name);
            if !path.exists() {
                // It was removed.
                continue;
            }
            if !is_lossy && fs::read(&path)? != content.now() {
                let name = name.display();
                self.unknown = Some(format!("{name} is other than it was written"));
                continue;
            }
            let left = content.after_power_cut(&mut self.chance);
            fs::write(&path, &left)?;
            *content = Content::new(left);
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Option<&mut Content> {
        self.files.get_mut(path.file_name()?)
    }
}

impl Disk for SimulatedDisk {
    fn opened(&self, path: &Path) {
        let mut state = self.state();
        if state.is_off {
            // What a dead process still opens is not what the next one finds.
            return;
        }
        let (Some(name), Ok(content)) = (path.file_name(), fs::read(path)) else {
            return;
        };
        let is_known = { &state.files }
            .get(name)
            .is_some_and(|known| known.now() == content);
        if !is_known {
            state.files.insert(name.to_owned(), Content::new(content));
        }
    }

    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), DiskFault> {
        let mut state = self.state();
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let size = state.file(path).map_or(0, |file| file.size);
        state.operation(at + bytes.len() > size)?;
        if state.planted(PlantedFault::WriteForgotten, 20) {
            // It is as it was there.
            return Ok(());
        }
        if let Some(file) = state.file(path) {
            file.change(Change::Write(at, bytes.to_vec()));
        }
        Ok(())
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<(), DiskFault> {
        let mut state = self.state();
        state.operation(false)?;
        if let Some(file) = state.file(path) {
            file.change(Change::Size(usize::try_from(size).unwrap_or(usize::MAX)));
        }
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<(), DiskFault> {
        let mut state = self.state();
        state.operation(false)?;
        let is_queue = path.to_string_lossy().contains(".queue.db");
        if state.planted(PlantedFault::SyncIgnored, 1)
            || is_queue && state.planted(PlantedFault::QueueSyncIgnored, 1)
        {
            return Ok(());
        }
        let is_late = state.planted(PlantedFault::SyncLate, 1);
        if let Some(file) = state.file(path) {
            let late = file.late.min(file.since.len());
            let count = if is_late { late } else { file.since.len() };
            file.sync(count);
        }
        Ok(())
    }
}

/// Copies the files of a session.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&copied)?;
            copy(&entry.path(), &copied)?;
        } else {
            fs::copy(entry.path(), copied)?;
        }
    }
    Ok(())
}
