//! What was sealed for a session, kept in a file for the processes that continue it: it counts, and not what was left of it.
//!
//! The file is the user's own, where no command of the model can write. It has lists of byte strings, each with its length
//! before it: paths need not be UTF-8, and tests need not be text.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ah_ignored::Patterns;

use crate::copy::Entry;
use crate::dependencies::{Dependencies, Dependency};

/// Begins the file, and says what follows.
const HEADER: &[u8] = b"ah seals 4\n";

/// What was sealed when a session had a check for the first time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Absolute paths of folders that are left out.
    pub(crate) left_out: BTreeSet<PathBuf>,
    /// All files that were there, relative to the project like all that follow.
    pub(crate) known: BTreeSet<PathBuf>,
    /// Paths that the command named, and the scripts behind it.
    pub(crate) named: BTreeSet<PathBuf>,
    /// Files with the name of a module of Python, and those where programs are looked for.
    pub(crate) modules: BTreeSet<PathBuf>,
    /// The sealed files.
    pub(crate) files: BTreeMap<PathBuf, Entry>,
    /// Folders of dependencies.
    pub(crate) dependencies: Dependencies,
    /// What git ignored, by absolute paths of folders.
    pub(crate) patterns: BTreeMap<PathBuf, Patterns>,
}

/// Reads what was kept in the file `path`; `None` if there is none.
///
/// # Errors
///
/// If it cannot be read; the text says why.
pub(crate) fn read(path: &Path) -> Result<Option<Kept>, String> {
    let failed = |reason: &dyn std::fmt::Display| {
        format!(
            "cannot read what was sealed in `{}`: {reason}; `--reseal` seals the files as they are now",
            path.display()
        )
    };
    match fs::read(path) {
        Ok(bytes) => match parsed(&bytes) {
            Some(kept) => Ok(Some(kept)),
            None => Err(failed(&"it is damaged")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Keeps this in the file `path`, accessible to its owner only.
///
/// # Errors
///
/// If it cannot be written; the text says why.
pub(crate) fn write(path: &Path, kept: &Kept) -> Result<(), String> {
    let written = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        let draft = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let is_new = !folder.exists();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut file = options.open(&draft)?;
        file.write_all(&bytes(kept))?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        // Its name is lost with the power if its folder is not written.
        let around = folder.parent().filter(|_| is_new);
        let mut folders = [folder].into_iter().chain(around);
        folders.try_for_each(|folder| File::open(folder)?.sync_all())
    };
    written().map_err(|error: io::Error| {
        format!(
            "cannot keep what is sealed in `{}`: {error}",
            path.display()
        )
    })
}

fn bytes(kept: &Kept) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for paths in [&kept.left_out, &kept.known, &kept.named, &kept.modules] {
        count(&mut bytes, paths.len());
        for path in paths {
            put(&mut bytes, path.as_os_str().as_bytes());
        }
    }
    count(&mut bytes, kept.files.len());
    for (path, entry) in &kept.files {
        let (kind, content) = match entry {
            Entry::File(content, false) => (0, content.as_slice()),
            Entry::File(content, true) => (1, content.as_slice()),
            Entry::Link(target) => (2, target.as_os_str().as_bytes()),
        };
        put(&mut bytes, path.as_os_str().as_bytes());
        put(&mut bytes, &[kind]);
        put(&mut bytes, content);
    }
    count(&mut bytes, kept.dependencies.0.len());
    for dependency in &kept.dependencies.0 {
        put(&mut bytes, dependency.path.as_os_str().as_bytes());
        put(&mut bytes, dependency.folder.as_os_str().as_bytes());
        put(&mut bytes, &dependency.content);
        count(&mut bytes, dependency.caches.len());
        for (path, hash) in &dependency.caches {
            put(&mut bytes, path.as_os_str().as_bytes());
            put(&mut bytes, hash);
        }
    }
    count(&mut bytes, kept.patterns.len());
    for (folder, patterns) in &kept.patterns {
        put(&mut bytes, folder.as_os_str().as_bytes());
        put(&mut bytes, &[u8::from(patterns.is_top)]);
        for text in &patterns.texts {
            let text = text.as_slice();
            count(&mut bytes, text.len());
            text.iter()
                .for_each(|text| put(&mut bytes, text.as_bytes()));
        }
    }
    bytes
}

fn count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend((count as u64).to_le_bytes());
}

fn put(bytes: &mut Vec<u8>, string: &[u8]) {
    count(bytes, string.len());
    bytes.extend(string);
}

fn parsed(bytes: &[u8]) -> Option<Kept> {
    let mut rest = Rest(bytes.strip_prefix(HEADER)?);
    let [left_out, known, named, modules] = [(); 4].map(|()| rest.list(Rest::path));
    let files = rest.list(|rest| {
        let (path, kind) = (rest.path()?, rest.string()?);
        let content = rest.string()?.to_vec();
        let entry = match kind {
            [0] => Entry::File(content, false),
            [1] => Entry::File(content, true),
            [2] => Entry::Link(OsString::from_vec(content).into()),
            _ => return None,
        };
        Some((path, entry))
    });
    let dependencies = rest.list(|rest| {
        Some(Dependency {
            path: rest.path()?,
            folder: rest.path()?,
            content: rest.string()?.try_into().ok()?,
            caches: rest.list(|rest| Some((rest.path()?, rest.string()?.try_into().ok()?)))?,
        })
    })?;
    let patterns = rest.list(|rest| {
        let (folder, is_top) = (rest.path()?, rest.string()? == [1]);
        let mut texts = [const { None }; 3];
        for text in &mut texts {
            let lines: Vec<_> =
                rest.list(|rest| String::from_utf8(rest.string()?.to_vec()).ok())?;
            *text = lines.into_iter().next();
        }
        Some((folder, Patterns { texts, is_top }))
    });
    rest.0.is_empty().then_some(Kept {
        patterns: patterns?,
        left_out: left_out?,
        known: known?,
        named: named?,
        modules: modules?,
        files: files?,
        dependencies: Dependencies(dependencies),
    })
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn number(&mut self) -> Option<usize> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u64::from_le_bytes(*number)).ok()
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(string)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.string()
            .map(|string| OsString::from_vec(string.to_vec()).into())
    }

    fn list<T, L: FromIterator<T>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<L> {
        (0..self.number()?).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn what_was_sealed_is_kept_whole_or_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seals/01A");
        assert_eq!(read(&path), Ok(None));
        let odd = PathBuf::from(OsStr::from_bytes(b"tests/\xff\n"));
        let kept = Kept {
            left_out: ["/p/cache".into()].into(),
            known: [odd.clone(), "a".into()].into(),
            named: ["check.sh".into()].into(),
            modules: ["types.py".into()].into(),
            files: [
                (odd, Entry::File(vec![0, 255], false)),
                ("check.sh".into(), Entry::File(Vec::new(), true)),
                ("tests/link".into(), Entry::Link("../a".into())),
            ]
            .into(),
            dependencies: Dependencies(vec![Dependency {
                path: "/p/node_modules".into(),
                folder: "/q".into(),
                content: [7; 32],
                caches: [("m/__pycache__".into(), [8; 32])].into(),
            }]),
            patterns: [(
                "/p".into(),
                Patterns {
                    texts: [None, Some("*.o\n".to_owned()), Some(String::new())],
                    is_top: true,
                },
            )]
            .into(),
        };
        for kept in [Kept::default(), kept] {
            write(&path, &kept).unwrap();
            assert_eq!(read(&path).unwrap().unwrap(), kept);
        }
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            assert_eq!(parsed(&whole[..length]), None, "{length}");
        }
        fs::write(&path, &whole[1..]).unwrap();
        assert!(read(&path).unwrap_err().contains("--reseal"));
    }
}
