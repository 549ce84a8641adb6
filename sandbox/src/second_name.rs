//! Second names of protected files: a hard link elsewhere in the project is the same file, and a command could write it by
//! that name although the protected one is read-only.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::confinement::Confinement;
use crate::survey::Protected;

/// Limits of the search below a protected directory: depth and number of entries.
const DEEPEST: usize = 3;
const ENTRIES: usize = 1000;
/// Beginning of the names of contents that undo keeps. Their other name is the file itself, which commands may write:
/// the recorder gives what is kept a content of its own first.
const KEPT: &str = "kept-";

impl Confinement {
    /// Returns a protected file that has another name, so that it cannot be protected. Does not look where nothing in
    /// the project can be protected.
    pub fn second_name(&self) -> Option<PathBuf> {
        Protected::look(self).second_name()
    }
}

impl Protected {
    /// Returns a file that has another name, as [`Confinement::second_name`] does.
    pub fn second_name(&self) -> Option<PathBuf> {
        if !self.tier.has_namespaces() {
            return None;
        }
        let mut names = Names::default();
        for (path, metadata) in &self.files {
            names.add(path, metadata);
        }
        let mut files = names.by_file.into_values();
        let unprotected = files.find(|(all, protected)| (protected.len() as u64) < *all);
        unprotected.and_then(|(_, mut protected)| protected.pop_first())
    }
}

/// Protected files with several names: how many there are, and those that are protected. By device and inode.
#[derive(Default)]
struct Names {
    by_file: HashMap<(u64, u64), (u64, BTreeSet<PathBuf>)>,
}

impl Names {
    /// Adds the file at `path`, or those below it.
    fn add(&mut self, path: &Path, metadata: &Metadata) {
        let mut waiting = vec![(path.to_owned(), metadata.clone(), 0)];
        let mut seen = 0;
        while let Some((path, metadata, depth)) = waiting.pop() {
            if metadata.is_dir() && depth < DEEPEST && seen < ENTRIES {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                for entry in entries.take(ENTRIES) {
                    seen += 1;
                    let found = entry.metadata().ok();
                    waiting.extend(found.map(|found| (entry.path(), found, depth + 1)));
                }
            } else if metadata.is_file() && metadata.nlink() > 1 && !is_kept(&path) {
                let file = (metadata.dev(), metadata.ino());
                let names = self.by_file.entry(file).or_default();
                names.0 = metadata.nlink();
                names.1.insert(path);
            }
        }
    }
}

fn is_kept(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(KEPT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Tier;

    #[test]
    fn a_protected_file_with_a_second_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        for name in [".git/config", ".git/hooks/pre-commit", "free", "other"] {
            fs::write(root.join(name), "").unwrap();
        }
        let mut confinement = Confinement::new(root.clone(), None);
        fs::hard_link(root.join("free"), root.join("free-2")).unwrap();
        assert_eq!(confinement.second_name(), None);
        for name in [".git/config", ".git/hooks/pre-commit"] {
            let second = root.join("second");
            fs::hard_link(root.join(name), &second).unwrap();
            assert_eq!(confinement.second_name(), Some(root.join(name)));
            fs::remove_file(second).unwrap();
        }
        // A copy of a session shares the outputs of the other, and both are protected.
        fs::hard_link(root.join(".git/config"), root.join(".git/hooks/config")).unwrap();
        assert_eq!(confinement.second_name(), None);
        fs::hard_link(root.join("free"), root.join(".git/hooks/kept-1")).unwrap();
        assert_eq!(confinement.second_name(), None);
        fs::hard_link(root.join(".git/config"), root.join("second")).unwrap();
        confinement.tier = Tier::Landlock;
        assert_eq!(confinement.second_name(), None, "nothing is protected");
    }
}
