//! A copy of the project, in which the check runs. It stays between the runs of a check, with what they have built.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ah_beneath::{Folder, Status};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::tree::Tree;

/// A copied file.
#[derive(Debug, Clone, Copy)]
struct Copied {
    /// The original as it was copied.
    original: Status,
    /// Whether something else stands in its place.
    is_replaced: bool,
    /// The copy. The commands of the check may change it.
    copy: Option<Status>,
    /// Stands for the original's content and kind.
    hash: [u8; 32],
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file, and whether it can be executed.
    File(Vec<u8>, bool),
    /// A symbolic link.
    Link(PathBuf),
}

impl Entry {
    /// Reads what stands at a path below `top`.
    pub(crate) fn read(top: &Folder, path: &Path, status: &Status) -> io::Result<Self> {
        let (around, name) = top.entry(path)?;
        if status.is_link() {
            return Ok(Self::Link(around.read_link(name)?));
        }
        let mut content = Vec::new();
        around
            .open_file(name, OFlags::RDONLY)?
            .read_to_end(&mut content)?;
        Ok(Self::File(content, status.mode & 0o111 != 0))
    }

    /// Returns a value that stands for it.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        match self {
            Self::File(content, is_executable) => {
                hash.update([u8::from(*is_executable)]);
                hash.update(content);
            }
            Self::Link(target) => {
                hash.update([2]);
                hash.update(target.as_os_str().as_encoded_bytes());
            }
        }
        hash.finalize().into()
    }

    /// Returns its text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::File(content, _) => std::str::from_utf8(content).ok(),
            Self::Link(_) => None,
        }
    }
}

/// The copy of a project.
#[derive(Debug)]
pub(crate) struct ProjectCopy {
    top: Folder,
    copied: BTreeMap<PathBuf, Copied>,
}

