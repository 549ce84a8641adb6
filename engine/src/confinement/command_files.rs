//! The journal of files that confined commands change: the state of each before its first change in a run.
//!
//! The sandbox stops a command before each change ([`ah_sandbox::Recorder`]); what is there is written to a file of the
//! session first, and only then the change happens. With the result of the call the entries go to the store, and the file
//! goes. If this process is killed in between, the file stays, and [`recover`] brings its entries to the store before
//! the next use of the session.
//!
//! Not kept: contents above the limits below, what rules hide from tools, and git's own files. All of them are named.

mod agent_files;
mod agents;
mod conflicts;
mod entry;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ah_agent::SeenFiles;
use ah_agent::checkpoint::{CutOff, Files, MAX_BYTES};
use ah_config::Config;
use ah_conversation::{
    FileCause, FileChange, FileState, FilesLeft, HiddenFiles, MessageId, Record, Store as _,
    StoreError, Time,
};
use ah_ids::SystemClock;
use ah_sandbox::UpcomingChange;
use ah_store::{BigFiles, MAX_BIG, Paths, Seal, SessionStore};
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags};

pub use self::agent_files::AgentFiles;
use crate::sessions::folders::seal_key;

use self::agents::Agents;
use self::conflicts::Conflicts;
use self::entry::State;

/// Contents kept of one run, in bytes.
const MAX_RUN: u64 = 64 * 1024 * 1024;
/// Most notes of one call about what is not recorded.
const MAX_UNSEEN: usize = 100;

/// Journal of one session.
pub struct CommandJournal {
    /// Workspace folders without symbolic links.
    roots: Vec<PathBuf>,
    hidden: HiddenFiles,
    /// Files and folders that commands may not read.
    denied: Vec<PathBuf>,
    /// Folder of the journals.
    folder: PathBuf,
    /// Contents that are too big for a journal.
    big_files: BigFiles,
    state: Mutex<JournalState>,
}

#[derive(Default)]
struct JournalState {
    run: Option<MessageId>,
    /// Paths whose states before the run are known.
    kept: HashSet<PathBuf>,
    /// Paths that each command has changed, by its number.
    changed: HashMap<u64, Changed>,
    /// Number of the next command.
    next_command: u64,
    /// Files of one name each that are known and changed. They stay so while no name comes or goes.
    settled: HashSet<PathBuf>,
    unseen: Vec<String>,
    /// Bytes of content kept of the run in the journal.
    bytes: u64,
    /// Bytes on disk that big files of the run may take yet.
    left_for_big: u64,
    has_git_changed: bool,
    /// Names of files with several, by device and inode; searched for once in a call, which may make more.
    names: Option<HashMap<(u64, u64), Vec<PathBuf>>>,
    /// The file that is written, if there are entries.
    file: Option<(PathBuf, File)>,
    /// Files whose entries were taken.
    taken: Vec<PathBuf>,
    /// Number of the next file.
    next: usize,
    agents: Agents,
    conflicts: Conflicts,
}

/// Paths that a command has changed.
#[derive(Default)]
struct Changed {
    new: HashSet<PathBuf>,
    /// Those that were taken while it ran: it may have written more since.
    taken: HashSet<PathBuf>,
    has_ended: bool,
}

impl CommandJournal {
    /// Creates a journal in `folder`, of changes below `roots`, which have no symbolic links. Of what rules hide from
    /// tools or settings from commands, no content is kept.
    pub fn new(folder: PathBuf, big_files: BigFiles, roots: Vec<PathBuf>, config: &Config) -> Self {
        let denied = config.sandbox.hide.iter();
        Self {
            roots,
            hidden: config.permissions().hidden(),
            denied: denied.map(|path| path.value.clone()).collect(),
            folder,
            big_files,
            state: Mutex::default(),
        }
    }

    fn hides(&self, path: &Path) -> bool {
        let mut denied = self.denied.iter();
        self.hidden.hides(path) || denied.any(|denied| path.starts_with(denied))
    }

