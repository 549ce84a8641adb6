//! Programs by what they do with the files that they are given.

use self::Changes::{Nothing, Options, Words};
use self::Files::{Built, Changed, Listed, Shown, Unused};
use crate::bash::shell::word::Word;

/// What a program does with the files that its arguments name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// They name none.
    Unused,
    /// It shows or compares their content, and changes none.
    Shown,
    /// It shows their names and attributes, not their content.
    Listed,
    /// It changes them and shows none.
    Changed,
    /// They name targets, packages and tests rather than files.
    Built,
}

/// What decides whether a program changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bash::shell) enum Changes {
    /// It changes nothing.
    Nothing,
    /// It changes nothing, and shows its words or nothing.
    Words,
    /// Its options and operands decide.
    Options,
}

/// The programs that are known, one in a row.
const PROGRAMS: [(&str, Files, Changes); 91] = [
    ("true", Unused, Words),
    ("false", Unused, Words),
    ("echo", Unused, Words),
    ("printf", Unused, Options),
    ("pwd", Unused, Words),
    ("cd", Unused, Nothing),
    ("pushd", Unused, Options),
    ("popd", Unused, Options),
    ("sleep", Unused, Words),
    ("seq", Unused, Words),
    ("basename", Unused, Words),
    ("dirname", Unused, Words),
    ("date", Unused, Options),
    ("whoami", Unused, Nothing),
    ("uname", Unused, Nothing),
    ("which", Unused, Nothing),
    ("type", Unused, Options),
    ("kill", Unused, Options),
    ("wait", Unused, Options),
    ("export", Unused, Options),
    ("unset", Unused, Options),
    ("set", Unused, Options),
    ("exit", Unused, Options),
    ("return", Unused, Options),
    ("tr", Unused, Nothing),
    (":", Unused, Options),
    ("nproc", Unused, Nothing),
    ("cat", Shown, Nothing),
    ("head", Shown, Nothing),
    ("tail", Shown, Nothing),
    ("wc", Shown, Nothing),
    ("nl", Shown, Nothing),
    ("tac", Shown, Nothing),
    ("grep", Shown, Nothing),
    ("egrep", Shown, Nothing),
    ("fgrep", Shown, Nothing),
    ("zgrep", Shown, Options),
    ("rg", Shown, Options),
    ("ag", Shown, Options),
    ("ack", Shown, Options),
    ("cut", Shown, Nothing),
    ("diff", Shown, Nothing),
    ("cmp", Shown, Nothing),
    ("comm", Shown, Nothing),
    ("cksum", Shown, Nothing),
    ("md5sum", Shown, Nothing),
    ("sha1sum", Shown, Nothing),
    ("sha256sum", Shown, Nothing),
    ("sha512sum", Shown, Nothing),
    ("file", Shown, Options),
    ("od", Shown, Nothing),
    ("xxd", Shown, Options),
    ("hexdump", Shown, Nothing),
    ("strings", Shown, Options),
    ("base64", Shown, Options),
    ("zcat", Shown, Options),
    ("less", Shown, Options),
    ("more", Shown, Options),
    ("bat", Shown, Options),
    ("jq", Shown, Options),
    ("paste", Shown, Nothing),
    ("join", Shown, Nothing),
    ("column", Shown, Options),
    ("ls", Listed, Nothing),
    ("du", Listed, Nothing),
    ("df", Listed, Nothing),
    ("stat", Listed, Nothing),
    ("readlink", Listed, Nothing),
    ("realpath", Listed, Nothing),
    ("test", Listed, Options),
    ("[", Listed, Options),
    ("tree", Listed, Options),
    ("mkdir", Changed, Options),
    ("touch", Changed, Options),
    ("rm", Changed, Options),
    ("rmdir", Changed, Options),
    ("chmod", Changed, Options),
    ("chown", Changed, Options),
    ("find", Changed, Options),
    ("cargo", Built, Options),
    ("npm", Built, Options),
    ("pnpm", Built, Options),
    ("yarn", Built, Options),
    ("bun", Built, Options),
    ("go", Built, Options),
    ("pip", Built, Options),
    ("make", Built, Options),
    ("just", Built, Options),
    ("rustup", Built, Options),
    ("apt", Built, Options),
    ("brew", Built, Options),
];

/// Returns what a program does with the files that its arguments name, if it is known.
pub(super) fn files_of(name: &str) -> Option<Files> {
    row(name).map(|(_, files, _)| *files)
}

/// Returns what decides whether a program changes something.
pub(in crate::bash::shell) fn changes_of(name: &str) -> Changes {
    row(name).map_or(Changes::Options, |(_, _, changes)| *changes)
}

fn row(name: &str) -> Option<&'static (&'static str, Files, Changes)> {
    PROGRAMS.iter().find(|(known, _, _)| *known == name)
}

/// Programs of the table that take text from a file, with the letters and the beginnings of the options which name it.
pub(super) const FILE_OPTIONS: [(&str, &str, &[&str]); 4] = [
    ("date", "f", &["--f"]),
    (
        "git",
        "F",
        &["--file", "--pathspec-from-file", "--template"],
    ),
    ("pip", "rc", &["--req", "--con"]),
    ("uv", "rc", &["--req", "--con"]),
];
/// Subcommands of git that show the content of files in the working directory or of a commit.
pub(super) const SHOWING: [&str; 9] = [
    "grep",
    "diff",
    "show",
    "blame",
    "annotate",
    "cat-file",
    "hash-object",
    "archive",
    "apply",
];
/// Subcommands of git that change the files that they name.
pub(super) const CHANGING: [&str; 7] = ["checkout", "restore", "mv", "rm", "clean", "apply", "am"];
/// Subcommands of git that start programs which their arguments name.
pub(super) const STARTING: [&str; 7] = [
    "bisect",
    "submodule",
    "filter-branch",
    "difftool",
    "mergetool",
    "for-each-repo",
    "rebase",
];

/// Returns the name of the program, without its folder.
pub(in crate::bash::shell) fn program(words: &[Word]) -> Option<&str> {
    words.first()?.text.as_deref()?.rsplit('/').next()
}

/// Whether one of these is an argument.
pub(super) fn has_any(words: &[Word], wanted: &[&str]) -> bool {
    let mut texts = words.iter().skip(1).filter_map(|word| word.text.as_deref());
    texts.any(|text| wanted.contains(&text))
}
