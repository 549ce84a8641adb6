//! Journal of running commands: what has to be moved aside after a command, should this process not live to do it.
//!
//! A command may create files that other programs would act on; they are moved aside when it has ended. If this process
//! is killed, the kernel ends the command too, and what it has created by then stays. So before a command starts,
//! snapshots of the protected paths and of the project are written into a folder that no command can reach, and the next
//! start of the program finishes the work of processes that are gone. While a command runs, a start of the program moves
//! aside what would steer it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::kept::{Kept, OWN};
use super::newcomers::ProjectSnapshot;
use super::quarantine::ProtectedSnapshot;
use super::record::{Bytes, ProjectRecord};
use crate::plan::Identity;

/// Ending of the files of the journal.
const ENDING: &str = "command";
/// How long an entry is kept whose project is not at its place.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// What an entry says: the protected paths with what was there before, what was in them, and the project.
type Written = (
    Vec<(Bytes<'static>, Option<Identity>)>,
    Kept,
    ProjectRecord<'static>,
);

/// A running command in the journal.
#[derive(Debug)]
pub(super) struct JournalEntry {
    path: PathBuf,
    /// Locked until this process ends, however it does.
    _file: File,
}

impl JournalEntry {
    /// Writes an entry into `folder`, which is created if it is missing.
    pub fn write(
        folder: &Path,
        snapshot: &ProtectedSnapshot,
        kept: &Kept,
        project: &ProjectRecord<'_>,
    ) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let name = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let draft = folder.join(&name);
        let mut options = OpenOptions::new();
        // A process with the same number may have left one.
        let mut file = { options.write(true).create(true).truncate(true) }
            .mode(0o600)
            .open(&draft)?;
        file.lock()?;
        let paths = snapshot.paths();
        let lines: Vec<_> = { paths.iter() }
            .filter(|(path, before)| before.is_some() || !path.ends_with(OWN))
            .map(|(path, before)| (Bytes::of(path), before))
            .collect();
        file.write_all(&serde_json::to_vec(&(lines, kept, project))?)?;
        let path = draft.with_extension(ENDING);
        // Complete and locked under the name by which it is found.
        fs::rename(draft, &path)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for JournalEntry {
    /// Removes the entry: this process lives, and has done the work.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Moves aside what the commands of other processes have put at protected paths: of those that are gone, and of those that
/// still run, since this process is about to read such files. Returns the new paths, or the old ones of files that could
/// not be moved.
pub fn finish_journal(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut moved = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == ENDING)) {
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let lives = file.try_lock().is_err();
        let text = fs::read(&path).unwrap_or_default();
        let written = serde_json::from_slice::<Written>(&text).unwrap_or_default();
        if let Some(found) = finish(written, lives) {
            moved.extend(found);
        } else if is_recent(&file) {
            // Closing does not end the lock while a process that was just started has a copy of the file.
            let _ = file.unlock();
            continue;
        }
        // A living process will look once more.
        if !lives {
            let _ = fs::remove_file(&path);
        }
    }
    moved
}

/// Does the work for one entry, whose command may still run. `None` if its project is not at its place.
fn finish((known, kept, project): Written, lives: bool) -> Option<Vec<PathBuf>> {
    let (before, now) = project.devices()?;
    let known = known.into_iter().map(|(path, identity)| {
        let identity = identity.map(|(device, number)| match device == before {
            true => (now, number),
            false => (device, number),
        });
        (path.path(), identity)
    });
    let mut moved = ProtectedSnapshot::from_iter(known).quarantine();
    let kept = kept.on_device(before, now);
    // What cannot be put back stays where it is, as the user would have left it.
    moved.extend(kept.put_back().unwrap_or_default());
    moved.extend(kept.restore());
    if let Some(project) = ProjectSnapshot::recorded(&project) {
        moved.extend(project.finish(lives));
    }
    Some(moved)
}

/// Returns whether the project of an entry may still come back: the folder of entries may belong to several machines.
fn is_recent(file: &File) -> bool {
    let written = file.metadata().and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age < KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::Confinement;
    use crate::linux::record::Seen;

    /// Creates a project and a journal with the entry of a command that protects two names there.
    fn laid() -> (tempfile::TempDir, PathBuf, JournalEntry) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(root.join("project")).unwrap();
        fs::write(root.join("project/.mcp.json"), "the user's").unwrap();
        let names = [".envrc", ".mcp.json"].map(|name| root.join("project").join(name));
        let snapshot = ProtectedSnapshot::take(names);
        let entry = JournalEntry::write(
            &root.join("journal"),
            &snapshot,
            &Kept::default(),
            &ProjectRecord::default(),
        )
        .unwrap();
        (folder, root, entry)
    }

    #[test]
    fn a_planted_file_is_moved_while_its_process_lives_and_when_it_is_gone() {
        let (_folder, root, entry) = laid();
        let planted = root.join("project/.envrc");
        fs::write(&planted, "planted").unwrap();
        let journal = root.join("journal");
        let aside = root.join("project/.envrc.quarantined");
        assert_eq!(finish_journal(&journal), [aside], "it lives");
        assert!(entry.path.exists() && root.join("project/.mcp.json").exists());
        fs::write(&planted, "once more").unwrap();
        // A process that is killed removes nothing, and its lock is gone.
        let text = fs::read(&entry.path).unwrap();
        drop(entry);
        fs::write(journal.join("1-1.command"), text).unwrap();
        let moved = finish_journal(&journal);
        assert_eq!(moved, [root.join("project/.envrc.quarantined-1")]);
        assert!(!planted.exists() && root.join("project/.mcp.json").exists());
        assert_eq!(
            finish_journal(&journal),
            Vec::<PathBuf>::new(),
            "it is done"
        );
        assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);
    }

    #[test]
    fn a_finished_command_leaves_no_entry_and_a_damaged_one_is_removed() {
        let (_folder, root, entry) = laid();
        drop(entry);
        let journal = root.join("journal");
        assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);
        fs::write(journal.join("1-1.command"), "{").unwrap();
        assert_eq!(finish_journal(&journal), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);
        assert_eq!(finish_journal(&root.join("none")), Vec::<PathBuf>::new());
    }

    #[test]
    fn another_folder_at_the_place_of_a_project_is_left_alone() {
        let (_folder, root, entry) = laid();
        let (project, journal) = (root.join("project"), root.join("journal"));
        let confinement = Confinement::new(project.clone(), None);
        let seen = Seen::default();
        let snapshot = ProtectedSnapshot::take([project.join(".envrc")]);
        drop(entry);
        let record = ProjectRecord::of(&confinement, &seen);
        let entry = JournalEntry::write(&journal, &snapshot, &Kept::default(), &record).unwrap();
        let text = fs::read(&entry.path).unwrap();
        drop(entry);
        fs::write(journal.join("1-1.command"), text).unwrap();
        fs::write(project.join(".envrc"), "planted").unwrap();
        fs::rename(&project, root.join("away")).unwrap();
        fs::create_dir(&project).unwrap();
        fs::write(project.join(".envrc"), "of another container").unwrap();
        assert_eq!(finish_journal(&journal), Vec::<PathBuf>::new());
        fs::rename(&project, root.join("another")).unwrap();
        fs::rename(root.join("away"), &project).unwrap();
        let moved = finish_journal(&journal);
        assert_eq!(moved, [project.join(".envrc.quarantined")]);
        assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);
    }
}
