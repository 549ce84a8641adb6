//! Files embedded in the program: built-in ones and those added by its owner.
//!
//! They are on no disk, so everything that reads files has to look here for paths below [`Embedded::ROOT`]. They are
//! read-only. The binary loads them; here they are a value that tools, prompt and binary share.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::without_dots;

/// All embedded files, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Keys are paths below the root, with `/` between the parts.
    files: BTreeMap<String, EmbeddedFile>,
}

/// An embedded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedFile {
    /// Content of the file.
    pub content: Cow<'static, [u8]>,
    /// Whether the file is a program.
    pub is_executable: bool,
}

/// Entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbeddedEntry<'a> {
    /// A file.
    File(&'a EmbeddedFile),
    /// A folder with its entry names, sorted; names of folders end with a slash.
    Folder(Vec<String>),
}

/// Reason why a file cannot be inserted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    /// The path lies outside the root, or has no name.
    #[error("`{0}` is not a relative file path")]
    Path(String),
    /// The path is already taken.
    #[error("`{0}` exists twice, or as both a file and a folder")]
    Taken(String),
}

impl Embedded {
    /// Virtual root folder of all embedded files.
    pub const ROOT: &'static str = "/zip/embed";
    /// Folder of the built-in files, below the root.
    pub const BUILT_IN: &'static str = "sys";

    /// Adds the file at `path` below the root; never replaces one.
    ///
    /// # Errors
    ///
    /// If the path is invalid or taken.
    pub fn insert(&mut self, path: &str, file: EmbeddedFile) -> Result<(), EmbeddedError> {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if !path.split('/').all(is_plain) || path.contains(['\\', '\0']) {
            return Err(EmbeddedError::Path(path.to_owned()));
        }
        let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
        let is_below_file = above.any(|folder| self.files.contains_key(folder));
        if is_below_file || self.files.contains_key(path) || self.below(path).next().is_some() {
            return Err(EmbeddedError::Taken(path.to_owned()));
        }
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// Adds all files of `other`; on a conflict, the file of `other` wins.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
    }

    /// Removes and returns all files at and below `folder`, a path below the root.
    pub fn remove(&mut self, folder: &str) -> Self {
        let (removed, kept) = std::mem::take(&mut self.files)
            .into_iter()
            .partition(|(path, _)| is_at_or_below(path, folder));
        self.files = kept;
        Self { files: removed }
    }

    /// Returns the absolute `path` without `.` and `..` if it lies below the virtual root, whether or not a file
    /// exists there; such a path is on no disk.
    pub fn place(path: &Path) -> Option<PathBuf> {
        Some(without_dots(path)).filter(|path| path.starts_with(Self::ROOT))
    }

    /// Whether the absolute `path` lies below the virtual root.
    pub fn covers(path: &Path) -> bool {
        Self::place(path).is_some()
    }

