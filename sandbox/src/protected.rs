//! Names that no confined command may write, because git, agents or editors would act on them outside the sandbox.

/// Files in a git directory that control what git executes.
pub(crate) const OBEYED: [&str; 6] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "info/attributes",
];
/// Settings of agents and editors in a workspace.
pub(crate) const SETTINGS: [&str; 16] = [
    ".ah",
    ".agents",
    ".aider.conf.yml",
    ".claude",
    ".codex",
    ".cursor",
    ".envrc",
    ".gemini",
    ".githooks",
    ".husky",
    ".idea",
    ".mcp.json",
    ".opencode",
    ".vscode",
    ".windsurf",
    ".zed",
];
