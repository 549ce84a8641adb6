//! What an unfinished rebase, cherry-pick or revert will run when it is continued: commands in its list of steps, and
//! the program of a merge strategy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::config::{LONGEST, parse};
use crate::listing::is_absent;
use crate::protected::UNFINISHED;

/// Steps that run nothing.
const STEPS: [&str; 25] = [
    "",
    "pick",
    "p",
    "reword",
    "r",
    "edit",
    "e",
    "squash",
    "s",
    "fixup",
    "f",
    "break",
    "b",
    "label",
    "l",
    "reset",
    "t",
    "merge",
    "m",
    "noop",
    "drop",
    "d",
    "update-ref",
    "u",
    "revert",
];
/// Strategies that are part of git; another name starts a program of that name.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// What continuing an operation would run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pending {
    /// Folder of the operation's state.
    pub folder: PathBuf,
    pub what: Vec<u8>,
}

/// Returns what the unfinished operations in a git directory would run.
pub(crate) fn pending(git: &Path) -> BTreeSet<Pending> {
    let mut found = BTreeSet::new();
    for folder in UNFINISHED.map(|name| git.join(name)) {
        let Ok(metadata) = fs::symlink_metadata(&folder) else {
            continue;
        };
        let mut add = |what: &[u8]| {
            found.insert(Pending {
                folder: folder.clone(),
                what: what.to_owned(),
            });
        };
        if !metadata.is_dir() {
            add(b"not a folder");
            continue;
        }
        for list in ["git-rebase-todo", "todo"] {
            match text(&folder.join(list)) {
                Ok(text) => commands(&text).for_each(&mut add),
                Err(NotPlain) => add(b"not a plain file"),
            }
        }
        match text(&folder.join("strategy")) {
            Ok(text) if is_strategy(&text) || text.is_empty() => {}
            Ok(text) => add(&text),
            Err(NotPlain) => add(b"not a plain file"),
        }
        match text(&folder.join("opts")).map(|text| parse(&text)) {
            Ok(Some(options)) => options
                .iter()
                .filter(|option| option.name == "strategy")
                .map(|option| option.value.as_slice())
                .filter(|value| !is_strategy(value))
                .for_each(&mut add),
            Ok(None) | Err(NotPlain) => add(b"options that are not understood"),
        }
    }
    found
}

/// A file that is a link, a pipe or too large, or that cannot be looked at.
struct NotPlain;

/// Reads a file; one that does not exist is empty.
fn text(path: &Path) -> Result<Vec<u8>, NotPlain> {
    match fs::symlink_metadata(path) {
        Err(_) if is_absent(path) => Ok(Vec::new()),
        Ok(metadata) if metadata.is_file() && metadata.len() <= LONGEST => {
            fs::read(path).map_err(|_| NotPlain)
        }
        _ => Err(NotPlain),
    }
}

/// Returns the lines of a list of steps that are no steps of git's own.
fn commands(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| {
        let line = line.trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(b"");
        let is_comment = word.starts_with(b"#");
        !is_comment && !STEPS.iter().any(|step| step.as_bytes() == word)
    })
}

fn is_strategy(name: &[u8]) -> bool {
    let name = name.trim_ascii();
    STRATEGIES.iter().any(|known| known.as_bytes() == name)
}
