//! What a shell pattern stands for in the file system: a name may lead through a symbolic link, which the text of the
//! pattern does not show.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Limit for the paths that one pattern stands for, and for those on the way to them.
const MAX_HITS: usize = 1_000;
/// Limit for the names that are read from folders for one pattern.
const MAX_NAMES: usize = 20_000;
const WILD: [char; 3] = ['*', '?', '['];

/// The file system, as far as the analysis of a line needs it.
pub(crate) trait Files {
    /// Returns the path that a name in the line leads to.
    fn resolve(&self, name: &str) -> PathBuf;

    /// Returns the path behind the symbolic links of an absolute one.
    fn behind_links(&self, path: &Path) -> PathBuf;

    /// Whether the path may be that of a folder.
    fn may_be_folder(&self, path: &Path) -> bool;

    /// Returns the names in a folder, at most about `limit`: none if it is no folder, `None` if they cannot be read.
    fn names_in(&self, folder: &Path, limit: usize) -> Option<Vec<String>>;

    /// Whether git starts nothing of the choice of the repository in which the line begins while it looks at it.
    fn repository_starts_nothing(&self) -> bool;
}

/// A function that resolves names, where there are no files.
impl<F: Fn(&str) -> PathBuf> Files for F {
    fn resolve(&self, name: &str) -> PathBuf {
        self(name)
    }

    fn behind_links(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn may_be_folder(&self, _: &Path) -> bool {
        true
    }

    fn names_in(&self, _: &Path, _: usize) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn repository_starts_nothing(&self) -> bool {
        false
    }
}

/// Returns where symbolic links lead among the paths that `pattern` stands for now; `None` if it may stand for anything.
/// `links` says whether other commands of the line may make links first.
pub(super) fn behind_links(pattern: &str, files: &dyn Files, links: bool) -> Option<Vec<PathBuf>> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let Some(first) = parts.iter().position(|part| part.contains(WILD)) else {
        return Some(Vec::new());
    };
    let (literal, wild) = parts.split_at(first);
    let last = wild.iter().rposition(|part| !part.is_empty())?;
    if wild.contains(&"..") || (links && last > 0) {
        return None;
    }
    let start = match literal {
        [] => files.resolve("."),
        [""] => PathBuf::from("/"),
        _ => files.resolve(&literal.join("/")),
    };
    let mut names_left = MAX_NAMES;
    let mut paths = vec![start];
    for part in wild.iter().filter(|part| !matches!(**part, "" | ".")) {
        if !part.contains(WILD) {
            paths.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut hits = Vec::new();
        for folder in &paths {
            let mut names = files.names_in(folder, names_left)?;
            names_left = names_left.checked_sub(names.len())?;
            // Some shells take the folder and the one above for names in it.
            names.extend([".".to_owned(), "..".to_owned()]);
            let names = names.iter().filter(|name| is_match(part, name));
            hits.extend(names.map(|name| folder.join(name)));
            if hits.len() > MAX_HITS {
                return None;
            }
        }
        paths = hits;
    }
    let real = paths.iter().map(|path| (path, files.behind_links(path)));
    let led = real.filter(|(path, real)| *path != real);
    Some(led.map(|(_, real)| real).collect())
}

/// Returns where the symbolic links below the folders lead, and what is below that; `None` if there is too much to
/// look at.
pub(super) fn links_below(folders: Vec<PathBuf>, files: &dyn Files) -> Option<Vec<PathBuf>> {
    let mut names_left = MAX_NAMES;
    let mut seen: BTreeSet<PathBuf> = folders.iter().cloned().collect();
    let (mut waiting, mut led) = (folders, Vec::new());
    while let Some(folder) = waiting.pop() {
        let names = files.names_in(&folder, names_left)?;
        names_left = names_left.checked_sub(names.len())?;
        for name in names {
            let path = folder.join(name);
            let real = files.behind_links(&path);
            if real != path {
                led.extend([real.clone(), real.join("**")]);
            }
            if seen.insert(real.clone()) {
                waiting.push(real);
            }
        }
    }
    Some(led)
}

/// Whether the pattern may stand for a name in one of the folders that looks like an option.
pub(super) fn may_be_option(pattern: &str, folders: &[PathBuf], files: &dyn Files) -> bool {
    let part = pattern.split('/').next().unwrap_or_default();
    let is_option = |name: &String| name.starts_with('-') && is_match(part, name);
    part.starts_with(WILD) && { folders.iter() }.any(|folder| {
        let names = files.names_in(folder, MAX_NAMES);
        names.is_none_or(|names| names.iter().any(is_option))
    })
}

/// Whether the name may match this part of a pattern. What brackets contain differs between shells, so from the first
/// on the pattern stands for anything.
fn is_match(part: &str, name: &str) -> bool {
    // Only a dot matches a dot at the beginning; what a bracket there matches is not known.
    if name.starts_with('.') && part.starts_with(['*', '?']) {
        return false;
    }
    let (part, is_open) = match part.split_once('[') {
        Some((part, _)) => (part, true),
        None => (part, false),
    };
    let part: Vec<char> = part.chars().chain(is_open.then_some('*')).collect();
    let name: Vec<char> = name.chars().collect();
    // Element `n` tells whether the part so far can match the first `n` characters.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for wanted in part {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            let is_any = wanted == '*';
            next[at] |= is_any && (reached[at] || (at > 0 && next[at - 1]));
            if at > 0 && !is_any {
                next[at] |= reached[at - 1] && (wanted == '?' || wanted == name[at - 1]);
            }
        }
        reached = next;
    }
    reached[name.len()]
}