impl ProjectCopy {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            top: Folder::open(path)?,
            copied: BTreeMap::new(),
        })
    }

    /// Makes the copy what `tree` has; returns the paths whose content has changed.
    pub(crate) fn update(&mut self, project: &Path, tree: &Tree) -> io::Result<Vec<PathBuf>> {
        let mut edited = self.add(project, tree)?;
        let gone: Vec<_> = { self.copied.keys() }
            .filter(|path| !tree.0.contains_key(*path))
            .cloned()
            .collect();
        for path in gone {
            self.remove(&path)?;
            self.copied.remove(&path);
            edited.push(path);
        }
        Ok(edited)
    }

    /// Copies what `tree` has beside what is there; returns the paths whose content has changed.
    pub(crate) fn add(&mut self, project: &Path, tree: &Tree) -> io::Result<Vec<PathBuf>> {
        let is_first = self.copied.is_empty();
        let originals = Folder::follow(project)?;
        let mut edited = Vec::new();
        for (path, status) in &tree.0 {
            let known = self.copied.get(path).copied();
            let is_as_copied = |known: &Copied| {
                known.original == *status
                    && !known.is_replaced
                    && matches!(self.top.look(path), Ok(found) if found == known.copy)
            };
            if known.as_ref().is_some_and(is_as_copied) {
                continue;
            }
            let entry = match Entry::read(&originals, path, status) {
                Ok(entry) => entry,
                // It went away meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let hash = entry.hash();
            if known.is_none_or(|known| known.hash != hash) && !is_first {
                edited.push(path.clone());
            }
            self.put(path, &entry)?;
            let copy = self.top.look(path)?;
            let copied = Copied {
                original: *status,
                is_replaced: false,
                copy,
                hash,
            };
            self.copied.insert(path.clone(), copied);
        }
        Ok(edited)
    }

    /// Whether the originals are what was copied.
    pub(crate) fn is_current(&self, tree: &Tree) -> bool {
        let is_as_copied = |path: &PathBuf, status: &Status| {
            let known = self.copied.get(path);
            known.is_some_and(|known| known.original == *status)
        };
        tree.0.len() == self.copied.len()
            && tree
                .0
                .iter()
                .all(|(path, status)| is_as_copied(path, status))
    }

    /// Removes everything, so that the next update copies all of it again.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        for name in self.top.list()? {
            self.top.remove_all(&name)?;
        }
        for copied in self.copied.values_mut() {
            copied.is_replaced = true;
        }
        Ok(())
    }

    /// Makes links to the folders of dependencies.
    pub(crate) fn link(&self, project: &Path, links: &[(PathBuf, PathBuf)]) -> io::Result<()> {
        for (path, folder) in links {
            if let Ok(name) = path.strip_prefix(project) {
                self.put(name, &Entry::Link(folder.clone()))?;
            }
        }
        Ok(())
    }

    /// Puts something else in the place of a copy; `None` for nothing. The next update copies it again.
    pub(crate) fn replace(&mut self, path: &Path, entry: Option<&Entry>) -> io::Result<()> {
        match entry {
            Some(entry) => self.put(path, entry)?,
            None => self.remove(path)?,
        }
        if let Some(copied) = self.copied.get_mut(path) {
            copied.is_replaced = true;
        }
        Ok(())
    }

    /// Returns what stands for the content of an original; `None` if there is none.
    pub(crate) fn hash(&self, path: &Path) -> Option<[u8; 32]> {
        self.copied.get(path).map(|copied| copied.hash)
    }

    /// Returns the copy at a path.
    pub(crate) fn read(&self, path: &Path) -> Option<Entry> {
        let status = self.top.look(path).ok()??;
        Entry::read(&self.top, path, &status).ok()
    }

    /// Returns the paths of all originals, and what stood there when they were copied.
    pub(crate) fn originals(&self) -> impl Iterator<Item = (&PathBuf, &Status)> {
        { self.copied.iter() }.map(|(path, copied)| (path, &copied.original))
    }

    /// Returns a digest of the content of all originals.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for (path, copied) in &self.copied {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            hash.update(copied.hash);
        }
        hash.finalize().into()
    }

    fn put(&self, path: &Path, entry: &Entry) -> io::Result<()> {
        let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = self.folder(around)?;
        folder.remove_all(name)?;
        match entry {
            Entry::Link(target) => folder.create_link(target, name),
            Entry::File(content, is_executable) => {
                folder.create_file(name, 0o600)?.write_all(content)?;
                folder.set_mode(name, if *is_executable { 0o755 } else { 0o644 })
            }
        }
    }

    /// Opens a folder of the copy. What stands in its way was a file before, or is of a command of the check.
    fn folder(&self, path: &Path) -> io::Result<Folder> {
        let mut way = PathBuf::new();
        for name in path.components() {
            way.push(name);
            let found = self.top.look(&way)?;
            if found.is_some_and(|found| !found.is_folder()) {
                let (around, name) = self.top.entry(&way)?;
                around.remove_file(name)?;
            }
        }
        self.top.make_folders(path, 0o755)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.top.entry(path) {
            Ok((around, name)) => around.remove_all(name),
            // A folder on the way is gone, or something else: so is what was in it.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tree::Extent;

    /// A project and its copy, brought up to date.
    fn copied() -> (tempfile::TempDir, PathBuf, PathBuf, ProjectCopy) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (project, at) = (top.join("project"), top.join("copy"));
        for path in [&project, &at, &project.join("a")] {
            fs::create_dir(path).unwrap();
        }
        fs::write(project.join("a/one"), "1").unwrap();
        fs::write(project.join("two"), "2").unwrap();
        let mut copy = ProjectCopy::open(&at).unwrap();
        assert_eq!(updated(&mut copy, &project), [""; 0]);
        (folder, project, at, copy)
    }

    fn updated(copy: &mut ProjectCopy, project: &Path) -> Vec<String> {
        let tree = Tree::of(project, &Extent::default()).unwrap();
        let edited = copy.update(project, &tree).unwrap();
        assert!(copy.is_current(&Tree::of(project, &Extent::default()).unwrap()));
        { edited.iter() }
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn the_copy_is_the_project_whatever_was_done_to_it() {
        let (_kept, project, at, mut copy) = copied();
        let digest = copy.digest();
        // A command of the check has changed the copies.
        fs::write(at.join("two"), "3").unwrap();
        fs::remove_dir_all(at.join("a")).unwrap();
        std::os::unix::fs::symlink("/", at.join("a")).unwrap();
        assert_eq!(updated(&mut copy, &project), [""; 0]);
        assert_eq!(fs::read_to_string(at.join("two")).unwrap(), "2");
        assert_eq!(fs::read_to_string(at.join("a/one")).unwrap(), "1");
        assert_eq!(copy.digest(), digest);
        // The run has: with the length and the time of before.
        let time = fs::metadata(project.join("two"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(project.join("two"), "4").unwrap();
        let file = fs::File::options().write(true).open(project.join("two"));
        file.unwrap().set_modified(time).unwrap();
        assert!(!copy.is_current(&Tree::of(&project, &Extent::default()).unwrap()));
        assert_eq!(updated(&mut copy, &project), ["two"]);
        assert_eq!(fs::read_to_string(at.join("two")).unwrap(), "4");
        fs::remove_dir_all(project.join("a")).unwrap();
        assert_eq!(updated(&mut copy, &project), ["a/one"]);
        assert!(!at.join("a/one").exists());
        assert_ne!(copy.digest(), digest);
    }

    #[test]
    fn a_cleared_place_has_nothing_of_before() {
        let (_kept, project, at, mut copy) = copied();
        fs::write(at.join("built"), "").unwrap();
        copy.clear().unwrap();
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        assert_eq!(updated(&mut copy, &project), [""; 0]);
        assert_eq!(fs::read_to_string(at.join("a/one")).unwrap(), "1");
        assert!(!at.join("built").exists());
    }
}
