//! Which git commands only look at a repository, by their words.
//!
//! Options are known ones: git has some that write files (`--output`), run programs (`--ext-diff`, `--textconv`, `-O`) or
//! read files elsewhere (`--no-index`). What the repository itself could start is another matter (`repository`).

use super::word::{Spelling, Word};

/// Options of all that shows changes.
const OF_DIFF: &[&str] = &[
    "-p",
    "-u",
    "-s",
    "-w",
    "-b",
    "-M",
    "-C",
    "-R",
    "-q",
    "-a",
    "-z",
    "-W",
    "-U",
    "-S",
    "-G",
    "--patch",
    "--no-patch",
    "--stat",
    "--numstat",
    "--shortstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--raw",
    "--cached",
    "--staged",
    "--color",
    "--no-color",
    "--word-diff",
    "--color-words",
    "--no-ext-diff",
    "--ignore-all-space",
    "--ignore-space-change",
    "--ignore-blank-lines",
    "--ignore-space-at-eol",
    "--unified",
    "--minimal",
    "--patience",
    "--histogram",
    "--diff-filter",
    "--find-renames",
    "--find-copies",
    "--exit-code",
    "--quiet",
    "--merge-base",
    "--check",
    "--full-index",
    "--text",
    "--compact-summary",
    "--dirstat",
    "--no-renames",
    "--function-context",
    "--no-prefix",
    "--pickaxe-all",
    "--pickaxe-regex",
];
/// Options of all that lists commits.
const OF_LOG: &[&str] = &[
    "-n",
    "-i",
    "-E",
    "-F",
    "-g",
    "--oneline",
    "--graph",
    "--all",
    "--branches",
    "--tags",
    "--remotes",
    "--decorate",
    "--no-decorate",
    "--max-count",
    "--skip",
    "--since",
    "--after",
    "--until",
    "--before",
    "--author",
    "--committer",
    "--grep",
    "--all-match",
    "--invert-grep",
    "--merges",
    "--no-merges",
    "--first-parent",
    "--reverse",
    "--date",
    "--format",
    "--pretty",
    "--abbrev-commit",
    "--no-abbrev-commit",
    "--abbrev",
    "--follow",
    "--full-history",
    "--topo-order",
    "--date-order",
    "--left-right",
    "--cherry-pick",
    "--cherry-mark",
    "--cherry",
    "--boundary",
    "--ancestry-path",
    "--source",
    "--relative-date",
    "--parents",
    "--children",
    "--count",
    "--no-walk",
    "--not",
];
const OF_STATUS: &[&str] = &[
    "-s",
    "-b",
    "-v",
    "-z",
    "-u",
    "-uno",
    "-unormal",
    "-uall",
    "-sb",
    "--short",
    "--branch",
    "--porcelain",
    "--long",
    "--verbose",
    "--untracked-files",
    "--ignored",
    "--ahead-behind",
    "--no-ahead-behind",
    "--renames",
    "--no-renames",
    "--find-renames",
    "--show-stash",
    "--column",
    "--no-column",
];
/// Options with which `git branch` and `git tag` list, whatever words follow.
const LISTING: &[&str] = &[
    "-l",
    "--list",
    "--contains",
    "--no-contains",
    "--merged",
    "--no-merged",
    "--points-at",
];
/// Further options of what lists branches and tags.
const OF_LISTS: &[&str] = &[
    "-a",
    "-r",
    "-v",
    "-vv",
    "-n",
    "-i",
    "--all",
    "--remotes",
    "--verbose",
    "--show-current",
    "--sort",
    "--format",
    "--color",
    "--no-color",
    "--column",
    "--no-column",
    "--abbrev",
    "--no-abbrev",
    "--ignore-case",
];
const OF_REVISIONS: &[&str] = &[
    "-q",
    "--quiet",
    "--verify",
    "--short",
    "--abbrev-ref",
    "--symbolic-full-name",
    "--show-toplevel",
    "--show-prefix",
    "--show-cdup",
    "--git-dir",
    "--git-common-dir",
    "--absolute-git-dir",
    "--is-inside-work-tree",
    "--is-inside-git-dir",
    "--is-bare-repository",
    "--is-shallow-repository",
    "--is-ancestor",
    "--all",
    "--branches",
    "--tags",
    "--always",
    "--dirty",
    "--long",
    "--abbrev",
    "--match",
    "--exclude",
    "--first-parent",
    "--exact-match",
    "--contains",
    "--fork-point",
    "--octopus",
    "--independent",
];
const OF_FILES: &[&str] = &[
    "-c",
    "-d",
    "-m",
    "-o",
    "-s",
    "-t",
    "-u",
    "-z",
    "--cached",
    "--deleted",
    "--modified",
    "--others",
    "--ignored",
    "--stage",
    "--unmerged",
    "--exclude-standard",
    "--full-name",
    "--error-unmatch",
    "--directory",
    "--eol",
];
const OF_BLAME: &[&str] = &[
    "-L",
    "-l",
    "-t",
    "-e",
    "-w",
    "-s",
    "-n",
    "-M",
    "-C",
    "-b",
    "-p",
    "--show-email",
    "--porcelain",
    "--line-porcelain",
    "--date",
    "--since",
    "--abbrev",
    "--root",
];

