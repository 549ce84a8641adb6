//! Builtins of the shell, and plain assignments, that change nothing but the shell which runs the line.

use std::env;

use super::word::{Spelling, Word};

/// Names in capitals that lines give to their own variables, and that no program knows.
const OWN_NAMES: [&str; 24] = [
    "BASE", "BRANCH", "COMMIT", "COUNT", "D", "DIR", "F", "FILE", "FILES", "I", "MESSAGE", "MSG",
    "N", "NAME", "OUT", "PATTERN", "ROOT", "SHA", "SRC", "TAG", "URL", "X", "Y", "Z",
];
/// Parts of names in small letters that mean something to programs.
const FOREIGN: [&str; 5] = ["_config_", "module", "path", "proxy", "shell"];

/// Whether the command is a builtin that only affects the shell: `set -x`, `read -r line`, `type -P git`.
pub(super) fn is_harmless(words: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.text.as_deref()).collect();
    let is_literal = words.iter().all(|word| word.spelling == Spelling::Literal);
    let Some(texts) = texts.filter(|_| is_literal) else {
        return false;
    };
    let is_name = |text: &&str| !text.is_empty() && !text.starts_with('-');
    match texts.as_slice() {
        ["set", options @ ..] => !options.is_empty() && are_harmless_settings(options),
        ["type", "-a" | "-P" | "-p" | "-t", names @ ..] | ["command", "-V" | "-v", names @ ..] => {
            !names.is_empty() && names.iter().all(is_name)
        }
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

/// Whether the words are only assignments to variables of the line's own.
pub(super) fn sets_own_variables(words: &[Word]) -> bool {
    let is_own = |word: &Word| {
        let name = word.raw.split_once('=').map(|(name, _)| name);
        name.is_some_and(is_own_name)
    };
    !words.is_empty() && words.iter().all(is_own)
}

/// Whether the words before `read` only say how it splits what it reads.
pub(super) fn splits_for_read(assignments: &[Word], invocation: &[Word]) -> bool {
    let is_read = invocation.first().and_then(|word| word.text.as_deref()) == Some("read");
    is_read && assignments.iter().all(|word| word.raw.starts_with("IFS="))
}

/// Whether the command shows its words, or nothing, and these are plain text and variables of the line's own.
pub(super) fn shows_variables(words: &[Word]) -> bool {
    const PROGRAMS: [&str; 8] = [
        "true", "false", "echo", "pwd", "sleep", "seq", "basename", "dirname",
    ];
    let program = words.first().and_then(|word| word.text.as_deref());
    program.is_some_and(|program| PROGRAMS.contains(&program)) && { words.iter() }
        .all(|word| word.spelling != Spelling::Complex || is_plain(&word.raw))
}

/// Whether a word, as it is written, consists of plain text, the status of the last command, and variables.
fn is_plain(raw: &str) -> bool {
    let mut rest = raw;
    let mut is_quoted = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => is_quoted = !is_quoted,
            '\'' if !is_quoted => match rest.split_once('\'') {
                Some((text, behind)) if !text.ends_with('\\') => rest = behind,
                _ => return false,
            },
            '$' => match behind_variable(rest) {
                Some(behind) => rest = behind,
                None => return false,
            },
            '`' | '\\' | '!' => return false,
            _ if is_quoted || c.is_alphanumeric() || "_-./:,@%+=".contains(c) => {}
            _ => return false,
        }
    }
    !is_quoted
}

/// Returns what follows the variable behind a dollar sign, if it may be shown: the environment may hold secrets.
fn behind_variable(rest: &str) -> Option<&str> {
    if let Some(behind) = rest.strip_prefix('?') {
        return Some(behind);
    }
    let (name, behind) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            rest.split_at(rest.find(is_end).unwrap_or(rest.len()))
        }
    };
    (matches!(name, "PWD" | "HOME" | "OLDPWD") || is_own_name(name)).then_some(behind)
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
