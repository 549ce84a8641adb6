//! What the commands of a setup have made, kept for the next issue: a copy of the untracked files, under the hash of what
//! it was made from. It is laid into the agents' repository instead of running the commands, and anew before a review,
//! so that an agent cannot change what the tests of its change run with.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use serde_json::json;

use crate::artifact::{FOLDER, hash, real_folder, remove};
use ah_config::settings::work::SetupSettings;
use ah_git::{Git, GitError};

/// Names of the entries, one per line.
const NAMES: &str = "names";
/// Folder with the entries.
const FILES: &str = "files";

/// A layer, which may not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    folder: PathBuf,
}

impl Layer {
    /// Returns the layer of this setup at the commit, below the folder of all layers.
    pub(crate) async fn of(
        all: &Path,
        settings: &SetupSettings,
        git: &Git,
        commit: &str,
    ) -> Result<Self, GitError> {
        let words = settings
            .commands
            .iter()
            .flat_map(|line| line.split_whitespace());
        let named: Vec<_> = words
            .chain(settings.files.iter().map(String::as_str))
            .collect();
        let mut listing = vec!["--literal-pathspecs", "ls-tree", commit];
        if settings.files.is_empty() {
            // Nobody says what it depends on.
            listing = vec!["rev-parse", commit];
        } else {
            listing.push("--");
            listing.extend(named.into_iter().filter(|name| is_plain(Path::new(name))));
        }
        let from = git.run(&listing).await?;
        let key = json!([settings, from]).to_string();
        Ok(Self {
            folder: all.join(&hash(key.as_bytes())[..32]),
        })
    }

    /// Returns the layer with this name below the folder of all layers.
    pub(crate) fn named(all: &Path, name: &str) -> Self {
        Self {
            folder: all.join(name.trim()),
        }
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns whether it is there.
    pub(crate) fn exists(&self) -> bool {
        self.folder.join(NAMES).is_file()
    }

    /// Keeps these entries of the work tree `top`, instead of earlier layers.
    pub(crate) fn store(&self, top: &Path, names: &[String]) -> io::Result<()> {
        let all = self.folder.parent().unwrap_or(&self.folder);
        remove(all)?;
        let files = self.folder.join(FILES);
        fs::create_dir_all(&files)?;
        for name in names {
            let (from, to) = (top.join(name), files.join(name));
            fs::create_dir_all(to.parent().unwrap_or(&files))?;
            copy(&from, &to)?;
        }
        fs::write(self.folder.join(NAMES), names.join("\n"))
    }

    /// Replaces its entries in the work tree `top` by what is kept.
    pub(crate) fn lay(&self, top: &Path) -> io::Result<()> {
        let names = fs::read_to_string(self.folder.join(NAMES))?;
        for name in names.lines() {
            let to = top.join(name);
            // An agent may have put a link in its way.
            real_folder(top, to.parent().unwrap_or(top))?;
            remove(&to)?;
            copy(&self.folder.join(FILES).join(name), &to)?;
        }
        Ok(())
    }
}

/// Returns the untracked entries of a work tree, folders without a trailing slash.
pub(crate) async fn untracked(git: &Git) -> Result<Vec<String>, GitError> {
    let words = ["ls-files", "--others", "--directory", "-z"];
    let made = git.run(&words).await?;
    let own = Path::new(FOLDER).components().next();
    let names = made.split('\0').map(|name| name.trim_end_matches('/'));
    let is_kept = |name: &&str| {
        let path = Path::new(name);
        is_plain(path) && !name.contains('\n') && path.components().next() != own
    };
    Ok(names.filter(is_kept).map(str::to_owned).collect())
}

/// Returns whether a path stays within the folder that it is relative to.
fn is_plain(path: &Path) -> bool {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.as_os_str().is_empty() && path.components().all(is_name)
}

/// Copies files, folders and links with their modes and times; nothing else is copied.
///
/// # Errors
///
/// If something cannot be read or written, or is there already.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if metadata.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if metadata.is_file() {
        fs::copy(from, to)?;
        // A tool that compares times would do its work again. A file without write permission cannot be opened.
        let file = File::open(to)?;
        let _ = file.set_modified(metadata.modified()?);
        return Ok(());
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    fs::create_dir(to)?;
    let entries: io::Result<Vec<OsString>> = fs::read_dir(from)?
        .map(|entry| Ok(entry?.file_name()))
        .collect();
    for name in entries? {
        copy(&from.join(&name), &to.join(&name))?;
    }
    fs::set_permissions(to, metadata.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_replaces_what_an_agent_has_made_of_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("top/sub/deps")).unwrap();
        fs::write(at("top/sub/deps/lib"), "good").unwrap();
        symlink("lib", at("top/sub/deps/link")).unwrap();
        let layer = Layer::named(&at("layers"), "a");
        assert!(!layer.exists());
        layer.store(&at("top"), &["sub/deps".to_owned()]).unwrap();
        assert!(layer.exists());
        // The agent changes a file, and then puts a link to elsewhere in the place of the folder.
        fs::write(at("top/sub/deps/lib"), "evil").unwrap();
        layer.lay(&at("top")).unwrap();
        assert_eq!(fs::read_to_string(at("top/sub/deps/lib")).unwrap(), "good");
        fs::create_dir(at("elsewhere")).unwrap();
        fs::remove_dir_all(at("top/sub")).unwrap();
        symlink(at("elsewhere"), at("top/sub")).unwrap();
        layer.lay(&at("top")).unwrap();
        assert_eq!(
            fs::read_link(at("top/sub/deps/link")).unwrap(),
            Path::new("lib")
        );
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        // Another layer takes its place.
        let other = Layer::named(&at("layers"), "b");
        other.store(&at("top"), &[]).unwrap();
        assert!(other.exists() && !layer.exists());
    }
}
