//! Notes of the conversations that servers hold, in files of their own: they are hints, and of no session that would be kept, copied
//! or moved with them.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use crate::config::Config;
use crate::found_file;

/// Folder with the notes, in the user's folder.
const NOTES: &str = "held";
/// Age from which on a note counts no longer. It is deleted then by the next process that keeps one or looks for it.
const OUTDATED: Duration = Duration::from_secs(24 * 60 * 60);

impl Config {
    /// Keeps a note under this name, in the place of the last one. Without a folder, none is kept.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep_held_note(&self, name: &str, note: &str) -> io::Result<()> {
        static CLEANED: Once = Once::new();
        let Some(home) = &self.home else {
            return Ok(());
        };
        CLEANED.call_once(|| delete_outdated(&home.join(NOTES)));
        keep(home, name, note)
    }

    /// Returns the note under this name, if there is one.
    pub fn held_note(&self, name: &str) -> Option<String> {
        find(self.home.as_ref()?, name)
    }
}

fn keep(home: &Path, name: &str, note: &str) -> io::Result<()> {
    let (folder, Some(file)) = (home.join(NOTES), file_name(name)) else {
        return Ok(());
    };
    let path = folder.join(file);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(note.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn find(home: &Path, name: &str) -> Option<String> {
    let path = home.join(NOTES).join(file_name(name)?);
    if is_outdated(&path) {
        // It counts no longer, though it could not be deleted.
        let _ = fs::remove_file(path);
        return None;
    }
    found_file::text(&path).ok()
}

fn is_outdated(path: &Path) -> bool {
    let written = fs::symlink_metadata(path).and_then(|data| data.modified());
    let age = written.ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > OUTDATED)
}

/// Returns the name of the file of a note; `None` if it may not be that of a file.
fn file_name(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_fit = !name.is_empty() && name.len() <= 100 && name.chars().all(is_plain);
    is_fit.then(|| format!("{name}.json"))
}

/// Deletes notes that are too old. What cannot be deleted stays.
fn delete_outdated(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_outdated(&entry.path())) {
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_note_is_found_again_and_goes_with_time() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        keep(home, "01A", "one").unwrap();
        keep(home, "01A", "two").unwrap();
        assert_eq!(find(home, "01A").as_deref(), Some("two"));
        for name in ["01B", "", "../01A", "a/b"] {
            assert_eq!(find(home, name), None, "{name}");
        }
        keep(home, "../outside", "three").unwrap();
        assert_eq!(fs::read_dir(home).unwrap().count(), 1);
        let folder = home.join(NOTES);
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for name in ["01C", "01D"] {
            keep(home, name, "four").unwrap();
        }
        for name in ["01A", "01C"] {
            let file = fs::File::open(folder.join(format!("{name}.json"))).unwrap();
            file.set_modified(SystemTime::now() - OUTDATED - OUTDATED)
                .unwrap();
        }
        assert_eq!(find(home, "01A"), None);
        assert!(!folder.join("01A.json").exists());
        assert!(folder.join("01C.json").exists());
        delete_outdated(&folder);
        assert!(!folder.join("01C.json").exists());
        assert_eq!(find(home, "01D").as_deref(), Some("four"));
    }
}
