//! What the user has answered: which folders they trust and which they do not, in a file of the user's folder.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file, below the user's folder.
const FILE: &str = "trust.json";

/// The answers that are remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The user's folder, if there is one.
    home: Option<PathBuf>,
    answers: Answers,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Answers {
    /// Whether each folder is trusted. No other folder is meant, not even one below.
    folders: BTreeMap<PathBuf, bool>,
}

impl Memory {
    /// What is remembered in the user's folder `home`. The second value says why it cannot be read; then nothing is.
    pub fn read(home: Option<&Path>) -> (Self, Option<String>) {
        let mut memory = Self {
            home: home.map(Path::to_owned),
            answers: Answers::default(),
        };
        let Some(path) = memory.path() else {
            return (memory, None);
        };
        let answers =
            fs::read(&path).and_then(|text| serde_json::from_slice(&text).map_err(io::Error::from));
        match answers {
            Ok(answers) => memory.answers = answers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = path.display();
                return (
                    memory,
                    Some(format!(
                        "`{path}` cannot be read, so no folder is trusted by it: {error}"
                    )),
                );
            }
        }
        (memory, None)
    }

    /// What the user has answered for `folder`.
    pub fn answer(&self, folder: &Path) -> Option<bool> {
        self.answers.folders.get(folder).copied()
    }

    /// Keeps an answer.
    ///
    /// # Errors
    ///
    /// Where it cannot be kept.
    pub fn keep(&mut self, folder: &Path, is_trusted: bool) -> io::Result<()> {
        self.answers.folders.insert(folder.to_owned(), is_trusted);
        let (Some(home), Some(path)) = (&self.home, self.path()) else {
            return Err(io::Error::other("there is no home directory"));
        };
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(home)?;
        serde_json::to_writer_pretty(&mut file, &self.answers)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(FILE))
    }
}
