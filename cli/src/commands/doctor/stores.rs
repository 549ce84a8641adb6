//! Check of installed packages: whether they are hard links into a store that projects share.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::check::Check;

/// Folders of packages, and how to have copies in them.
const PACKAGES: [(&str, &str); 2] = [
    (
        "node_modules",
        "`package-import-method=copy` in `.npmrc` makes pnpm copy",
    ),
    (".venv", "`UV_LINK_MODE=copy` makes uv copy"),
];
/// Number of entries that are looked at.
const ENTRIES: usize = 2000;

/// Returns a note for each folder of packages whose files have other names too: the sandbox lets commands write the
/// project, and with these files everything that shares the store.
pub fn linked(cwd: &Path) -> impl Iterator<Item = Check> {
    let linked = PACKAGES
        .iter()
        .filter(move |(name, _)| is_linked(cwd.join(name)));
    linked.map(|(name, remedy)| {
        Check {
            hint: Some((*remedy).to_owned()),
            ..Check::note(
                "packages",
                format!(
                    "files in `{name}` are hard links, probably into a package store: commands can change them for all \
                     projects"
                ),
            )
        }
    })
}

/// Returns whether one of the first files below a folder has several names.
fn is_linked(folder: PathBuf) -> bool {
    let mut waiting = VecDeque::from([folder]);
    let mut left = ENTRIES;
    while let Some(folder) = waiting.pop_front() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(less) = left.checked_sub(1) else {
                return false;
            };
            left = less;
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() && metadata.nlink() > 1 => return true,
                Ok(metadata) if metadata.is_dir() => waiting.push_back(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_hard_links_are_noted() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/.pnpm/p/node_modules/p");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("index.js"), "").unwrap();
        assert_eq!(linked(folder.path()).count(), 0);
        fs::hard_link(package.join("index.js"), folder.path().join("store")).unwrap();
        let checks: Vec<_> = linked(folder.path()).collect();
        assert!(matches!(&checks[..], [check] if check.text.contains("node_modules")));
    }
}
