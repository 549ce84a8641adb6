//! What the commands of a setup have made, kept for the next issue: a copy of the untracked files, under the hash of what
//! it was made from. It is laid into the agents' repository instead of running the commands, and anew before a review,
//! so that an agent cannot change what the tests of its change run with.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use ah_beneath::Folder;
use rustix::fs::OFlags;
use serde_json::json;

use crate::artifact::{FOLDER, hash, real_folder, remove};
use ah_config::settings::work::SetupSettings;
use ah_git::{Git, GitError};

/// Names of the entries, one per line.
const NAMES: &str = "names";
/// Folder with the entries.
const FILES: &str = "files";
/// Deepest folder of what is copied.
const MAX_DEPTH: usize = 250;

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
        std::fs::create_dir_all(self.folder.join(FILES))?;
        let (top, own) = (Folder::follow(top)?, Folder::at(&self.folder)?);
        let files = own.folder(FILES.as_ref())?;
        for name in names {
            let path = Path::new(name);
            let (from, name) = top.entry(path)?;
            let to = files.make_folders(path.parent().unwrap_or(Path::new("")), 0o777)?;
            copy_entry((&from, name), (&to, name), 0)?;
        }
        let mut list = own.create_file(NAMES.as_ref(), 0o666)?;
        list.write_all(names.join("\n").as_bytes())
    }

    /// Replaces its entries in the work tree `top` by what is kept.
    pub(crate) fn lay(&self, top: &Path) -> io::Result<()> {
        let (top, own) = (Folder::follow(top)?, Folder::at(&self.folder)?);
        let list = own.open_file(NAMES.as_ref(), OFlags::RDONLY)?;
        let kept = own.folder(FILES.as_ref())?;
        for name in io::read_to_string(list)?.lines() {
            let path = Path::new(name);
            let (from, name) = kept.entry(path)?;
            // An agent may have put a link in its way.
            let to = real_folder(&top, path.parent().unwrap_or(Path::new("")))?;
            to.remove_all(name)?;
            copy_entry((&from, name), (&to, name), 0)?;
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

/// Copies files, folders and links with their modes and times; nothing else is copied, and no link is followed.
///
/// # Errors
///
/// If something cannot be read or written, or is there already, or folders are nested too deep.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let place = |path: &Path| {
        let parts = path.parent().zip(path.file_name().map(OsStr::to_owned));
        let (around, name) = parts.ok_or_else(|| io::Error::other("it has no name"))?;
        Ok::<_, io::Error>((Folder::follow(around)?, name))
    };
    let ((from, name), (to, new)) = (place(from)?, place(to)?);
    copy_entry((&from, &name), (&to, &new), 0)
}

fn copy_entry(
    (from, name): (&Folder, &OsStr),
    (to, new): (&Folder, &OsStr),
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        let why = format!("folders are nested more than {MAX_DEPTH} deep");
        return Err(io::Error::other(why));
    }
    let found = from.status(name)?.ok_or(io::ErrorKind::NotFound)?;
    let mode = found.mode & 0o777;
    if found.is_link() {
        return to.create_link(&from.read_link(name)?, new);
    }
    if found.is_file() {
        let mut original = from.open_file(name, OFlags::RDONLY)?;
        let mut copy = to.create_file(new, 0o600)?;
        io::copy(&mut original, &mut copy)?;
        // A tool that compares times would do its work again.
        let _ = copy.set_modified(original.metadata()?.modified()?);
        return to.set_mode(new, mode);
    }
    if !found.is_folder() {
        return Ok(());
    }
    to.create_folder(new, 0o700)?;
    let (from, inner) = (from.folder(name.as_ref())?, to.folder(new.as_ref())?);
    for name in from.list()? {
        copy_entry((&from, &name), (&inner, &name), depth + 1)?;
    }
    to.set_mode(new, mode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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
