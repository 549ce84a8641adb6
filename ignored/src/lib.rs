//! Files that git ignores or a `.ignore` leaves out, by patterns in files that others may have put there.
//!
//! The library `ignore` opens such files by their paths: it waits for a pipe, follows a link to a device, and takes any length. So
//! only its patterns and its walk are used here. Files are opened through `ah_beneath`, and only as far as they are plain files
//! of at most [`MAX_BYTES`]; the patterns of others do not count, as git has it for links. Each folder is looked at once.

mod place;
mod sources;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ignore::DirEntry;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use ignore::overrides::Override;
use ignore::types::Types;
use ignore::{Match, WalkBuilder};
use parking_lot::{Mutex, RwLock};

pub use self::place::Patterns;
use self::place::Place;
pub use self::sources::{MAX_BYTES, Sources};

/// What a walk takes beside what is not ignored.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Whether names that begin with a dot are taken.
    pub hidden: bool,
    /// Globs that come first.
    pub globs: Override,
    /// Kinds of files.
    pub kinds: Types,
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            hidden: false,
            globs: Override::empty(),
            kinds: Types::empty(),
        }
    }
}

/// Patterns in force, by folder.
#[derive(Debug)]
pub struct Ignored {
    sources: Sources,
    users: Gitignore,
    places: RwLock<HashMap<PathBuf, Arc<Place>>>,
    /// The patterns of each folder that has some and was looked at; all that there are, if they are settled.
    own: Mutex<BTreeMap<PathBuf, Patterns>>,
    is_settled: bool,
    /// Files whose patterns do not count.
    unread: Mutex<BTreeSet<PathBuf>>,
}

impl Ignored {
    /// Creates the value; nothing but the user's own patterns is read before it is asked.
    pub fn new(sources: Sources) -> Self {
        let users = sources.users.then(gitconfig_excludes_path).flatten();
        let users = users.map(|file| {
            let mut builder = GitignoreBuilder::new("/");
            // One that is missing has no patterns.
            let _ = builder.add(file);
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        });
        Self {
            sources,
            users: users.unwrap_or_else(Gitignore::empty),
            places: RwLock::default(),
            own: Mutex::default(),
            is_settled: false,
            unread: Mutex::default(),
        }
    }

    /// Creates a value with these patterns, which another has read: a folder that is not among them has only what is in force
    /// above it, whatever is there by now.
    pub fn settled(sources: Sources, patterns: BTreeMap<PathBuf, Patterns>) -> Self {
        Self {
            own: patterns.into(),
            is_settled: true,
            ..Self::new(sources)
        }
    }

    /// Returns the patterns of the folders that were looked at, as far as they have some or are the top of a repository.
    pub fn patterns(&self) -> BTreeMap<PathBuf, Patterns> {
        self.own.lock().clone()
    }

    /// Returns a walk from `root` without what is ignored.
    pub fn walk(self: &Arc<Self>, root: &Path, taken: Taken) -> WalkBuilder {
        let mut walk = walk_all(root);
        walk.overrides(taken.globs.clone())
            .types(taken.kinds.clone());
        let ignored = self.clone();
        walk.filter_entry(move |entry| ignored.takes(entry, &taken));
        walk
    }

    /// Returns whether a walk takes an entry; its root is always taken.
    pub fn takes(&self, entry: &DirEntry, taken: &Taken) -> bool {
        let (path, name) = (entry.path(), entry.file_name());
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let picked = taken.globs.matched(path, is_folder);
        if entry.depth() == 0 || !picked.is_none() {
            return !picked.is_ignore();
        }
        let matched = self.matched(path, is_folder);
        let is_named =
            matched.is_whitelist() || taken.kinds.matched(path, is_folder).is_whitelist();
        let is_shown = taken.hidden || is_named || !is_hidden(name);
        !matched.is_ignore() && is_shown
    }

    /// Returns whether git ignores a path: itself, or a folder above it. What is above [`Sources::top`] is not ignored.
    pub fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let Some(folder) = path.parent().filter(|it| self.has_say(it)) else {
            return false;
        };
        let place = self.place(folder);
        place.is_ignored
            || place
                .matched(path, is_folder, &self.sources, &self.users)
                .is_ignore()
    }

    /// Returns the files whose patterns do not count, since they are no plain files, or too long.
    pub fn unread(&self) -> Vec<PathBuf> {
        let unread = self.unread.lock();
        unread.iter().cloned().collect()
    }

    fn matched(&self, path: &Path, is_folder: bool) -> Match<()> {
        match path.parent() {
            Some(folder) if self.has_say(folder) => {
                let place = self.place(folder);
                place.matched(path, is_folder, &self.sources, &self.users)
            }
            _ => Match::None,
        }
    }

    fn has_say(&self, folder: &Path) -> bool {
        { self.sources.top.as_ref() }.is_none_or(|top| folder.starts_with(top))
    }

    /// Returns what is in force in a folder.
    fn place(&self, folder: &Path) -> Arc<Place> {
        let known = |folder: &Path| {
            let places = self.places.read();
            places.get(folder).cloned()
        };
        if let Some(place) = known(folder) {
            return place;
        }
        let (mut missing, mut above) = (Vec::new(), None);
        for folder in folder.ancestors().take_while(|it| self.has_say(it)) {
            above = known(folder);
            if above.is_some() {
                break;
            }
            missing.push(folder);
        }
        for folder in missing.into_iter().rev() {
            let is_ignored = above.as_ref().is_some_and(|above: &Arc<Place>| {
                let matched = above.matched(folder, true, &self.sources, &self.users);
                above.is_ignored || matched.is_ignore()
            });
            let (own, missed) = self.patterns_of(folder);
            let (place, unread) = Place::of(folder, &own, above, is_ignored);
            let mut all = self.unread.lock();
            all.extend(missed.into_iter().chain(unread));
            let place = Arc::new(place);
            let mut places = self.places.write();
            places.insert(folder.to_owned(), place.clone());
            above = Some(place);
        }
        above.unwrap_or_default()
    }

    /// Returns the patterns of a folder, and the files whose patterns do not count.
    fn patterns_of(&self, folder: &Path) -> (Patterns, Vec<PathBuf>) {
        if self.is_settled {
            let own = self.own.lock().get(folder).cloned();
            return (own.unwrap_or_default(), Vec::new());
        }
        let (own, unread) = Patterns::read(folder, &self.sources);
        if own != Patterns::default() {
            self.own.lock().insert(folder.to_owned(), own.clone());
        }
        (own, unread)
    }
}

/// Returns a walk from `root` in which everything counts.
pub fn walk_all(root: &Path) -> WalkBuilder {
    #[expect(clippy::disallowed_methods, reason = "it opens no file with patterns")]
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false);
    walk
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests;
