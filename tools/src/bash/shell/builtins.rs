//! Builtins of the shell that change nothing but the shell which runs the line.

use std::env;

use super::word::{Spelling, Word};

/// Names in capitals that lines give to their own variables, and that no program knows.
const OWN_NAMES: [&str; 24] = [
    "BASE", "BRANCH", "COMMIT", "COUNT", "D", "DIR", "F", "FILE", "FILES", "I", "MESSAGE", "MSG",
    "N", "NAME", "OUT", "PATTERN", "ROOT", "SHA", "SRC", "TAG", "URL", "X", "Y", "Z",
];
/// Parts of names in small letters that mean something to programs.
const FOREIGN: [&str; 5] = ["_config_", "module", "path", "proxy", "shell"];

/// Whether the command is a builtin that only affects the shell: `set -e`, `exit 1`, `read -r line`, `type git`.
pub(super) fn is_harmless(words: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.text.as_deref()).collect();
    let is_literal = words.iter().all(|word| word.spelling == Spelling::Literal);
    let Some(texts) = texts.filter(|_| is_literal) else {
        return false;
    };
    let is_number =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |text: &&str| !text.is_empty() && !text.starts_with('-');
    match texts.as_slice() {
        ["exit" | "return"] => true,
        ["exit" | "return", status] => is_number(status),
        ["set", options @ ..] => !options.is_empty() && are_harmless_settings(options),
        ["type", "-a" | "-P" | "-p" | "-t", names @ ..] | ["command", "-V" | "-v", names @ ..] => {
            !names.is_empty() && names.iter().all(is_name)
        }
        ["type", names @ ..] => !names.is_empty() && names.iter().all(is_name),
        ["read", names @ ..] => {
            let names = names.strip_prefix(&["-r"]).unwrap_or(names);
            names.iter().all(|name| is_own_name(name))
        }
        _ => false,
    }
}

/// Whether the options of `set` only have the shell stop at errors, or show what it runs.
fn are_harmless_settings(options: &[&str]) -> bool {
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let Some(letters) = option.strip_prefix(['-', '+']) else {
            return false;
        };
        let plain = letters.strip_suffix('o').unwrap_or(letters);
        if letters.is_empty() || !plain.chars().all(|letter| "eux".contains(letter)) {
            return false;
        }
        let is_named = plain.len() < letters.len();
        let names = ["pipefail", "errexit", "nounset", "xtrace"];
        if is_named && !options.next().is_some_and(|name| names.contains(name)) {
            return false;
        }
    }
    true
}

/// Whether the words before `read` only say how it splits what it reads.
pub(super) fn splits_for_read(assignments: &[Word], invocation: &[Word]) -> bool {
    let is_read = invocation.first().and_then(|word| word.text.as_deref()) == Some("read");
    is_read && assignments.iter().all(|word| word.raw.starts_with("IFS="))
}

/// Whether a variable with this name is known to no shell and no program.
fn is_own_name(name: &str) -> bool {
    let is_small = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !FOREIGN.iter().any(|part| name.contains(part));
    (is_small || OWN_NAMES.contains(&name)) && env::var_os(name).is_none()
}
