//! The sessions of a folder: lists, finds, removes and collects them.
//!
//! A session is a database named after a ULID; there is no index. Names are in the databases, so that a session can be
//! copied or moved with its files.

mod collect;
mod kept;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::Failure;
use super::head::SessionHead;
use super::lock::{Lock, LockAttempt};
use super::queued;
use crate::known::KnownSessions;
use crate::open_error::OpenError;
use crate::paths::{Paths, file_name, remove_if_exists};
use ah_conversation::{SessionId, StoreError, Time};
use ah_ids::{is_ulid, session_of};

/// Sessions for which a further thread is worth its start.
const LEAST_SHARE: usize = 16;
/// At most so many threads read a list.
const MOST_THREADS: usize = 8;
/// After so many sessions that were not written last, in the order of their files' times, all are read.
const MANY: usize = 32;
/// By how much a file may be newer than it says: some file systems round times to two seconds, and the clock of a server may be
/// behind.
const ROUNDED: Duration = Duration::from_secs(2);

/// The sessions of one folder.
#[derive(Debug, Clone)]
pub struct Sessions {
    folder: PathBuf,
    /// The folder with the queue of their runs.
    queue: PathBuf,
    /// The folder with a file of each session that goes when the session does.
    apart: Option<PathBuf>,
    /// The user's sessions; `None` if all are.
    known: Option<KnownSessions>,
    /// Whether the folder must not be a symbolic link.
    refuses_link: bool,
}

/// Result of a garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Sessions removed.
    pub sessions: Vec<SessionId>,
    /// Number of files, or large contents, that no session used, and that were removed.
    pub files: usize,
    /// Size of removed sessions and files in bytes.
    pub bytes: u64,
}

