//! Variables of a line's own: setting and showing them changes nothing but the shell that runs the line.

use std::env;

use super::effect::{Changes, changes_of};
use super::word::{Spelling, Word};

/// Names in capitals that lines give to their own variables, and that no program knows.
const OWN_NAMES: [&str; 24] = [
    "BASE", "BRANCH", "COMMIT", "COUNT", "D", "DIR", "F", "FILE", "FILES", "I", "MESSAGE", "MSG",
    "N", "NAME", "OUT", "PATTERN", "ROOT", "SHA", "SRC", "TAG", "URL", "X", "Y", "Z",
];
/// Parts of names in small letters that mean something to programs.
const FOREIGN: [&str; 5] = ["_config_", "module", "path", "proxy", "shell"];

/// Variables that programs know, and that only change what they show, or how.
const OF_SHOWING: [&str; 21] = [
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Whether the words before a program are settings that do not change what it does: `RUST_BACKTRACE=1`. In some, a path
/// would name a file to read.
pub(super) fn are_harmless_settings(assignments: &[Word]) -> bool {
    assignments.iter().all(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-,:=@+".contains(c);
        { word.text.as_deref() }
            .and_then(|text| text.split_once('='))
            .is_some_and(|(name, value)| {
                OF_SHOWING.contains(&name) && value.chars().all(is_plain) && !value.contains("..")
            })
    })
}

/// Whether the command is a `read` into variables of the line's own.
pub(super) fn reads_own_variables(words: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.text.as_deref()).collect();
    let is_literal = words.iter().all(|word| word.spelling == Spelling::Literal);
    let Some(["read", names @ ..]) = texts.as_deref().filter(|_| is_literal) else {
        return false;
    };
    let names = names.strip_prefix(&["-r"]).unwrap_or(names);
    names.iter().all(|name| is_own_name(name))
}

/// Whether the words are only assignments to variables of the line's own.
pub(super) fn sets_own_variables(words: &[Word]) -> bool {
    let is_own = |word: &Word| {
        let name = word.raw.split_once('=').map(|(name, _)| name);
        name.is_some_and(is_own_name) && !word.holds_expression()
    };
    !words.is_empty() && words.iter().all(is_own)
}

/// Whether a variable with this name means something to a shell or a program, beyond what it shows.
pub(super) fn may_mean_something(name: &str) -> bool {
    !is_own_name(name) && !OF_SHOWING.contains(&name)
}

/// Whether the words before `read` only say how it splits what it reads.
pub(super) fn splits_for_read(assignments: &[Word], invocation: &[Word]) -> bool {
    let is_read = invocation.first().and_then(|word| word.text.as_deref()) == Some("read");
    is_read && assignments.iter().all(|word| word.raw.starts_with("IFS="))
}

/// Whether the command shows its words, or nothing, and these are plain text and variables of the line's own.
pub(super) fn shows_variables(words: &[Word]) -> bool {
    let program = words.first().and_then(|word| word.text.as_deref());
    program.is_some_and(|program| changes_of(program) == Changes::Words) && { words.iter() }
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