/// Returns whether a command is one of git that changes nothing, and starts nothing unless the repository has it start
/// something.
pub(super) fn only_reads(words: &[Word]) -> bool {
    let Some(texts) = texts(words) else {
        return false;
    };
    let ["git", command, arguments @ ..] = texts.as_slice() else {
        return false;
    };
    if arguments.iter().any(|word| is_elsewhere(word)) {
        return false;
    }
    match (*command, arguments) {
        ("status", _) => are_known(arguments, &[OF_STATUS]),
        ("diff", _) => are_known(arguments, &[OF_DIFF]),
        ("log" | "show" | "shortlog" | "rev-list", _) => are_known(
            arguments,
            &[OF_DIFF, OF_LOG, &["-e", "-sn", "--numbered", "--email"]],
        ),
        ("branch" | "tag", _) => lists(arguments),
        ("blame", _) => are_known(arguments, &[OF_BLAME]),
        ("ls-files", _) => are_known(arguments, &[OF_FILES]),
        ("rev-parse" | "describe" | "merge-base", _) => are_known(arguments, &[OF_REVISIONS]),
        ("cat-file", [kind, _]) => ["-p", "-t", "-s", "-e"].contains(kind),
        ("reflog" | "stash", ["show", rest @ ..]) => are_known(rest, &[OF_DIFF, OF_LOG]),
        ("stash" | "worktree", ["list"]) | ("reflog" | "remote", []) | ("remote", ["-v"]) => true,
        _ => false,
    }
}

/// Returns the words, if each means itself: `HEAD~1` does, but a pattern may stand for an option.
fn texts(words: &[Word]) -> Option<Vec<&str>> {
    let is_itself = |word: &Word| match word.spelling {
        Spelling::Literal => true,
        Spelling::Pattern => !word.raw.starts_with('~') && !word.raw.contains(['*', '?', '[']),
        Spelling::Complex => false,
    };
    let texts = words.iter().map(|word| match is_itself(word) {
        true => word.text.as_deref().or(Some(word.raw.as_str())),
        false => None,
    });
    texts.collect()
}

/// Whether a word may name a file outside of the working directory.
fn is_elsewhere(word: &str) -> bool {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    [word, value]
        .into_iter()
        .any(|path| path.starts_with(['/', '~', ':']) || path.split('/').any(|part| part == ".."))
}

/// Whether all options are among those listed; behind `--` there are files.
fn are_known(arguments: &[&str], lists: &[&[&str]]) -> bool {
    let mut options = arguments
        .iter()
        .take_while(|word| **word != "--")
        .filter(|word| word.starts_with('-'));
    options.all(|word| is_known(word, lists))
}

fn is_known(word: &str, lists: &[&[&str]]) -> bool {
    let is_listed = |name: &str| lists.iter().any(|list| list.contains(&name));
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let digits = word.trim_start_matches('-');
    if !digits.is_empty()
        && word.len() == digits.len() + 1
        && digits.bytes().all(|c| c.is_ascii_digit())
    {
        return is_listed("-n");
    }
    // `-n5`, `-Sword`, `-U3`: a letter with its value.
    let has_value = ["-n", "-S", "-G", "-U", "-M", "-C", "-L"]
        .into_iter()
        .any(|letter| word.starts_with(letter) && is_listed(letter));
    is_listed(name) || has_value
}

/// Whether `git branch` or `git tag` lists; a word alone would be made.
fn lists(arguments: &[&str]) -> bool {
    let has_words = arguments.iter().any(|word| !word.starts_with('-'));
    let is_listing = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        LISTING.contains(&name)
    };
    are_known(arguments, &[LISTING, OF_LISTS])
        && !arguments.contains(&"--")
        && (!has_words || arguments.iter().any(is_listing))
}
