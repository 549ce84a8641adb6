//! Symbolic links: which commands make some, and which follow those that they find.

use super::programs::{CHANGING, files_of, has_any, program};
use crate::bash::shell::word::Word;

/// Whether the command may make symbolic links, or move some.
pub(in crate::bash::shell) fn may_make_links(words: &[Word]) -> bool {
    const OTHERS: [&str; 3] = ["sort", "uniq", "tee"];
    const OF_GIT: [&str; 13] = [
        "cherry-pick",
        "clone",
        "merge",
        "pull",
        "read-tree",
        "rebase",
        "reset",
        "revert",
        "stash",
        "submodule",
        "switch",
        "worktree",
        "init",
    ];
    match program(words) {
        None => !words.is_empty(),
        Some("git") => has_any(words, &OF_GIT) || has_any(words, &CHANGING),
        Some(name) => files_of(name).is_none() && !OTHERS.contains(&name),
    }
}

/// Whether the command follows the links that it finds in folders: what it shows may be anywhere.
pub(in crate::bash::shell) fn follows_links(words: &[Word]) -> bool {
    let has = |letters: &[char], long: &[&str]| has_option(words, letters, long);
    match program(words) {
        Some("grep" | "egrep" | "fgrep" | "ugrep") => has(&['R', 'S'], &["--de"]),
        Some("diff") => is_recursive_diff(words) && !has(&[], &["--no-d"]),
        Some("ls" | "cp") => has(&['R', 'r', 'a'], &["--rec", "--ar"]) && has(&['L'], &["--de"]),
        Some("du") => has(&['L'], &["--de"]),
        Some("find") => has_any(words, &["-L", "-follow"]),
        Some("tree") => has(&['l'], &[]),
        Some("rg" | "ag" | "ack") => has(&['L', 'f'], &["--fo"]),
        Some("tar" | "bsdtar" | "cpio") => has(&['h', 'L'], &["--de"]),
        Some("rsync") => has(&['L', 'k'], &["--copy-"]),
        Some("zip" | "7z" | "scp") => true,
        _ => false,
    }
}

/// Whether the command compares folders with all that is below them.
pub(super) fn is_recursive_diff(words: &[Word]) -> bool {
    program(words) == Some("diff") && has_option(words, &['r'], &["--rec"])
}

/// Whether there is one of the short options, or a long one that begins so: programs take abbreviations.
fn has_option(words: &[Word], letters: &[char], long: &[&str]) -> bool {
    let mut texts = words.iter().skip(1).filter_map(|word| word.text.as_deref());
    texts.any(|text| match text.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => long.iter().any(|name| text.starts_with(name)),
        Some(rest) => rest.contains(letters),
        None => false,
    })
}
