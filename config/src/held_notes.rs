//! Notes of the conversations that servers hold, in files of their own: they are hints, and of no session that would be kept, copied
//! or moved with them.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::config::Config;
use crate::found_file;

/// Folder with the notes, in the user's folder.
const NOTES: &str = "held";
/// Age at which a note is deleted: it counts no longer, and each subagent has one.
const OUTDATED: Duration = Duration::from_secs(24 * 60 * 60);

impl Config {
    /// Keeps a note under this name, in the place of the last one. Without a folder, none is kept.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep_held_note(&self, name: &str, note: &str) -> io::Result<()> {
        self.home
            .as_ref()
            .map_or(Ok(()), |home| keep(home, name, note))
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
    fs::create_dir_all(&folder)?;
    if !path.exists() {
        delete_outdated(&folder);
    }
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(note.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn find(home: &Path, name: &str) -> Option<String> {
    let path = home.join(NOTES).join(file_name(name)?);
    found_file::text(&path).ok()
}

/// Returns the name of the file of a note; `None` if it may not be that of a file.
fn file_name(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_fit = !name.is_empty() && name.len() <= 100 && name.chars().all(is_plain);
    is_fit.then(|| format!("{name}.json"))
}

/// Deletes notes that are too old. What cannot be deleted stays.
fn delete_outdated(folder: &Path) {
    let now = SystemTime::now();
    let is_outdated = |entry: &fs::DirEntry| {
        let written = entry.metadata().and_then(|data| data.modified());
        let age = written.ok().and_then(|at| now.duration_since(at).ok());
        age.is_some_and(|age| age > OUTDATED)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(is_outdated) {
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
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
        let file = fs::File::open(home.join("held/01A.json")).unwrap();
        file.set_modified(SystemTime::now() - OUTDATED - OUTDATED)
            .unwrap();
        keep(home, "01C", "four").unwrap();
        assert_eq!(find(home, "01A"), None);
        assert_eq!(find(home, "01C").as_deref(), Some("four"));
    }
}
