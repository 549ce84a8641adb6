//! Second names of protected files: a hard link elsewhere in the project is the same file, and a command could write it by
//! that name although the protected one is read-only.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::confinement::Confinement;
use crate::survey::Protected;

/// Limits of the search below a protected directory: depth and number of entries.
const DEEPEST: usize = 3;
const ENTRIES: usize = 1000;

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
        let mut files = self.files.iter().filter(|_| self.tier.has_namespaces());
        files.find_map(|(path, metadata)| linked(path, metadata))
    }
}

/// Returns the file at `path`, or one below it, that has several names.
fn linked(path: &Path, metadata: &Metadata) -> Option<PathBuf> {
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
        } else if has_several_names(&metadata) {
            return Some(path);
        }
    }
    None
}

fn has_several_names(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.nlink() > 1
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
        fs::hard_link(root.join(".git/config"), root.join("second")).unwrap();
        confinement.tier = Tier::Landlock;
        assert_eq!(confinement.second_name(), None, "nothing is protected");
    }
}