    /// Returns the state of what was found before a change, which is not read if it is hidden or too much.
    fn state(&self, journal: &mut JournalState, path: &Path, change: UpcomingChange<'_>) -> State {
        let Some(found) = change.found else {
            return FileState::Absent { folders: 0 };
        };
        let mut read = || -> io::Result<State> {
            let file = format!("/proc/self/fd/{}", found.as_raw_fd());
            let metadata = fs::metadata(&file)?;
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_dir() {
                return Ok(FileState::Folder { mode });
            }
            if metadata.is_file() {
                if self.hides(path) {
                    return Ok(FileState::Unkept);
                }
                if metadata.len() > MAX_BYTES {
                    let left = &mut journal.left_for_big;
                    let file = self
                        .big_files
                        .keep(file.as_ref(), change.is_in_place, left)?;
                    return Ok(FileState::Big { file, mode });
                }
                if metadata.len() > MAX_RUN.saturating_sub(journal.bytes) {
                    return Ok(FileState::Unkept);
                }
                let content = fs::read(&file)?.into();
                return Ok(FileState::File { content, mode });
            }
            // The descriptor is of the link itself.
            let target = rustix::fs::readlinkat(found, "", Vec::new());
            Ok(target.map_or(FileState::Unkept, |target| FileState::Link {
                target: std::ffi::OsString::from_vec(target.into_bytes()).into(),
            }))
        };
        read().unwrap_or(FileState::Unkept)
    }
}

impl CommandJournal {
    /// See [`ah_sandbox::Recorder::covers`].
    fn covers(&self, path: &Path) -> bool {
        let mut roots = self.roots.iter();
        roots.any(|root| path != root && path.starts_with(root))
            && inside_git(path).is_none_or(is_git_state)
    }

    /// Records the state before a change by the command with this number, of `agent`.
    fn change(&self, change: UpcomingChange<'_>, agent: &agents::Agent, number: u64) {
        let other = self.after_others(change.path, agent);
        let mut journal = self.state.lock();
        if journal.run.is_none() {
            return;
        }
        let path = change.path;
        if inside_git(path).is_some() {
            journal.has_git_changed = true;
            return;
        }
        if !change.is_in_place {
            journal.settled.clear();
        }
        // What is kept of a big file may be a name of it.
        if change.is_in_place
            && let Some(found) = change.found
        {
            self.part_from_big(found);
        }
        let count = change.found.map_or(1, number_of_names);
        if !journal.kept.contains(path) {
            let state = self.state(&mut journal, path, change);
            journal.keep(&self.folder, path, &state);
        }
        if let Some((other, found)) = other {
            let found = UpcomingChange {
                found: Some(found.as_fd()),
                ..change
            };
            let state = self.state(&mut journal, path, found);
            journal.bytes += journal
                .conflicts
                .keep(&self.folder, path, other, agent, &state);
        }
        if change.is_in_place && count == 1 {
            journal.settled.insert(path.to_owned());
        }
        if let Some(found) = change.found
            && count > 1
        {
            for other in journal.other_names(found, &self.roots) {
                if self.big_files.holds(&other) {
                    continue;
                }
                // Even if only a name goes, the file's time changes.
                if change.is_in_place && !journal.kept.contains(&other) {
                    let state = self.state(&mut journal, &other, change);
                    journal.keep(&self.folder, &other, &state);
                }
                journal.change(number, other);
            }
        }
        journal.change(number, path.to_owned());
    }

    /// Lets what is kept of a big file stay as it is when the file is written.
    fn part_from_big(&self, found: BorrowedFd<'_>) {
        let is_big = |found: rustix::fs::Stat| {
            found.st_nlink > 1 && found.st_size.unsigned_abs() > MAX_BYTES
        };
        if rustix::fs::fstat(found).is_ok_and(is_big) {
            let file = format!("/proc/self/fd/{}", found.as_raw_fd());
            // What cannot be parted is not kept, and named as such.
            let _ = self.big_files.part(file.as_ref());
        }
    }

    /// Waits until what another agent is writing is whole, for a limited time, and notes that this one writes. Returns the
    /// other one and the file as it has left it, if this one cannot know of it.
    fn after_others(&self, path: &Path, agent: &agents::Agent) -> Option<(agents::Agent, OwnedFd)> {
        if is_built(path) {
            return None;
        }
        let mut waited_for = None;
        loop {
            let mut journal = self.state.lock();
            let last = journal.agents.unknown(path, agent);
            // Others may have waited too, and gone first.
            if last == waited_for {
                journal.agents.write(path, agent);
                break;
            }
            drop(journal);
            if let Some((_, written)) = &last {
                conflicts::wait_for_writer(path, *written);
            }
            waited_for = last;
        }
        let (other, _) = waited_for?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        Some((other, found))
    }
}

impl CommandJournal {
    /// Says that a call of the run with this first message is about to start.
    pub fn begin(&self, run: &MessageId) {
        let mut journal = self.state.lock();
        if journal.run.as_ref() != Some(run) {
            // The rest of an earlier run is recovered with the next use of the session.
            journal.file = None;
            journal.run = Some(run.clone());
            journal.kept = HashSet::new();
            journal.settled = HashSet::new();
            journal.bytes = 0;
            journal.left_for_big = MAX_BIG;
            journal.has_git_changed = false;
        }
    }

