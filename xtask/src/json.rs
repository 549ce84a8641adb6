//! JSON, which goes through one module, `conversation/src/json.rs`. `serde_json` refuses a whole text in which another program
//! has written half of a character, and keeps the half in a part that is not parsed: there it is replaced first. And it writes
//! characters that end a line for some readers: there they are escaped.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};
use crate::tidy;

/// Folders of the crates whose JSON is not from outside: that of cargo, and that of tests.
const APART: [&str; 3] = ["xtask", "testkit", "fuzz"];

/// Files that may call the parsers, and folders (with `/` at the end), each with its reason.
const ALLOWED: [(&str, &str); 3] = [
    ("conversation/src/json.rs", "the module itself"),
    (
        "provider/src/upstream.rs",
        "the JSON at the beginning of a text, which is made whole first",
    ),
    (
        "sandbox/src/",
        "messages between our own processes, in a crate that uses none of ours",
    ),
];

/// Parsers of `serde_json`. `from_value` is none: a value has no halves.
const PARSERS: [&str; 5] = [
    "from_str",
    "from_slice",
    "from_reader",
    "Deserializer",
    "StreamDeserializer",
];

/// Folders of the crates whose JSON other programs read line by line.
const SPEAKERS: [&str; 7] = [
    "acp/",
    "cli/",
    "mcp/",
    "mcp-server/",
    "protocol/",
    "serve/",
    "terminal/",
];

/// Functions of `serde_json` that write in one line.
const WRITERS: [&str; 3] = ["to_string", "to_vec", "to_writer"];

/// Returns every place that parses or writes JSON and may not, one line each.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in folders {
        if APART.contains(&folder.as_str()) {
            continue;
        }
        for path in tidy::files(root, &Path::new(folder).join("src"))? {
            let shown = path.to_string_lossy();
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let is_test = shown.ends_with("/tests.rs") || shown.contains("/tests/");
            if is_rust && !is_test {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("reading {shown}"))?;
                faults.extend(faults_of(&shown, &text));
            }
        }
    }
    let unneeded = ALLOWED.iter().filter(|(path, _)| !root.join(path).exists());
    faults.extend(unneeded.map(|(path, _)| {
        format!("xtask/src/json.rs: there is no `{path}`; remove it from the list")
    }));
    Ok(faults)
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let is_allowed = ALLOWED
        .iter()
        .any(|(allowed, _)| match allowed.ends_with('/') {
            true => path.starts_with(allowed),
            false => path == *allowed,
        });
    // Most files have neither word and need no scan.
    if is_allowed
        || !["serde_json", ".json"]
            .iter()
            .any(|word| text.contains(word))
    {
        return Vec::new();
    }
    let tokens = tokens(text);
    let speaks = SPEAKERS.iter().any(|folder| path.starts_with(folder));
    let places = (0..tokens.len()).filter_map(|at| {
        let line = tokens[at].line;
        if let Some(what) = parsing(&tokens, at) {
            return Some(format!(
                "{path}: line {line}: `{what}` refuses a text with half of a character; use `ah_conversation::json`"
            ));
        }
        let what = named(&tokens, at, &WRITERS).filter(|_| speaks)?;
        Some(format!(
            "{path}: line {line}: `{what}` writes what is a line end to some readers; use `ah_conversation::json::line`"
        ))
    });
    places.collect()
}

/// Returns the parser at `at`: one of `serde_json`, called or imported, or the one of an HTTP response.
fn parsing<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let texts = |length: usize| (at..at + length).map(text);
    let is_answer = texts(6).eq([".", "json", "(", ")", ".", "await"]);
    if is_answer || texts(3).eq([".", "json", "::"]) {
        return Some(text(at + 1));
    }
    named(tokens, at, &PARSERS)
}

/// Returns the one of `functions` of `serde_json` that is called or imported at `at`.
fn named<'a>(tokens: &[Token<'a>], at: usize, functions: &[&str]) -> Option<&'a str> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    if [text(at), text(at + 1)] != ["serde_json", "::"] {
        return None;
    }
    let named = match text(at + 2) {
        "{" => &tokens[at + 2..behind_block(tokens, at + 2)],
        _ => tokens.get(at + 2..at + 3)?,
    };
    let mut named = named.iter().map(|token| token.text);
    named.find(|name| functions.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsers_that_refuse_halves_of_characters_are_refused() {
        for (text, expected) in [
            ("fn f() { serde_json::from_str::<Value>(text); }", 1),
            ("fn f() { ::serde_json::from_slice(bytes); }", 1),
            ("use serde_json::{Map, from_reader as read};", 1),
            ("fn f() { serde_json::Deserializer::from_str(text); }", 1),
            ("async fn f() { response.json().await; }", 1),
            ("async fn f() { response.json::<Value>().await; }", 1),
            ("fn f() { json::from_str::<Value>(text); }", 0),
            ("fn f() { serde_json::from_value::<T>(value); }", 0),
            (
                "use serde_json::{Map, Value}; fn f() { toml::from_str(text); }",
                0,
            ),
            (
                "fn f() { request.json(body).send(); serde_json::to_string(a); }",
                0,
            ),
            (
                "#[cfg(test)]\nmod tests { fn f() { serde_json::from_str(a); } }",
                0,
            ),
        ] {
            assert_eq!(faults_of("agent/src/x.rs", text).len(), expected, "{text}");
            assert_eq!(faults_of("sandbox/src/x.rs", text).len(), 0, "{text}");
        }
    }

    #[test]
    fn lines_of_json_are_written_in_one_place() {
        for (path, text, expected) in [
            ("acp/src/x.rs", "fn f() { serde_json::to_string(&v); }", 1),
            ("mcp/src/x.rs", "use serde_json::{Value, to_vec};", 1),
            (
                "acp/src/x.rs",
                "fn f() { serde_json::to_string_pretty(&v); }",
                0,
            ),
            ("acp/src/x.rs", "fn f() { json::line(&v); }", 0),
            ("store/src/x.rs", "fn f() { serde_json::to_string(&v); }", 0),
        ] {
            assert_eq!(faults_of(path, text).len(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn a_line_says_where_and_what_to_do() {
        assert_eq!(
            faults_of("agent/src/x.rs", "\nfn f() { serde_json::from_str(text); }"),
            [
                "agent/src/x.rs: line 2: `from_str` refuses a text with half of a character; use `ah_conversation::json`"
            ]
        );
    }
}
