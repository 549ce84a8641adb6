//! Programs by what they do with the files that they are given.

use crate::bash::shell::word::Word;

/// Programs that use no files which their arguments name.
pub(super) const WITHOUT_FILES: [&str; 26] = [
    "true", "false", "echo", "printf", "pwd", "cd", "pushd", "popd", "sleep", "seq", "basename",
    "dirname", "date", "whoami", "uname", "which", "type", "kill", "wait", "export", "unset",
    "set", "exit", "return", "tr", ":",
];
/// Programs that show or compare the content of files and change none.
pub(super) const READERS: [&str; 36] = [
    "cat",
    "head",
    "tail",
    "wc",
    "nl",
    "tac",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "rg",
    "ag",
    "ack",
    "cut",
    "diff",
    "cmp",
    "comm",
    "cksum",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "file",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "base64",
    "zcat",
    "less",
    "more",
    "bat",
    "jq",
    "paste",
    "join",
    "column",
];
/// Programs that show names and attributes of files, not their content.
pub(super) const LISTERS: [&str; 9] = [
    "ls", "du", "df", "stat", "readlink", "realpath", "test", "[", "tree",
];
/// Programs that change files and show none.
pub(super) const CHANGERS: [&str; 7] = ["mkdir", "touch", "rm", "rmdir", "chmod", "chown", "find"];
/// Programs whose arguments name targets, packages and tests rather than files.
pub(super) const BUILDERS: [&str; 12] = [
    "cargo", "npm", "pnpm", "yarn", "bun", "go", "pip", "make", "just", "rustup", "apt", "brew",
];
/// Programs of the lists that take text from a file, with the letters and the beginnings of the options which name it.
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