    /// Returns what has changed since the last call of this.
    pub fn take(&self) -> SeenFiles {
        let mut journal = self.state.lock();
        journal.names = None;
        journal.settled.clear();
        let mut before = Vec::new();
        if let Some((path, _)) = journal.file.take() {
            match fs::read(&path) {
                Ok(bytes) => before = entry::parse(&bytes).map_or(Vec::new(), |(_, states)| states),
                Err(error) => journal
                    .unseen
                    .push(format!("the journal of changes: {error}")),
            }
            journal.taken.push(path);
        }
        if std::mem::take(&mut journal.has_git_changed) {
            journal
                .unseen
                .push("git: commits, branches or stashes".to_owned());
        }
        let mut changed: Vec<_> = journal.take_changed();
        changed.sort_unstable();
        changed.dedup();
        SeenFiles {
            before,
            changed,
            unseen: std::mem::take(&mut journal.unseen),
        }
    }

    fn stored(&self) {
        for path in std::mem::take(&mut self.state.lock().taken) {
            let _ = fs::remove_file(path);
        }
    }
}

impl JournalState {
    /// Returns the number of a command that begins.
    fn next_command(&mut self) -> u64 {
        self.next_command += 1;
        self.next_command
    }

    /// Notes what is not recorded, each once.
    fn miss(&mut self, what: String) {
        if self.unseen.len() < MAX_UNSEEN && !self.unseen.contains(&what) {
            self.unseen.push(what);
        }
    }

    fn change(&mut self, number: u64, path: PathBuf) {
        self.changed.entry(number).or_default().new.insert(path);
    }

    /// Returns the paths that have changed since the last call of this, and all of those commands that have ended.
    fn take_changed(&mut self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        self.changed.retain(|_, changed| {
            all.extend(changed.new.iter().cloned());
            changed.taken.extend(changed.new.drain());
            if changed.has_ended {
                all.extend(changed.taken.drain());
            }
            !changed.has_ended
        });
        all
    }

    /// Writes an entry, after which the change may happen.
    fn keep(&mut self, folder: &Path, path: &Path, state: &State) {
        if let FileState::File { content, .. } = state {
            self.bytes += content.len() as u64;
        }
        let written = self
            .file(folder)
            .and_then(|file| append(file, &entry::of(path, state)));
        if let Err(error) = written {
            self.unseen.push(format!("{}: {error}", path.display()));
        }
        self.kept.insert(path.to_owned());
    }

    /// Says by the time of the journal that something in it changes once more: after a kill, later changes are of others.
    fn touch(&mut self) {
        if let Some((_, file)) = &self.file {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    fn file(&mut self, folder: &Path) -> io::Result<&mut File> {
        if self.file.is_none() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            let path = loop {
                let path = folder.join(format!("{}{}", Paths::CHANGES, self.next));
                self.next += 1;
                if !path.exists() {
                    break path;
                }
            };
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            let run = self.run.as_ref().map_or("", MessageId::as_str);
            file.write_all(&entry::header(run))?;
            self.file = Some((path, file));
        }
        let missing = || io::Error::other("no journal");
        self.file.as_mut().map(|(_, file)| file).ok_or_else(missing)
    }

    /// Returns the names in the workspace of a file that has several.
    fn other_names(&mut self, found: BorrowedFd<'_>, roots: &[PathBuf]) -> Vec<PathBuf> {
        let Ok(found) = rustix::fs::fstat(found) else {
            return Vec::new();
        };
        let names = self.names.get_or_insert_with(|| shared_names(roots));
        let names = names.get(&(found.st_dev, found.st_ino));
        names.cloned().unwrap_or_default()
    }
}

/// Writes an entry whole or not at all: the rest of one would take the next entries for its content.
fn append(journal: &mut File, entry: &[u8]) -> io::Result<()> {
    let end = journal.stream_position()?;
    journal.write_all(entry).inspect_err(|_| {
        // Neither needs space, which is what is missing.
        let _ = journal.set_len(end);
        let _ = journal.seek(SeekFrom::Start(end));
    })
}

/// Returns the number of names of a file; 0 of anything else.
#[allow(
    clippy::useless_conversion,
    reason = "the type depends on the processor"
)]
fn number_of_names(found: BorrowedFd<'_>) -> u64 {
    let found = rustix::fs::fstat(found);
    found.map_or(0, |found| match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => found.st_nlink.into(),
        _ => 0,
    })
}

