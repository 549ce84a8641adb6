//! All texts that people see, crate by crate, to be read in one go: the same idea has the same word everywhere.
//!
//! A text is a string with a blank in it, unless its place shows that it is for programs or developers: SQL, logs,
//! assertions, attributes. The descriptions of the command line's options and subcommands are comments, listed as well.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::source::{Token, tokens};
use crate::tidy;
use crate::workspace::{Package, packages, root};

/// Crates that no user runs.
const INTERNAL: [&str; 3] = ["fuzz", "testkit", "xtask"];
/// The comments in it are the help of the command line.
const HELP: &str = "cli/src/args";

/// Functions, macros and attributes whose strings are not for users.
const HIDDEN: [&str; 26] = [
    "allow",
    "assert",
    "assert_eq",
    "assert_ne",
    "cfg",
    "cfg_attr",
    "debug",
    "debug_assert",
    "debug_assert_eq",
    "debug_span",
    "doc",
    "env",
    "execute",
    "execute_batch",
    "expect",
    "include_str",
    "info",
    "info_span",
    "panic",
    "prepare",
    "prepare_cached",
    "query_row",
    "serde",
    "trace",
    "unreachable",
    "value_parser",
];

/// Prints the texts of the crate in a folder, or of all crates.
pub fn words(folder: Option<&str>) -> Result<()> {
    let packages = packages()?;
    let all: Vec<_> = packages.iter().map(Package::folder).collect();
    let wanted: Vec<_> = all
        .iter()
        .filter(|name| match folder {
            Some(folder) => *name == folder,
            None => !INTERNAL.contains(&name.as_str()),
        })
        .collect();
    if wanted.is_empty() {
        bail!("no crate is in that folder; there are {}", all.join(", "));
    }
    for folder in wanted {
        for path in tidy::files(root(), &Path::new(folder).join("src"))? {
            let shown = path.to_string_lossy();
            if !shown.ends_with(".rs") || shown.ends_with("/tests.rs") || shown.contains("/tests/")
            {
                continue;
            }
            let source = fs::read_to_string(root().join(&path))
                .with_context(|| format!("reading {shown}"))?;
            for (line, text) in texts(&shown, &source) {
                println!("{shown}:{line}: {text}");
            }
        }
    }
    Ok(())
}

/// Returns the texts of a file with their lines, in order.
fn texts(path: &str, source: &str) -> Vec<(usize, String)> {
    let mut texts = strings(&tokens(source));
    if path.starts_with(HELP) {
        texts.extend(help(source));
        texts.sort();
    }
    texts
}

fn strings(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // For each open bracket, whether what is in it is hidden.
    let mut hidden = vec![false];
    for (at, token) in tokens.iter().enumerate() {
        let is_hidden = hidden.last().copied().unwrap_or_default();
        match token.text {
            "(" | "[" | "{" => {
                let is_call = token.text != "{" && HIDDEN.contains(&caller(tokens, at));
                hidden.push(is_hidden || is_call);
            }
            ")" | "]" | "}" => {
                hidden.pop();
            }
            _ if !is_hidden && is_text(token.content) => {
                found.push((token.line, unwrapped(token.content)));
            }
            _ => {}
        }
    }
    found
}

/// Returns the name in front of the bracket at `open`, of a macro as well.
fn caller<'a>(tokens: &[Token<'a>], open: usize) -> &'a str {
    let before = |count: usize| {
        let token = open.checked_sub(count).and_then(|at| tokens.get(at));
        token.map_or("", |token| token.text)
    };
    match before(1) {
        "!" => before(2),
        name => name,
    }
}

/// Whether a string is a text: it has a blank beside a word, and is not SQL.
fn is_text(content: &str) -> bool {
    const SQL: [&str; 9] = [
        "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "ALTER ", "PRAGMA ", "WITH ",
        "DROP ",
    ];
    let has_word = content
        .split(' ')
        .any(|word| word.chars().filter(|char| char.is_alphabetic()).count() > 1);
    let is_sql = SQL
        .iter()
        .any(|verb| content.trim_start().starts_with(verb));
    content.contains(' ') && has_word && !is_sql
}

/// Joins the lines of a string that is broken with backslashes.
fn unwrapped(content: &str) -> String {
    let mut lines = content.split("\\\n");
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push_str(line.trim_start());
    }
    text.replace('\n', "\\n")
}

/// Returns the comments that describe items, each joined into one line.
fn help(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut was_comment = false;
    for (index, line) in source.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("///");
        match (comment, found.last_mut()) {
            (Some(text), Some((_, last))) if was_comment => last.push_str(text),
            (Some(text), _) => found.push((index + 1, text.trim_start().to_owned())),
            (None, _) => {}
        }
        was_comment = comment.is_some();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_strings_with_words_for_people() {
        for (source, expected) in [
            (
                "fn f() { bail!(\"no file {path}\") }",
                vec!["no file {path}"],
            ),
            (
                "#[error(\"it failed: {0}\")] struct E;",
                vec!["it failed: {0}"],
            ),
            ("f(\"name\", \"a\", \" \", \", \")", vec![]),
            ("debug!(\"it did {}\", format!(\"a b cd\"))", vec![]),
            (
                "x.expect(\"it is set\"); y(\"it is seen\")",
                vec!["it is seen"],
            ),
            (
                "#[expect(dead_code, reason = \"for later\")] fn f() {}",
                vec![],
            ),
            ("sql(\"SELECT a FROM b\")", vec![]),
            ("f(\"one \\\n        two\")", vec!["one two"]),
            ("#[cfg(test)] mod tests { f(\"not this one\") }", vec![]),
        ] {
            let found = texts("agent/src/x.rs", source);
            let found: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn comments_on_the_command_line_are_help() {
        let source = "struct A {\n    /// Name of\n    /// the model\n    b: u8, // not this\n}\n";
        let expected = [(2, "Name of the model".to_owned())];
        assert_eq!(texts("cli/src/args/options.rs", source), expected);
        assert!(texts("cli/src/lib.rs", source).is_empty());
    }
}