impl Sessions {
    /// Returns the sessions in `folder`, which need not exist. The queue of their runs is there, too.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self {
            queue: folder.clone(),
            folder,
            apart: None,
            known: None,
            refuses_link: false,
        }
    }

    /// Returns the same sessions, of which only the known ones are chosen by name or age; others are opened only by their id.
    #[must_use]
    pub fn known_by(self, known: Option<KnownSessions>) -> Self {
        Self { known, ..self }
    }

    /// Returns the same sessions, with the queue of their runs in another folder, which need not exist.
    #[must_use]
    pub fn queued_in(self, queue: impl Into<PathBuf>) -> Self {
        let queue = queue.into();
        Self { queue, ..self }
    }

    /// Returns the same sessions, of which each has a file in another folder as well, named by its id.
    #[must_use]
    pub fn with_files_in(self, apart: Option<PathBuf>) -> Self {
        Self { apart, ..self }
    }

    /// Returns the paths of a session in this folder.
    pub(crate) fn paths_of(&self, id: &SessionId) -> Paths {
        let key = self.known.as_ref().map(KnownSessions::key);
        Paths::in_folder(&self.folder, id).sealed_by(key)
    }

    /// Returns the folder of the sessions, and that of the queue.
    pub(crate) fn folders(&self) -> (&Path, &Path) {
        (&self.folder, &self.queue)
    }

    /// Returns the same sessions; if the folder is a symbolic link, every use fails.
    #[must_use]
    pub fn without_link(self) -> Self {
        Self {
            refuses_link: true,
            ..self
        }
    }

    /// Returns the paths for a new session, whose id is greater than all others in the folder.
    pub fn fresh(&self) -> Result<Paths, StoreError> {
        let newest = self.ids()?.pop();
        let id = ah_ids::fresh_session_id(newest.as_ref());
        Ok(self.paths_of(&id))
    }

    /// Returns the paths for a new session that takes its place by age among the others, as if it had been begun then.
    pub fn begun_at(&self, time: Time) -> Paths {
        self.paths_of(&ah_ids::session_id_at(time))
    }

    /// Returns the session with the greatest id.
    pub fn newest(&self) -> Result<Option<Paths>, StoreError> {
        let mut ids = self.ids()?.into_iter().rev();
        let newest = ids.find(self.continued());
        Ok(newest.map(|id| self.paths_of(&id)))
    }

    /// Returns the newest session that is not known, if it is newer than those that are.
    pub fn newest_unknown(&self) -> Result<Option<SessionId>, StoreError> {
        let queued = queued::sessions_in(&self.queue);
        let mut ids = self.ids()?.into_iter().rev();
        let newest = ids.find(|id| !queued.contains(id.as_str()));
        Ok(newest.filter(|id| !self.is_own(id)))
    }

    /// Returns whether the user has made or chosen the session, or queued it for a worker.
    pub fn is_own(&self, id: &SessionId) -> bool {
        self.known_ids()(id) || queued::sessions_in(&self.queue).contains(id.as_str())
    }

    /// Returns the test for being known, for which the list is read once.
    fn known_ids(&self) -> impl Fn(&SessionId) -> bool + use<> {
        let known = self.known.as_ref().map(KnownSessions::ids);
        move |id| known.iter().all(|known| known.contains(id.as_str()))
    }

    /// Returns the test for being the user's to continue without being named: known, and of no worker.
    fn continued(&self) -> impl Fn(&SessionId) -> bool + use<> {
        let (is_known, queued) = (self.known_ids(), queued::sessions_in(&self.queue));
        move |id| is_known(id) && !queued.contains(id.as_str())
    }

    /// Returns the session with the newest message; one without a message is somebody's to begin. Those whose files are older than that message are not opened, so the
    /// time hardly grows with their number.
    pub fn last_written(&self) -> Result<Option<Paths>, StoreError> {
        let is_continued = self.continued();
        let names = self.names()?;
        let with_log: HashSet<_> = { names.iter() }
            .filter_map(|name| name.to_str()?.strip_suffix(".db-wal"))
            .collect();
        let mut files: Vec<_> = { ids_in(&names).into_iter() }
            .filter(|id| is_continued(id))
            .map(|id| (self.last_change(&id, with_log.contains(id.as_str())), id))
            .collect();
        files.sort_by(|one, other| other.cmp(one));
        let mut last: Option<SessionHead> = None;
        for (seen, (changed, id)) in files.into_iter().enumerate() {
            if { last.as_ref() }.is_some_and(|last| last.last_written > changed) {
                break;
            }
            let paths = self.paths_of(&id);
            let mut head = SessionHead::read_identity(&paths, id);
            let is_ahead = head.created_at > ah_ids::now();
            if is_ahead || seen == MANY {
                return self.last_dated(is_continued);
            }
            head.date_by(ah_ids::now());
            if !head.is_unused
                && last
                    .as_ref()
                    .is_none_or(|last| written(last) < written(&head))
            {
                last = Some(head);
            }
        }
        Ok(last.map(|head| head.paths))
    }

    /// Returns the latest time at which the files of a session can have been changed: its newest message is not newer.
    fn last_change(&self, id: &SessionId, has_log: bool) -> Time {
        let changed = |name: String| {
            let found = fs::symlink_metadata(self.folder.join(name)).ok()?;
            let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            let latest = i64::try_from((changed + ROUNDED).as_millis()).ok()?;
            // What a link leads to has a log elsewhere.
            Some(if found.is_symlink() { i64::MAX } else { latest })
        };
        let log = has_log.then(|| changed(format!("{id}.db-wal"))).flatten();
        Time(changed(format!("{id}.db")).max(log).unwrap_or_default())
    }

    /// Returns the session with the newest message by opening all: where a clock was ahead, which only the other sessions tell,
    /// and where the times of files tell nothing, as after a copy.
    fn last_dated(
        &self,
        is_continued: impl Fn(&SessionId) -> bool,
    ) -> Result<Option<Paths>, StoreError> {
        let heads = self.heads(SessionHead::read_identity)?.into_iter();
        let last = heads
            .filter(|head| is_continued(&head.id) && !head.is_unused)
            .max_by(|one, other| written(one).cmp(&written(other)));
        Ok(last.map(|head| head.paths))
    }

    /// Returns the session of this name; fails if there are several.
    pub fn named(&self, name: &str) -> Result<Option<Paths>, StoreError> {
        self.named_among(&self.heads(SessionHead::read_identity)?, name)
    }

    fn named_among(&self, heads: &[SessionHead], name: &str) -> Result<Option<Paths>, StoreError> {
        let is_known = self.known_ids();
        let named = |head: &&SessionHead| head.name.as_deref() == Some(name) && is_known(&head.id);
        self.only(name, &heads.iter().filter(named).collect::<Vec<_>>())
    }

    /// Finds a session by its name, a UUID, or a prefix of its id; an error if there is none, or several.
    pub fn find(&self, wanted: &str) -> Result<Paths, StoreError> {
        self.look_up(wanted)?.ok_or_else(|| self.unknown(wanted))
    }

    /// Returns the error for a session that is not there.
    pub fn unknown(&self, wanted: &str) -> StoreError {
        self.refused(
            format!("no session is named `{wanted}`"),
            "`ah sessions` lists them".to_owned(),
        )
    }

    /// Finds a session likewise, if there is one; an error if there are several. No session is opened if the id is given with
    /// all of its time.
    pub fn look_up(&self, wanted: &str) -> Result<Option<Paths>, StoreError> {
        if let Some(id) = self.with_time_of(wanted)? {
            return Ok(Some(self.paths_of(&id)));
        }
        let heads = self.heads(SessionHead::read_identity)?;
        if let Some(paths) = self.named_among(&heads, wanted)? {
            return Ok(Some(paths));
        }
        let same_bits = session_of(wanted);
        let prefix = wanted.to_ascii_uppercase();
        let is_meant = |head: &&SessionHead| match &same_bits {
            Some(id) => {
                head.id == *id
                    || head
                        .uuid
                        .as_deref()
                        .is_some_and(|uuid| uuid.eq_ignore_ascii_case(wanted))
            }
            None => !wanted.is_empty() && head.id.as_str().starts_with(&prefix),
        };
        let found: Vec<_> = heads.iter().filter(is_meant).collect();
        self.only(wanted, &found)
    }

    /// Returns the only session whose id is `wanted`, as a UUID of the same bits or by its beginning with at least the time. An
    /// id goes before a name of the same characters.
    fn with_time_of(&self, wanted: &str) -> Result<Option<SessionId>, StoreError> {
        let beginning = match session_of(wanted) {
            Some(id) => id.to_string(),
            None => wanted.to_ascii_uppercase(),
        };
        if beginning.len() < ah_ids::TIME_LEN {
            return Ok(None);
        }
        let ids = self.ids()?.into_iter();
        let mut meant = ids.filter(|id| id.as_str().starts_with(&beginning));
        Ok(meant.next().filter(|_| meant.next().is_none()))
    }

    /// Lists all sessions, newest first. Unreadable ones are included, with the reason. Times are those of the real clock
    /// as far as is known, also if the clock was ahead once.
    pub fn list(&self) -> Result<Vec<SessionHead>, StoreError> {
        self.heads(SessionHead::read)
    }

    fn heads(
        &self,
        read: impl Fn(&Paths, SessionId) -> SessionHead + Sync,
    ) -> Result<Vec<SessionHead>, StoreError> {
        let mut heads = self.each(|paths, id| read(paths, id.clone()))?;
        heads.reverse();
        // A session is not newer than those that were begun after it, nor than now.
        let mut newest = ah_ids::now();
        let is_known = self.known_ids();
        for head in &mut heads {
            head.is_known = is_known(&head.id);
            head.date_by(newest);
            newest = head.created_at;
        }
        Ok(heads)
    }

    /// Reads all sessions, the oldest first, on several cores: most of the time goes into the schemas of their databases.
    fn each<T: Send>(
        &self,
        read: impl Fn(&Paths, &SessionId) -> T + Sync,
    ) -> Result<Vec<T>, StoreError> {
        let ids = self.ids()?;
        let read = |id: &SessionId| read(&self.paths_of(id), id);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let share = ids.len().div_ceil(cores.min(MOST_THREADS)).max(LEAST_SHARE);
        let (own, others) = ids.split_at(share.min(ids.len()));
        let read_all = |ids: &[SessionId]| ids.iter().map(read).collect::<Vec<_>>();
        Ok(thread::scope(|scope| {
            let start = |ids| {
                let thread = thread::Builder::new();
                (ids, thread.spawn_scoped(scope, move || read_all(ids)))
            };
            let threads: Vec<_> = others.chunks(share).map(start).collect();
            let mut all = read_all(own);
            for (ids, thread) in threads {
                all.extend(match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // There may be no more threads.
                    Err(_) => read_all(ids),
                });
            }
            all
        }))
    }

    /// Removes a session with all its files, unless a process has it open.
    pub fn remove(&self, paths: &Paths) -> Result<(), OpenError> {
        self.remove_if(paths, || Ok(true)).map(drop)
    }

    /// Removes a session if `is_unused` still says so when no process can open it; returns whether it did.
    fn remove_if(
        &self,
        paths: &Paths,
        is_unused: impl FnOnce() -> Result<bool, StoreError>,
    ) -> Result<bool, OpenError> {
        let lock_path = paths.lock();
        let attempt = Lock::try_take(&lock_path)
            .map_err(|error| Failure::from(error).at("cannot lock", &lock_path))?;
        match attempt {
            LockAttempt::Busy(holder) => Err(OpenError::Busy(holder)),
            LockAttempt::Held(lock) => {
                if !is_unused()? {
                    return Ok(false);
                }
                let removed = remove_files(paths).and_then(|()| self.remove_apart(paths));
                drop(lock);
                removed
                    .map_err(|error| Failure::from(error).at("cannot remove", paths.database()))?;
                Ok(true)
            }
        }
    }

    fn remove_apart(&self, paths: &Paths) -> io::Result<()> {
        match (&self.apart, paths.id()) {
            (Some(apart), Some(id)) => remove_if_exists(&apart.join(id.as_str())),
            _ => Ok(()),
        }
    }

    /// Returns the ids of all sessions, in ascending order.
    fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        Ok(ids_in(&self.names()?))
    }

    /// Returns the names of all files.
    fn names(&self) -> Result<Vec<OsString>, StoreError> {
        if self.refuses_link && self.folder.is_symlink() {
            return Err(self.refused(
                "it is a symbolic link, and the folder is not trusted".to_owned(),
                "remove the link, trust the folder, or name a file with `--db`".to_owned(),
            ));
        }
        names(&self.folder).map_err(|error| Failure::from(error).at("cannot read", &self.folder))
    }

    fn only(&self, wanted: &str, found: &[&SessionHead]) -> Result<Option<Paths>, StoreError> {
        if found.len() > 1 {
            let candidates: Vec<_> = found.iter().map(|head| head.label()).collect();
            return Err(self.refused(
                format!(
                    "`{wanted}` matches {} sessions: {}",
                    found.len(),
                    candidates.join(", ")
                ),
                "give more characters of the id".to_owned(),
            ));
        }
        Ok(found.first().map(|head| head.paths.clone()))
    }

    fn refused(&self, reason: String, hint: String) -> StoreError {
        StoreError {
            action: "cannot choose a session in",
            path: self.folder.clone(),
            reason,
            hint: Some(hint),
        }
    }

    fn bytes_of(&self, paths: &Paths) -> u64 {
        [paths.database().to_owned(), paths.queue(), paths.outputs()]
            .iter()
            .map(|path| size(path))
            .sum()
    }
}

