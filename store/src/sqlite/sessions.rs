//! The sessions of a folder: listed, found by what a person calls them, removed.
//!
//! A session is a database named by a ULID; there is no list besides. Names are in the databases, so a session can be
//! copied or moved by its files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_conversation::{SessionId, StoreError, Time};
use rusqlite::OptionalExtension;

use super::lock::{Attempt, Lock};
use super::messages::unsigned;
use super::salvage::remove_if_exists;
use super::session::OpenError;
use super::tree::Tree;
use super::{Failure, context, prune};
use crate::id::{self, ULID_LEN, created_at, is_ulid, session_of};
use crate::paths::Paths;

/// What the sessions' folder of a project is called.
pub(super) const FOLDER: &str = ".ah";
/// How much of a session's first text is read for a list.
const FIRST_TEXT: usize = 400;
/// Endings of files that only a crash leaves behind.
const LEFTOVERS: [&str; 6] = [
    ".new",
    ".saved",
    ".salvage",
    ".salvage-wal",
    ".salvage-shm",
    ".salvage-template",
];

/// The sessions of one folder.
#[derive(Debug, Clone)]
pub struct Sessions {
    folder: PathBuf,
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHead {
    /// Its id.
    pub id: SessionId,
    /// Its files.
    pub paths: Paths,
    /// The UUID it was given by another program.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// When it was begun.
    pub created_at: Time,
    /// When its newest message was made.
    pub last_written: Time,
    /// How many messages it has, on all branches.
    pub messages: u64,
    /// Tokens that its models have read and written, on all branches.
    pub tokens: u64,
    /// The beginning of the first thing that was said, line breaks included.
    pub first_text: String,
    /// Why nothing more is known of it, if it cannot be read.
    pub problem: Option<StoreError>,
}

/// What a collection has removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Sessions.
    pub sessions: Vec<SessionId>,
    /// Files that belonged to no session any more.
    pub files: usize,
    /// Bytes, of both.
    pub bytes: u64,
}

impl Sessions {
    /// The sessions in `folder`, which need not exist.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The files of a session that does not exist yet; its id is greater than all others of the folder.
    pub fn fresh(&self) -> Result<Paths, StoreError> {
        let newest = self.ids()?.pop();
        let id = id::fresh_session_id(newest.as_ref());
        Ok(Paths::in_folder(&self.folder, &id))
    }

    /// The session with the highest id.
    pub fn newest(&self) -> Result<Option<Paths>, StoreError> {
        let newest = self.ids()?.pop();
        Ok(newest.map(|id| Paths::in_folder(&self.folder, &id)))
    }

    /// The session in which something was said last.
    pub fn last_written(&self) -> Result<Option<Paths>, StoreError> {
        let heads = self.list()?;
        let last = heads
            .into_iter()
            .max_by_key(|head| (head.last_written, head.id.clone()));
        Ok(last.map(|head| head.paths))
    }

    /// The session of that name, if there is one; two are an error.
    pub fn named(&self, name: &str) -> Result<Option<Paths>, StoreError> {
        let named = |head: &SessionHead| head.name.as_deref() == Some(name);
        let found: Vec<_> = self.list()?.into_iter().filter(named).collect();
        self.only(name, found)
    }

    /// The session that a person or a program means: by its name, by a UUID, or by the beginning of its id.
    pub fn find(&self, wanted: &str) -> Result<Paths, StoreError> {
        if let Some(paths) = self.named(wanted)? {
            return Ok(paths);
        }
        let same_bits = session_of(wanted);
        let prefix = wanted.to_ascii_uppercase();
        let is_meant = |head: &SessionHead| match &same_bits {
            Some(id) => {
                head.id == *id
                    || head
                        .uuid
                        .as_deref()
                        .is_some_and(|uuid| uuid.eq_ignore_ascii_case(wanted))
            }
            None => !wanted.is_empty() && head.id.as_str().starts_with(&prefix),
        };
        let found: Vec<_> = self.list()?.into_iter().filter(is_meant).collect();
        match self.only(wanted, found)? {
            Some(paths) => Ok(paths),
            None => Err(self.refused(
                format!("no session is called `{wanted}`"),
                "`ah sessions` lists them".to_owned(),
            )),
        }
    }

    /// All sessions, newest first. One that cannot be read is among them and says why.
    pub fn list(&self) -> Result<Vec<SessionHead>, StoreError> {
        let heads = self
            .ids()?
            .into_iter()
            .rev()
            .map(|id| SessionHead::read(&Paths::in_folder(&self.folder, &id), id));
        Ok(heads.collect())
    }

    /// Removes a session with all its files, unless a process holds it.
    pub fn remove(&self, paths: &Paths) -> Result<(), OpenError> {
        let lock_path = paths.lock();
        let attempt = Lock::try_take(&lock_path)
            .map_err(|error| Failure::from(error).at("cannot lock", &lock_path))?;
        match attempt {
            Attempt::Busy(holder) => Err(OpenError::Busy(holder)),
            Attempt::Held(lock) => {
                let removed = remove_files(paths);
                drop(lock);
                Ok(removed
                    .map_err(|error| Failure::from(error).at("cannot remove", paths.database()))?)
            }
        }
    }

