//! The sessions that this user has made or chosen, by id: a folder of sessions may have come with a project, and what lies
//! in it is then nobody's words but its author's.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use ah_conversation::SessionId;

/// A file with the ids of the user's sessions, one per line.
#[derive(Debug, Clone)]
pub struct KnownSessions {
    path: PathBuf,
}

impl KnownSessions {
    /// Returns the list in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Reads the ids in the list.
    pub(crate) fn ids(&self) -> HashSet<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Adds the session, unless it is in the list.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&self, id: &SessionId) -> io::Result<()> {
        if self.ids().contains(id.as_str()) {
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
        file.write_all(format!("{id}\n").as_bytes())
    }
}