/// Removes all files of a session, its lock last.
fn remove_files(paths: &Paths) -> io::Result<()> {
    let database = file_name(paths.database());
    let queue = file_name(&paths.queue());
    for path in entries(paths.folder())? {
        let name = file_name(&path);
        let is_part = |whole: &str| {
            name.strip_prefix(whole)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
        };
        if is_part(&database) || is_part(&queue) {
            remove_any(&path)?;
        }
    }
    remove_any(&paths.outputs())?;
    remove_if_exists(&paths.lock())
}

/// Returns what orders sessions by their newest messages.
fn written(head: &SessionHead) -> (Time, &SessionId) {
    (head.last_written, &head.id)
}

/// Returns the ids of the sessions with files of these names, in ascending order.
fn ids_in(names: &[OsString]) -> Vec<SessionId> {
    let stems = names
        .iter()
        .filter_map(|name| name.to_str()?.strip_suffix(".db"));
    let mut ids: Vec<_> = stems
        .filter(|stem| is_ulid(stem))
        .map(SessionId::from)
        .collect();
    ids.sort();
    ids
}

/// Returns the paths of all entries in `folder`; none if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let names = names(folder)?.into_iter();
    Ok(names.map(|name| folder.join(name)).collect())
}

/// Returns the names of all entries in `folder`; none if it does not exist.
fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the size in bytes of a file, or of all files in a folder.
fn size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => entries(path)
            .unwrap_or_default()
            .iter()
            .map(|path| size(path))
            .sum(),
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}

fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        _ => remove_if_exists(path),
    }
}
