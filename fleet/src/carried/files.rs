//! What a session says of its files.

use std::path::{Component, Path};

use ah_config::Error;
use ah_conversation::{Record, SharedState as _, Store as _, json};
use ah_git::GitError;
use ah_store::SessionStore;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Name of the session's note.
const NOTE: &str = "files";
/// Largest layer, in bytes.
pub(super) const LARGEST: u64 = 128 << 20;

/// What a session says of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The address of a repository that has the commit `base`.
    pub remote: Option<String>,
    /// The commit that layers begin at; without one, the first layer has all.
    pub base: Option<String>,
    /// The folder of the session below the top of the files.
    pub within: String,
    /// The layers, oldest first.
    pub layers: Vec<Layer>,
    /// How often changes since the last layer were lost.
    #[serde(default)]
    pub losses: u32,
}

/// What has changed since the layer before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The commit with all files; its parent is `head`.
    pub state: String,
    /// The commit that is checked out.
    pub head: Option<String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// SHA-256 of the bundle.
    pub content: String,
}

impl Files {
    /// Returns what a session says of its files; `None` if it is where they are.
    ///
    /// # Errors
    ///
    /// If the session cannot be read, or it says what makes no sense.
    pub async fn of(store: &SessionStore) -> Result<Option<Self>, Error> {
        let note = store.note(NOTE).await?.filter(|note| !note.is_empty());
        let Some(note) = note else {
            return Ok(None);
        };
        let files: Self = json::from_str(&note).map_err(|_| strange())?;
        files.check()?;
        Ok(Some(files))
    }

    /// Stores them with the content of the last layer, if that is new.
    ///
    /// # Errors
    ///
    /// If the session was taken over or cannot be written.
    pub async fn keep(
        &mut self,
        store: &SessionStore,
        content: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let last = self.layers.last_mut().ok_or_else(strange)?;
        if let Some(content) = &content {
            let digest = Sha256::digest(content);
            last.content = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let note = serde_json::to_string(self).map_err(|_| strange())?;
        match content {
            Some(content) => store.keep(NOTE, note, content).await?,
            None => {
                let note = Record::Note(NOTE.to_owned(), note);
                store.append(vec![note]).await?;
            }
        }
        Ok(())
    }

    /// Returns what the model is told of them; `None` if nothing was lost.
    pub fn told(&self) -> Option<String> {
        (self.losses > 0).then(|| {
            let again = match self.losses {
                1 => String::new(),
                times => format!(" (this has happened {times} times)"),
            };
            format!(
                "The files in this folder are as they were some steps ago: the machine that you worked on is gone, and what it had \
                 changed since then is lost{again}. Look at the files before you continue."
            )
        })
    }

    /// Says that the session is where its files are.
    ///
    /// # Errors
    ///
    /// If the session was taken over or cannot be written.
    pub async fn arrive(store: &SessionStore) -> Result<(), Error> {
        let note = Record::Note(NOTE.to_owned(), String::new());
        Ok(store.append(vec![note]).await?)
    }

    /// Returns the names of all contents.
    pub fn contents(&self) -> Vec<String> {
        let contents = self.layers.iter().map(|layer| layer.content.clone());
        contents.collect()
    }

    /// Fails if they could mean another place than they should: they may come from a file that anybody has made.
    fn check(&self) -> Result<(), Error> {
        let is_hex = |text: &str, lengths: &[usize]| {
            lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_commit = |text: &String| is_hex(text, &[40]);
        let is_sound = |layer: &Layer| {
            is_commit(&layer.state)
                && layer.head.iter().all(is_commit)
                && layer.branch.iter().all(|name| is_branch(name))
                && is_hex(&layer.content, &[64])
        };
        let mut parts = Path::new(&self.within).components();
        let is_fine = parts.all(|part| matches!(part, Component::Normal(_)))
            && self.base.iter().all(is_commit)
            && self.remote.iter().all(|url| !url.starts_with('-'))
            && !self.layers.is_empty()
            && self.layers.iter().all(is_sound);
        is_fine.then_some(()).ok_or_else(strange)
    }
}

/// Returns whether git takes the name for a branch, less some names that it takes, too.
pub(super) fn is_branch(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+#@=,".contains(c);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock");
    name.chars().all(is_plain)
        && !name.contains("..")
        && !name.ends_with('.')
        && name != "@"
        && name.split('/').all(is_part)
}

pub(super) fn strange() -> Error {
    Error::failure("this program does not understand what the session records about its files")
}

pub(super) fn failed(error: &GitError) -> Error {
    let error_of_git = Error::failure(error.to_string());
    match error.hint() {
        Some(hint) => error_of_git.hint(hint),
        None => error_of_git,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_another_place_is_refused() {
        let commit = "0123456789012345678901234567890123456789";
        let fine = Files {
            remote: Some("https://host/x.git".to_owned()),
            base: Some(commit.to_owned()),
            within: "a/b".to_owned(),
            layers: vec![Layer {
                state: commit.to_owned(),
                head: Some(commit.to_owned()),
                branch: Some("feature/x-1".to_owned()),
                content: "0".repeat(64),
            }],
            losses: 0,
        };
        fine.check().unwrap();
        let changes: [fn(&mut Files); 8] = [
            |it| it.remote = Some("--upload-pack=x".to_owned()),
            |it| it.base = Some("--all".to_owned()),
            |it| it.within = "../x".to_owned(),
            |it| it.within = "/etc".to_owned(),
            |it| it.layers[0].branch = Some("-x".to_owned()),
            |it| it.layers[0].branch = Some("a/../b".to_owned()),
            |it| it.layers[0].content = "../../x".to_owned(),
            |it| it.layers.clear(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut files = fine.clone();
            change(&mut files);
            assert!(files.check().is_err(), "{number}");
        }
    }
}
