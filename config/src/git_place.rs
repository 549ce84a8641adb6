//! Variables by which a hook of git names its repository: which of them are needed for work in it.
//!
//! Git sets `GIT_DIR`, `GIT_INDEX_FILE` and others for its hooks, and every git below obeys them wherever it runs. Nearly
//! always they name what git finds from the working directory anyway. What remains is the index of a commit in progress, and
//! a repository without a place in its work tree.

use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use ah_git::git_directory;

use crate::layout::real;

/// Returns the variables that name parts of the repository of the working directory which git would not find from there.
/// Those that name another repository are none of them.
pub(crate) fn of(environment: &Environment) -> Vec<(String, String)> {
    let given: Vec<_> = environment
        .all()
        .filter(|(name, value)| Environment::is_git_place(name) && !value.is_empty())
        .collect();
    if given.is_empty() {
        return Vec::new();
    }
    let found = Found::from(environment.cwd());
    let kept = match (environment.get("GIT_DIR"), &found) {
        (Some(named), found) => {
            let named = real(&environment.cwd().join(named));
            match found {
                Some(found) if found.git == named => needed(&given, found),
                _ if works_in(environment, &named) => return owned(&given),
                _ => Vec::new(),
            }
        }
        (None, Some(found)) => needed(&given, found),
        (None, None) => Vec::new(),
    };
    owned(&kept)
}

/// The repository that git finds from a folder.
struct Found {
    /// Top of the work tree.
    top: PathBuf,
    /// Git's own folder of the work tree.
    git: PathBuf,
}

impl Found {
    fn from(folder: &Path) -> Option<Self> {
        let top = folder.ancestors().find(|it| it.join(".git").exists())?;
        Some(Self {
            top: top.to_owned(),
            git: real(&git_directory(&top.join(".git"))?),
        })
    }
}

/// Returns the index that is none of git's own choice, if it is in that folder.
fn needed<'a>(given: &[(&'a str, &'a str)], found: &Found) -> Vec<(&'a str, &'a str)> {
    let is_needed = |(name, value): &&(&str, &str)| {
        let file = found.top.join(value);
        let folder = file.parent().map(real);
        *name == "GIT_INDEX_FILE"
            && folder.as_ref() == Some(&found.git)
            && file.file_name().is_some_and(|name| name != "index")
    };
    given.iter().filter(is_needed).copied().collect()
}

/// Whether the working directory is in the named repository: in the work tree that is named with it, or in the repository
/// itself, as hooks of a server are.
fn works_in(environment: &Environment, named: &Path) -> bool {
    let cwd = real(environment.cwd());
    match environment.get("GIT_WORK_TREE") {
        Some(tree) => cwd.starts_with(real(&environment.cwd().join(tree))),
        None => cwd.starts_with(named),
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_git_would_not_find_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let at = |path: &str| root.join(path);
        for folder in [
            "main/.git/worktrees/side",
            "main/sub",
            "bare",
            "home/dots",
            "else",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::create_dir_all(at("side")).unwrap();
        let link = format!("gitdir: {}\n", at("main/.git/worktrees/side").display());
        fs::write(at("side/.git"), link).unwrap();
        for (cwd, given, expected) in [
            ("main", "GIT_INDEX_FILE=.git/index GIT_PREFIX=sub/", ""),
            ("main/sub", "GIT_DIR=../.git GIT_INDEX_FILE=.git/index", ""),
            ("main", "GIT_DIR=.git GIT_INDEX_FILE=/main/.git/index", ""),
            (
                "main/sub",
                "GIT_INDEX_FILE=/main/.git/next-index-7.lock",
                "GIT_INDEX_FILE=/main/.git/next-index-7.lock",
            ),
            (
                "main",
                "GIT_INDEX_FILE=.git/index.lock",
                "GIT_INDEX_FILE=.git/index.lock",
            ),
            ("side", "GIT_INDEX_FILE=.git/index", ""),
            ("side", "GIT_INDEX_FILE=/main/.git/index.lock", ""),
            (
                "side",
                "GIT_DIR=/main/.git GIT_INDEX_FILE=/main/.git/index.lock",
                "",
            ),
            (
                "side",
                "GIT_DIR=/main/.git/worktrees/side GIT_INDEX_FILE=/main/.git/worktrees/side/index",
                "",
            ),
            (
                "main",
                "GIT_DIR=/main/.git/worktrees/side GIT_INDEX_FILE=/main/.git/worktrees/side/index.lock",
                "",
            ),
            ("else", "GIT_DIR=/main/.git GIT_WORK_TREE=/main", ""),
            ("else", "GIT_INDEX_FILE=/main/.git/index.lock", ""),
            (
                "bare",
                "GIT_DIR=. GIT_OBJECT_DIRECTORY=./in",
                "GIT_DIR=. GIT_OBJECT_DIRECTORY=./in",
            ),
            (
                "home",
                "GIT_DIR=/home/dots GIT_WORK_TREE=/home",
                "GIT_DIR=/home/dots GIT_WORK_TREE=/home",
            ),
            ("home", "GIT_DIR=", ""),
        ] {
            let placed = |text: &str| text.replace("=/", &format!("={}/", root.display()));
            let given = placed(given);
            let pairs = given.split_whitespace().map(|pair| {
                let (name, value) = pair.split_once('=').unwrap();
                (name.to_owned(), value.to_owned())
            });
            let found = of(&Environment::new(pairs, at(cwd)));
            let found: Vec<_> = found
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            assert_eq!(found.join(" "), placed(expected), "{cwd}: {given}");
        }
    }
}
