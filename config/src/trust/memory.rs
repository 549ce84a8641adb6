//! The user's remembered answers about trust, in a file of the user's folder.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::answers_file;

/// The file, below the user's folder.
const FILE: &str = "trust.json";

/// Remembered answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The user's folder, if there is one.
    home: Option<PathBuf>,
    answers: Answers,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Answers {
    /// Trusted or not, by folder. An answer does not apply to subfolders.
    folders: BTreeMap<PathBuf, bool>,
}

impl Memory {
    /// Reads the answers in the user's folder `home`. If they cannot be read, the second value says why, and there are
    /// none.
    pub fn read(home: Option<&Path>) -> (Self, Option<String>) {
        let mut memory = Self {
            home: home.map(Path::to_owned),
            answers: Answers::default(),
        };
        let Some(path) = memory.path() else {
            return (memory, None);
        };
        match answers_file::read(&path) {
            Ok(answers) => memory.answers = answers,
            Err(error) => {
                let path = path.display();
                return (
                    memory,
                    Some(format!(
                        "`{path}` cannot be read, so its folders are not trusted: {error}"
                    )),
                );
            }
        }
        (memory, None)
    }

    /// Returns the user's answer for `folder`.
    pub fn answer(&self, folder: &Path) -> Option<bool> {
        self.answers.folders.get(folder).copied()
    }

    /// Stores an answer.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&mut self, folder: &Path, is_trusted: bool) -> io::Result<()> {
        self.answers.folders.insert(folder.to_owned(), is_trusted);
        match &self.home {
            Some(home) => answers_file::write(home, FILE, &self.answers),
            None => Err(io::Error::other("there is no home directory")),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(FILE))
    }
}