    /// Returns the entry at the absolute `path`.
    pub fn at(&self, path: &Path) -> Option<EmbeddedEntry<'_>> {
        let below = below_root(path)?;
        if let Some(file) = self.files.get(&below) {
            return Some(EmbeddedEntry::File(file));
        }
        let start = if below.is_empty() { 0 } else { below.len() + 1 };
        let names: BTreeSet<_> = self
            .below(&below)
            .map(|(path, _)| match path[start..].split_once('/') {
                Some((folder, _)) => format!("{folder}/"),
                None => path[start..].to_owned(),
            })
            .collect();
        let exists = below.is_empty() || !names.is_empty();
        exists.then(|| EmbeddedEntry::Folder(names.into_iter().collect()))
    }

    /// Returns the file at the absolute `path`.
    pub fn file(&self, path: &Path) -> Option<&EmbeddedFile> {
        self.files.get(&below_root(path)?)
    }

    /// Returns the files at and below the absolute `path` with their paths, sorted.
    pub fn files(&self, path: &Path) -> impl Iterator<Item = (PathBuf, &EmbeddedFile)> {
        let below = below_root(path);
        let here = below
            .as_ref()
            .and_then(|path| self.files.get_key_value(path));
        let below = below
            .into_iter()
            .flat_map(|folder| self.below(&folder).collect::<Vec<_>>());
        let absolute = |(path, file): (&String, _)| (Path::new(Self::ROOT).join(path), file);
        here.into_iter().chain(below).map(absolute)
    }

    fn below(&self, folder: &str) -> impl Iterator<Item = (&String, &EmbeddedFile)> + use<'_> {
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let from = self.files.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path relative to the root, if it lies below it.
fn below_root(path: &Path) -> Option<String> {
    // No symbolic links could change its meaning.
    let plain = without_dots(path);
    let below = plain.strip_prefix(Embedded::ROOT).ok()?;
    below.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &'static str) -> EmbeddedFile {
        EmbeddedFile {
            content: Cow::Borrowed(content.as_bytes()),
            is_executable: false,
        }
    }

    fn embedded(paths: &[&'static str]) -> Embedded {
        let mut embedded = Embedded::default();
        for path in paths {
            embedded.insert(path, file(path)).unwrap();
        }
        embedded
    }

    #[test]
    fn a_path_leads_to_a_file_a_folder_or_nothing() {
        let embedded = embedded(&["a-b", "a/c/d", "a/e", "sys/x"]);
        for (path, expected) in [
            ("/zip/embed", "[\"a-b\", \"a/\", \"sys/\"]"),
            ("/zip/embed/", "[\"a-b\", \"a/\", \"sys/\"]"),
            ("/zip/embed/a", "[\"c/\", \"e\"]"),
            ("/zip/embed/a/./c/../e", "a/e"),
            ("/zip/embed/a-b", "a-b"),
            ("/zip/embed/../embed/sys/x", "sys/x"),
            ("/zip/embed/a/e/f", "nothing"),
            ("/zip/embed/x", "nothing"),
            ("/zip/embed/..", "nothing"),
            ("/zip/embedded", "nothing"),
            ("a-b", "nothing"),
        ] {
            let found = match embedded.at(Path::new(path)) {
                Some(EmbeddedEntry::File(file)) => String::from_utf8_lossy(&file.content).into(),
                Some(EmbeddedEntry::Folder(names)) => format!("{names:?}"),
                None => "nothing".to_owned(),
            };
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(
            Embedded::default().at(Path::new(Embedded::ROOT)),
            Some(EmbeddedEntry::Folder(Vec::new()))
        );
    }

    #[test]
    fn the_files_below_a_path_are_all_and_no_others() {
        let embedded = embedded(&["a-b", "a/c/d", "a/e", "ab/c"]);
        for (path, expected) in [
            ("/zip/embed/a", "/zip/embed/a/c/d /zip/embed/a/e"),
            ("/zip/embed/a/e", "/zip/embed/a/e"),
            ("/zip/embed/b", ""),
            ("/a", ""),
        ] {
            let files = embedded.files(Path::new(path));
            let paths: Vec<_> = files.map(|(path, _)| path.display().to_string()).collect();
            assert_eq!(paths.join(" "), expected, "{path}");
        }
    }

    #[test]
    fn only_distinct_paths_inside_the_root_can_be_added() {
        let mut embedded = embedded(&["a/b"]);
        for path in [
            "", "/x", "x/", "../x", "x/../y", "./x", "x//y", "x\\y", "x\0",
        ] {
            let refused = Err(EmbeddedError::Path(path.to_owned()));
            assert_eq!(embedded.insert(path, file("")), refused);
        }
        for path in ["a", "a/b", "a/b/c"] {
            let refused = Err(EmbeddedError::Taken(path.to_owned()));
            assert_eq!(embedded.insert(path, file("")), refused);
        }
        assert_eq!(embedded.insert("a.b", file("")), Ok(()));
    }

    #[test]
    fn a_folder_is_removed_with_its_files() {
        let mut embedded = embedded(&["env.d/a", "env.d/b/c", "env.data"]);
        assert_eq!(embedded.remove("env.d").files.len(), 2);
        assert_eq!(embedded, self::embedded(&["env.data"]));
    }

    #[test]
    fn paths_of_embedded_files_are_on_no_disk() {
        for (path, expected) in [
            ("/zip/embed", Some("/zip/embed")),
            ("/zip/embed/none", Some("/zip/embed/none")),
            ("/x/../zip/embed/./a", Some("/zip/embed/a")),
            ("/zip/embed/../x", None),
            ("zip/embed/x", None),
        ] {
            let place = Embedded::place(Path::new(path));
            assert_eq!(place, expected.map(PathBuf::from), "{path}");
        }
    }
}
