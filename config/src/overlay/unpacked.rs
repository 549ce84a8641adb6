//! Copies of embedded programs on disk, since they cannot run otherwise: in a private folder, removed at the end.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::{Embedded, EmbeddedFile};

use crate::own_folder::OwnFolder;

/// Folders whose files are tools.
const TOOLS: [&str; 2] = ["tools", "bin"];
/// Folder whose subfolders are skills.
const SKILLS: &str = "skills";

/// Prefix of the folder names.
const PREFIX: &str = "ah-embedded-";

/// The folder; removed when this value is dropped.
#[derive(Debug)]
pub struct Unpacked(OwnFolder);

impl Unpacked {
    /// Unpacks the tools, and the skills with programs; `None` if there are neither.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn of(embedded: &Embedded) -> io::Result<Option<Self>> {
        let mut folders: Vec<_> = TOOLS.map(place).to_vec();
        folders.extend(skills_with_programs(embedded));
        let files = folders.iter().flat_map(|folder| embedded.files(folder));
        let files: Vec<_> = files.collect();
        if files.is_empty() {
            return Ok(None);
        }
        let folder = OwnFolder::make(PREFIX)?;
        for (path, file) in files {
            write(folder.path(), &path, file)?;
        }
        Ok(Some(Self(folder)))
    }

    /// Returns the folder, laid out as the embedded one.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

fn place(name: &str) -> PathBuf {
    Path::new(Embedded::ROOT).join(name)
}

fn skills_with_programs(embedded: &Embedded) -> Vec<PathBuf> {
    let skills = place(SKILLS);
    let mut found: Vec<_> = embedded
        .files(&skills)
        .filter(|(path, file)| is_program(path, file))
        .filter_map(|(path, _)| {
            let mut below = path.strip_prefix(&skills).ok()?.iter();
            let skill = below.next()?;
            // Files beside the skills' folders belong to no skill.
            below.next().map(|_| skills.join(skill))
        })
        .collect();
    found.dedup();
    found
}

/// Returns whether the file may have to run: by its mode, or as part of a skill's folder of programs or tools.
fn is_program(path: &Path, file: &EmbeddedFile) -> bool {
    let mut folders = path.iter().rev().skip(1);
    file.is_executable
        || folders.any(|name| ["bin", "scripts", "tools"].iter().any(|it| name == *it))
}

fn write(folder: &Path, path: &Path, file: &EmbeddedFile) -> io::Result<()> {
    let below = path
        .strip_prefix(Embedded::ROOT)
        .map_err(io::Error::other)?;
    let path = folder.join(below);
    if let Some(place) = path.parent() {
        fs::create_dir_all(place)?;
    }
    fs::write(&path, &file.content)?;
    let mode = if file.is_executable { 0o700 } else { 0o600 };
    fs::set_permissions(&path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{ArchiveEntry, Overlay};

    fn embedded(files: &[(&str, u32)]) -> Embedded {
        let entry = |(path, mode): &(&str, u32)| ArchiveEntry {
            path: (*path).to_owned(),
            mode: *mode,
            content: path.as_bytes().to_vec(),
        };
        Overlay::of(files.iter().map(entry).collect())
            .unwrap()
            .files
    }

    #[test]
    fn what_may_have_to_run_is_unpacked_for_the_user_alone() {
        let files = [
            ("tools/a.lua", 0o644),
            ("bin/b", 0o755),
            ("skills/plain/SKILL.md", 0o644),
            ("skills/plain/more.md", 0o644),
            ("skills/busy/SKILL.md", 0o644),
            ("skills/busy/scripts/c.py", 0o644),
            ("skills/runs/SKILL.md", 0o644),
            ("skills/runs/d", 0o755),
            ("skills/flat.md", 0o755),
            ("notes.txt", 0o644),
        ];
        let unpacked = Unpacked::of(&embedded(&files)).unwrap().unwrap();
        let folder = unpacked.folder().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for (path, expected) in files.iter().zip([
            true, true, false, false, true, true, true, true, false, false,
        ]) {
            let unpacked = folder.join(path.0);
            assert_eq!(unpacked.exists(), expected, "{}", path.0);
            if expected {
                assert_eq!(mode(&unpacked), if path.1 == 0o755 { 0o700 } else { 0o600 });
                assert_eq!(fs::read_to_string(unpacked).unwrap(), path.0);
            }
        }
        drop(unpacked);
        assert!(!folder.exists());
        assert!(Unpacked::of(&embedded(&files[2..4])).unwrap().is_none());
    }
}
