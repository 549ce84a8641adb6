//! Reads databases that nobody has open for writing, such as those of most sessions in a list.
//!
//! An ordinary reader takes locks and makes a log and its index, to be safe from a writer, and removes them again. That is
//! half of the time that a list takes, and each look at a session would be seen by all who watch its folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::connection::connect_immutable;
use super::tree::Tree;
use crate::paths::{Paths, with_ending};

/// How long ago the last change must have been, so that another one has a later time: file systems round times to as much.
const COARSEST: Duration = Duration::from_secs(2);

/// The state of a database at rest. A writer that has it open has a journal beside it, and one that had it open has changed
/// the state, if it wrote.
#[derive(PartialEq)]
struct Resting {
    inode: u64,
    size: u64,
    modified: SystemTime,
    /// In seconds and nanoseconds, and changed by no program.
    changed: (i64, i64),
}

impl Resting {
    fn of(database: &Path) -> Option<Self> {
        // Where a link leads to, the journals have other names.
        let found = fs::symlink_metadata(database).ok()?;
        let modified = found.modified().ok()?;
        let is_old = modified.elapsed().is_ok_and(|age| age > COARSEST);
        let has_journal = ["-wal", "-journal"]
            .iter()
            .any(|ending| fs::symlink_metadata(with_ending(database, ending)).is_ok());
        (found.is_file() && found.nlink() == 1 && is_old && !has_journal).then_some(Self {
            inode: found.ino(),
            size: found.len(),
            modified,
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Returns what `look` finds in a session at rest; `None` if it is not, or did not stay so, or cannot be read.
pub(super) fn read<T>(paths: &Paths, look: impl FnOnce(&Tree) -> Option<T>) -> Option<T> {
    let path = std::path::absolute(paths.database()).ok()?;
    let before = Resting::of(&path)?;
    let tree = Tree::prepared(connect_immutable(&path).ok()?, paths).ok()?;
    let found = look(&tree)?;
    (Resting::of(&path)? == before).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::SessionStore;

    #[test]
    fn a_session_is_read_so_only_while_nobody_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::of(folder.path().join("talk.db"));
        let messages = |tree: &Tree| Some(tree.heads().ok()?.len());
        let rest = || {
            let file = File::options().append(true).open(paths.database());
            let past = SystemTime::now() - 2 * COARSEST;
            file.and_then(|file| file.set_modified(past)).unwrap();
        };
        let held = SessionStore::open(&paths).unwrap();
        rest();
        assert_eq!(read(&paths, messages), None, "it has a log");
        drop(held);
        assert_eq!(read(&paths, messages), None, "it was just changed");
        rest();
        let entries = || fs::read_dir(folder.path()).unwrap().count();
        let before = (
            entries(),
            fs::metadata(folder.path()).unwrap().modified().unwrap(),
        );
        assert_eq!(read(&paths, messages), Some(0));
        let after = (
            entries(),
            fs::metadata(folder.path()).unwrap().modified().unwrap(),
        );
        assert_eq!(before, after, "a look leaves no trace");
        let written = read(&paths, |tree| {
            drop(SessionStore::open(&paths).unwrap());
            messages(tree)
        });
        assert_eq!(written, None, "it was changed in the meantime");
    }
}