    /// Removes sessions in which nothing was said, those in which nothing was said since `before`, and files that no
    /// session needs. A session that is held stays, and one that cannot be read.
    pub fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        for head in self.list()? {
            let is_old = before.is_some_and(|before| head.last_written < before);
            if head.problem.is_some() || !(is_old || head.messages == 0) {
                continue;
            }
            let bytes = self.bytes_of(&head.paths);
            match self.remove(&head.paths) {
                Ok(()) => {
                    collected.sessions.push(head.id);
                    collected.bytes += bytes;
                }
                Err(OpenError::Busy(_)) => {}
                Err(OpenError::Store(error)) => return Err(error),
            }
        }
        self.collect_files(&mut collected)
            .map_err(|error| Failure::from(error).at("cannot clean up", &self.folder))?;
        Ok(collected)
    }

    /// Removes what no session needs: the files of sessions without a database, drafts that a crash left, outputs
    /// that no message names.
    fn collect_files(&self, collected: &mut Collected) -> io::Result<()> {
        let mut by_session: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for path in entries(&self.folder)? {
            let name = file_name(&path);
            if let Some(stem) = name.get(..ULID_LEN).filter(|stem| is_ulid(stem))
                && name[ULID_LEN..].starts_with('.')
            {
                by_session.entry(stem.to_owned()).or_default().push(path);
            }
        }
        for (stem, files) in by_session {
            let paths = Paths::in_folder(&self.folder, &SessionId::from(stem));
            let Attempt::Held(_lock) = Lock::try_take(&paths.lock())? else {
                continue;
            };
            let needless = match paths.database().exists() {
                true => needless_files(&paths, &files),
                false => files,
            };
            for path in needless {
                collected.bytes += size(&path);
                collected.files += 1;
                remove_any(&path)?;
            }
            if !paths.database().exists() {
                remove_if_exists(&paths.lock())?;
            }
        }
        Ok(())
    }

    /// The ids of the folder's sessions, lowest first.
    fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let paths = entries(&self.folder)
            .map_err(|error| Failure::from(error).at("cannot read", &self.folder))?;
        let mut ids: Vec<_> = paths
            .iter()
            .filter_map(|path| {
                let name = file_name(path);
                let stem = name.strip_suffix(".db").filter(|stem| is_ulid(stem))?;
                Some(SessionId::from(stem))
            })
            .collect();
        ids.sort();
        Ok(ids)
    }

    fn only(&self, wanted: &str, found: Vec<SessionHead>) -> Result<Option<Paths>, StoreError> {
        if found.len() > 1 {
            let candidates: Vec<_> = found.iter().map(SessionHead::label).collect();
            return Err(self.refused(
                format!(
                    "`{wanted}` may be any of {} sessions: {}",
                    found.len(),
                    candidates.join(", ")
                ),
                "give more of the id".to_owned(),
            ));
        }
        Ok(found.into_iter().next().map(|head| head.paths))
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

impl SessionHead {
    fn read(paths: &Paths, id: SessionId) -> Self {
        let created_at = created_at(&id);
        let mut head = Self {
            id,
            paths: paths.clone(),
            uuid: None,
            name: None,
            created_at,
            last_written: created_at,
            messages: 0,
            tokens: 0,
            first_text: String::new(),
            problem: None,
        };
        let read = Tree::open(paths).and_then(|tree| {
            head.look_into(&tree)
                .map_err(|failure| failure.at("cannot read", paths.database()))
        });
        head.problem = read.err();
        head
    }

    fn look_into(&mut self, tree: &Tree) -> Result<(), Failure> {
        let connection = &tree.connection;
        self.name = context::get(connection, context::NAME)?;
        self.uuid = context::get(connection, context::UUID)?;
        let count = connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
        self.messages = unsigned(count);
        let tokens = connection.query_row(
            "SELECT coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0) FROM messages",
            [],
            |row| row.get(0),
        )?;
        self.tokens = unsigned(tokens);
        let newest: Option<i64> = connection
            .query_row(
                "SELECT created_at * 1000 + created_ms FROM messages ORDER BY rowid DESC LIMIT 1",
                [],
                |row| row.get(0),
            )
            .optional()?;
        self.last_written = newest.map_or(self.created_at, Time);
        let first: Option<String> = connection
            .query_row(
                "SELECT substr(content, 1, ?) FROM content_blocks WHERE block_type = 'text' ORDER BY id LIMIT 1",
                [FIRST_TEXT as i64],
                |row| row.get(0),
            )
            .optional()?;
        self.first_text = first.unwrap_or_default();
        Ok(())
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} [{name}]", self.id),
            None => self.id.to_string(),
        }
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

/// Of a session's files those that only a crash left, and outputs that no message names.
fn needless_files(paths: &Paths, files: &[PathBuf]) -> Vec<PathBuf> {
    let is_leftover = |path: &&PathBuf| {
        let name = file_name(path);
        LEFTOVERS.iter().any(|ending| name.ends_with(ending))
    };
    let mut needless: Vec<_> = files.iter().filter(is_leftover).cloned().collect();
    let named = Tree::open(paths).map(|tree| prune::all_spooled(&tree.connection));
    if let Ok(Ok(named)) = named {
        let named: HashSet<_> = named.into_iter().collect();
        let outputs = entries(&paths.outputs()).unwrap_or_default();
        needless.extend(
            outputs
                .into_iter()
                .filter(|path| !named.contains(&file_name(path))),
        );
    }
    needless
}

/// What is in `folder`; nothing if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The bytes of a file, or of the files in a folder.
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
