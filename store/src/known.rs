//! The sessions that this user has made or chosen, by id. Session files may come with a cloned project: only those in the list
//! count as the user's own. The list also says in which folder each was, so that sessions of all folders can be listed.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ah_conversation::SessionId;

/// A file with the user's sessions, one per line: the id and, after a tab, the folder of its files.
#[derive(Debug, Clone)]
pub struct KnownSessions {
    path: PathBuf,
}

impl KnownSessions {
    /// Returns the list in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the key of the user's seals, which is beside the list.
    pub fn key(&self) -> PathBuf {
        self.path.with_file_name("seal")
    }

    /// Reads the ids in the list.
    pub(crate) fn ids(&self) -> HashSet<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let ids = text.lines().filter_map(|line| line.split('\t').next());
        ids.map(str::to_owned).collect()
    }

    /// Returns whether the session is in the list.
    pub fn has(&self, id: &SessionId) -> bool {
        self.ids().contains(id.as_str())
    }

    /// Returns the folders of the sessions, the last one added first. Some may be gone.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut seen = HashSet::new();
        let folders = self
            .lines()
            .into_iter()
            .rev()
            .filter_map(|line| line.folder);
        folders
            .filter(|folder| seen.insert(folder.clone()))
            .collect()
    }

    /// Adds the session, whose files are in `folder`, unless it is in the list.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&self, id: &SessionId, folder: &Path) -> io::Result<()> {
        let folder = std::path::absolute(folder)?;
        // A name with a line break could not be read back.
        let line = match folder.to_str().filter(|text| !text.contains(['\n', '\t'])) {
            Some(folder) => format!("{id}\t{folder}"),
            None => id.to_string(),
        };
        let known = fs::read_to_string(&self.path).unwrap_or_default();
        if known.lines().any(|known| known == line) {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        // In one write, so that lines of several processes do not mix.
        file.write_all((line + "\n").as_bytes())
    }

    fn lines(&self) -> Vec<Known> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines = text.lines().map(|line| match line.split_once('\t') {
            Some((id, folder)) => Known {
                id: id.to_owned(),
                folder: Some(PathBuf::from(folder)),
            },
            None => Known {
                id: line.to_owned(),
                folder: None,
            },
        });
        lines.collect()
    }
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    id: String,
    folder: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_where_sessions_are() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownSessions::at(folder.path().join("deep/sessions"));
        let [one, two] = ["01A", "01B"].map(SessionId::from);
        let add = |id, folder| known.add(id, Path::new(folder)).unwrap();
        add(&one, "/a/.ah");
        add(&one, "/a/.ah");
        add(&two, "/b/.ah");
        // A folder that was moved.
        add(&one, "/c/.ah");
        add(&one, "/with\na break");
        assert_eq!(known.lines().len(), 4);
        assert_eq!(known.ids(), ["01A", "01B"].map(str::to_owned).into());
        assert_eq!(
            known.folders(),
            ["/c/.ah", "/b/.ah", "/a/.ah"].map(PathBuf::from)
        );
    }
}
