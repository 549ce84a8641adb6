//! What nobody uses any more in a folder of sessions, removed: sessions and files.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;

use ah_beneath::Folder;
use ah_conversation::{SessionId, StoreError, Time};
use ah_ids::{ULID_LEN, is_ulid};

use super::{Collected, Sessions, entries, remove_any, size};
use crate::open_error::OpenError;
use crate::paths::{Paths, file_name, remove_if_exists};
use crate::sqlite::head::SessionHead;
use crate::sqlite::lock::{Lock, LockAttempt};
use crate::sqlite::queue::Queue;
use crate::sqlite::tree::Tree;
use crate::sqlite::{Failure, files, prune, queued};

/// Endings of files that only remain after a crash.
const LEFTOVERS: [&str; 6] = [
    ".new",
    ".saved",
    ".salvage",
    ".salvage-wal",
    ".salvage-shm",
    ".salvage-template",
];

impl Sessions {
    /// Removes empty sessions, sessions without a message since `before`, and unused files. Sessions that are open or
    /// unreadable stay, and those for which a message or a run is queued.
    pub fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        let queued = queued::sessions_with_open_runs(&self.queue)
            .map_err(|failure| failure.at("cannot read", &self.queue.join(queued::FILE)))?;
        let is_unused = |head: &SessionHead| {
            let is_old = before.is_some_and(|before| head.last_written < before);
            let is_queued = queued.contains(head.id.as_str());
            if head.problem.is_some() || is_queued || !(is_old || head.messages == 0) {
                return Ok(false);
            }
            Ok(!head.paths.queue().exists() || !Queue::open(&head.paths)?.has_waiting()?)
        };
        for head in self.list()? {
            if !is_unused(&head)? {
                continue;
            }
            let bytes = self.bytes_of(&head.paths);
            // Somebody may have used it since the list was read.
            let is_still = || is_unused(&SessionHead::read(&head.paths, head.id.clone()));
            match self.remove_if(&head.paths, is_still) {
                Ok(true) => {
                    collected.sessions.push(head.id);
                    collected.bytes += bytes;
                }
                Ok(false) | Err(OpenError::Busy(_)) => {}
                Err(OpenError::Store(error)) => return Err(error),
            }
        }
        self.collect_files(&mut collected)
            .map_err(|error| Failure::from(error).at("cannot clean up", &self.folder))?;
        Ok(collected)
    }

    /// Removes unused files: files of sessions without a database, drafts left by a crash, and outputs that no message
    /// references.
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
            let paths = self.paths_of(&SessionId::from(stem));
            // One whose lock is a link stays as it is.
            let Ok(LockAttempt::Held(_lock)) = Lock::try_take(&paths.lock()) else {
                continue;
            };
            let unused = if paths.database().exists() {
                unused_files(&paths, &files)
            } else {
                files
            };
            for path in unused {
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
}

/// Returns those of a session's files that are left over from a crash, and outputs that no message references.
fn unused_files(paths: &Paths, files: &[PathBuf]) -> Vec<PathBuf> {
    let is_leftover = |path: &&PathBuf| {
        let name = file_name(path);
        LEFTOVERS.iter().any(|ending| name.ends_with(ending))
    };
    let mut unused: Vec<_> = files.iter().filter(is_leftover).cloned().collect();
    // A link may have come with the session: what it leads to is not of it.
    if Folder::at(&paths.outputs()).is_ok()
        && let Ok(tree) = Tree::open(paths)
        && let Ok(spooled) = prune::all_spooled(&tree.connection)
        && let Ok(big) = files::big_files(&tree.connection)
    {
        let referenced: HashSet<_> = spooled.into_iter().chain(big).collect();
        unused.extend(
            entries(&paths.outputs())
                .unwrap_or_default()
                .into_iter()
                .filter(|path| !referenced.contains(&file_name(path)))
                // They are needed should the session be continued.
                .filter(|path| {
                    let name = file_name(path);
                    let needed = [Paths::CHANGES, Paths::CHECK, Paths::CONFLICTS, Paths::LAYER];
                    !needed.iter().any(|beginning| name.starts_with(beginning))
                }),
        );
    }
    unused
}
