//! The rule that is proposed for a command.

use super::word::Word;

/// Programs with subcommands: a rule may allow one subcommand with any further words.
const WITH_SUBCOMMANDS: [&str; 18] = [
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "docker", "podman", "kubectl", "pip", "uv",
    "gh", "make", "just", "rustup", "apt", "brew",
];

/// Returns the content of a rule that would allow the command, or its subcommand with any further words.
pub(super) fn proposal(words: &[Word], text: &str) -> String {
    let is_plain = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    match words {
        [program, subcommand, ..]
            if WITH_SUBCOMMANDS.contains(&program.raw.as_str())
                && program.is_bare()
                && subcommand.is_bare()
                && is_plain(&subcommand.raw)
                && !subcommand.raw.starts_with('-') =>
        {
            format!("{} {}:*", program.raw, subcommand.raw)
        }
        _ => text.replace('\\', "\\\\").replace('*', "\\*"),
    }
}
