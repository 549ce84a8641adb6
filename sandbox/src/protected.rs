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

/// Files at the top of a workspace by which Mercurial, Sapling and Jujutsu start programs, as git does by its own.
pub(crate) const OF_OTHERS: [&str; 3] = [".hg/hgrc", ".sl/config", ".jj/repo/config.toml"];
