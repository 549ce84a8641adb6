//! The patterns of one folder, and those above that are in force in it.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::Folder;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::OFlags;

use crate::sources::{MAX_BYTES, Sources};

/// Names of the files with patterns.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The patterns of one folder alone, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patterns {
    /// Of `.ignore`, of `.gitignore`, and of the repository whose top this is.
    pub texts: [Option<String>; 3],
    /// Whether it is the top of a repository.
    pub is_top: bool,
}

impl Patterns {
    /// Reads those of a folder. Returns also the files whose patterns do not count.
    pub(crate) fn read(path: &Path, sources: &Sources) -> (Self, Vec<PathBuf>) {
        let (mut own, mut unread) = (Self::default(), Vec::new());
        // What is not there has no patterns.
        let Ok(folder) = Folder::follow(path) else {
            return (own, unread);
        };
        let mut read = |(within, below): (&Folder, &str), at: &Path| {
            text(within, below.as_ref()).unwrap_or_else(|_| {
                unread.push(at.join(below));
                None
            })
        };
        if sources.ignore {
            own.texts[0] = read((&folder, FILES[0]), path);
        }
        own.texts[1] = read((&folder, FILES[1]), path);
        if let Some((info, at)) = repository(&folder, path) {
            own.texts[2] = info.and_then(|info| read((&info, "exclude"), &at));
            own.is_top = true;
        }
        (own, unread)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Of `.ignore`, of `.gitignore`, and of the repository whose top this is.
    patterns: [Option<Gitignore>; 3],
    is_top: bool,
    is_in_repository: bool,
    /// Whether the folder is ignored itself, or one above it.
    pub(crate) is_ignored: bool,
    /// The nearest folder above that has patterns, or is the top of a repository.
    above: Option<Arc<Self>>,
}

impl Place {
    /// Returns what is in force in a folder with these patterns, and the files whose patterns do not count.
    pub(crate) fn of(
        path: &Path,
        own: &Patterns,
        above: Option<Arc<Self>>,
        is_ignored: bool,
    ) -> (Self, Vec<PathBuf>) {
        let mut unread = Vec::new();
        let is_below = above.as_ref().is_some_and(|above| above.is_in_repository);
        let mut place = Self {
            is_top: own.is_top,
            is_in_repository: own.is_top || is_below,
            is_ignored,
            above: above.and_then(|above| match above.has_nothing() {
                true => above.above.clone(),
                false => Some(above),
            }),
            ..Self::default()
        };
        for ((kind, text), file) in own.texts.iter().enumerate().zip(FILES) {
            let made = text.as_ref().map(|text| patterns(path, text)).transpose();
            place.patterns[kind] = made.unwrap_or_else(|_| {
                unread.push(path.join(file));
                None
            });
        }
        (place, unread)
    }

    fn has_nothing(&self) -> bool {
        !self.is_top && self.patterns.iter().all(Option::is_none)
    }

    /// Returns what the patterns say of a path in this folder; those of the nearest folder count first.
    pub(crate) fn matched(
        &self,
        path: &Path,
        is_folder: bool,
        sources: &Sources,
        users: &Gitignore,
    ) -> Match<()> {
        let matched = |patterns: &Gitignore| patterns.matched(path, is_folder).map(|_| ());
        let counts = sources.without_git || self.is_in_repository;
        let mut is_of_git = counts;
        let mut found = [const { Match::None }; 3];
        for place in successors(Some(self), |place| place.above.as_deref()) {
            for (kind, found) in found.iter_mut().enumerate() {
                if found.is_none() && (kind == 0 || is_of_git) {
                    let patterns = place.patterns[kind].as_ref();
                    *found = patterns.map_or(Match::None, matched);
                }
            }
            // A repository obeys nothing above it.
            is_of_git &= sources.without_git || !place.is_top;
        }
        let [ignore, git, repository] = found;
        let users = match counts {
            true => matched(users),
            false => Match::None,
        };
        ignore.or(git).or(repository).or(users)
    }
}

/// Returns the folder `info` of the repository whose top this is, if it has one, and its path.
fn repository(folder: &Folder, path: &Path) -> Option<(Option<Folder>, PathBuf)> {
    let status = |name: &str| folder.status(name.as_ref()).ok().flatten();
    let Some(found) = status(".git") else {
        return status(".jj").map(|_| (None, path.to_owned()));
    };
    let git = match found.is_folder() {
        true => path.join(".git"),
        // A linked worktree, or a submodule.
        false => {
            let named = text(folder, OsStr::new(".git")).ok().flatten();
            let named =
                named.and_then(|text| Some(text.strip_prefix("gitdir:")?.trim().to_owned()));
            let git = path.join(named.unwrap_or_default());
            let common = Folder::follow(&git).and_then(|git| text(&git, OsStr::new("commondir")));
            git.join(common.ok().flatten().unwrap_or_default().trim())
        }
    };
    let info = git.join("info");
    Some((Folder::follow(&info).ok(), info))
}

/// Returns the text of a plain file; `None` if there is none.
fn text(folder: &Folder, name: &OsStr) -> io::Result<Option<String>> {
    if folder.status(name)?.is_none() {
        return Ok(None);
    }
    let file = folder.open_file(name, OFlags::RDONLY)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

/// Returns the patterns of a text. A line that is none is as if it were not there, as git has it.
fn patterns(folder: &Path, text: &str) -> io::Result<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().map_err(io::Error::other)
}