impl Drop for CommandJournal {
    fn drop(&mut self) {
        self.stored();
        // It stays if anything is in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the folder of a session's journals.
pub fn folder(store: &SessionStore, config: &Config) -> PathBuf {
    let apart = config.changes(store.id().as_str());
    apart.unwrap_or_else(|| store.outputs().to_owned())
}

/// Mends what a kill has left: brings the entries of its journals to the store, and finishes a rewind that was cut off, if
/// this user has recorded it. To be called before the session's file steps are read. Returns a notice of a rewind that was cut off.
///
/// # Errors
///
/// If the store cannot be written. The journals stay then.
pub async fn recover(
    store: &Arc<SessionStore>,
    config: &Config,
) -> Result<Option<Mended>, StoreError> {
    if let Some(key) = seal_key(config.home.as_deref()).filter(|_| store.is_on_disk()) {
        match Seal::at(&key) {
            Ok(seal) => store.seal_with(seal).await?,
            Err(error) => tracing::warn!("what is recorded for undo is not sealed: {error}"),
        }
    }
    bring(store, config).await?;
    if !store.has_rewind_cut_off().await? {
        return Ok(None);
    }
    let roots = config.permissions().roots();
    let files = Files::new(store.clone(), Arc::new(SystemClock::default()), roots);
    Ok(files.recover().await?.map(|cut_off| match cut_off {
        CutOff::Finished(count) => {
            let files = if count == 1 { "file" } else { "files" };
            Mended {
                is_finished: true,
                notice: format!("completed an interrupted undo ({count} {files})"),
            }
        }
        CutOff::OfOthers => Mended {
            is_finished: false,
            notice: "the session records an interrupted undo that you did not start on this machine, so it was not completed; \
                     `ah undo` shows what it would change"
                .to_owned(),
        },
    }))
}

/// What [`recover`] has done about a rewind that was cut off.
pub struct Mended {
    /// Whether it is finished.
    pub is_finished: bool,
    /// A sentence for the user.
    pub notice: String,
}

/// Brings entries of a killed process to the store.
async fn bring(store: &SessionStore, config: &Config) -> Result<(), StoreError> {
    let folder = folder(store, config);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut journals: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(is_journal))
        .collect();
    journals.sort();
    let has_any = !journals.is_empty();
    for path in journals {
        let changed_at = fs::metadata(&path).and_then(|journal| journal.modified());
        if let Some((run, before)) = fs::read(&path).ok().and_then(|bytes| entry::parse(&bytes)) {
            // The last change came just after its entry, or after the journal was touched for it.
            let until = Time(changed_at.map_or(0, milliseconds) + 1000);
            let paths = before.iter().map(|(path, _)| path.clone()).collect();
            let change = FileChange {
                cause: FileCause::Run(MessageId::from(run.as_str())),
                at: until,
                before,
                unseen: Vec::new(),
            };
            let left = FilesLeft {
                paths: Some(paths),
                until,
            };
            store
                .append(vec![Record::Files(change), Record::FilesLeft(left)])
                .await?;
        }
        let _ = fs::remove_file(path);
    }
    if has_any {
        // It stays if anything else is in it.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

fn is_journal(name: &OsStr) -> bool {
    name.as_encoded_bytes()
        .starts_with(Paths::CHANGES.as_bytes())
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 2)
    })
}

/// Returns the rest of the path behind `.git`, if that is in it.
fn inside_git(path: &Path) -> Option<&Path> {
    let mut parts = path.iter();
    parts.find(|part| *part == ".git")?;
    Some(parts.as_path())
}

/// Whether a file of git is about commits, branches or stashes. Its index is written by commands that change nothing.
fn is_git_state(inside: &Path) -> bool {
    inside.starts_with("refs") || inside.starts_with("HEAD.lock") || inside.starts_with("HEAD")
}

/// Folders of what builds make, which several agents do at once without a conflict.
const BUILT: [&str; 6] = [
    "target",
    "node_modules",
    ".venv",
    "__pycache__",
    ".cache",
    ".next",
];

fn is_built(path: &Path) -> bool {
    path.iter()
        .any(|part| BUILT.iter().any(|built| part == *built))
}

/// Returns the names of all files below `roots` that have several, by device and inode.
fn shared_names(roots: &[PathBuf]) -> HashMap<(u64, u64), Vec<PathBuf>> {
    let mut names: HashMap<_, Vec<PathBuf>> = HashMap::new();
    let mut folders = roots.to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if found.is_dir() {
                folders.push(entry.path());
            } else if found.is_file() && found.nlink() > 1 {
                let names = names.entry((found.dev(), found.ino())).or_default();
                names.push(entry.path());
            }
        }
    }
    names
}
