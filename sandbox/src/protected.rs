//! Names that no confined command may write, because git would act on them outside the sandbox. Those of other programs
//! are the caller's to list.

/// Files in a git directory that control what git executes.
pub(crate) const OBEYED: [&str; 6] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "info/attributes",
];

/// Folders in a git directory with the state of an unfinished operation, which may name commands.
pub(crate) const UNFINISHED: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// Files in a repository of Mercurial, Sapling, Jujutsu, Darcs or Pijul by which these start programs, as git does by its own, or
/// which lead to another repository with such files.
pub(crate) const OF_OTHERS: [&str; 8] = [
    "_darcs/prefs/defaults",
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".hg/sharedpath",
    ".jj/repo/config.toml",
    ".pijul/config",
    ".sl/config",
    ".sl/sharedpath",
];
