//! Permission modes in words.

use ah_conversation::PermissionMode;

/// Returns a permission mode as people read it.
pub fn mode(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Sandboxed => "sandboxed",
        PermissionMode::Default => "ask before each action",
        PermissionMode::AcceptEdits => "accept edits",
        PermissionMode::Plan => "plan (read-only)",
        PermissionMode::DontAsk => "don't ask",
        PermissionMode::BypassPermissions => "bypass permissions",
        PermissionMode::Delegate => "delegate only",
    }
}
