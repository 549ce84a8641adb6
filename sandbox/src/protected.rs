//! Names that no confined command may write: what git, agents and editors obey.

/// What git obeys in the folder of a repository.
pub(crate) const OBEYED: [&str; 6] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "info/attributes",
];
/// What is never written in a workspace by what runs in it: it would decide, outside of the sandbox later, what agents
/// and editors do.
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
