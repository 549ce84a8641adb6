//! The one door to files whose names come from data: modules that touch such files do it with `ah_beneath`, which follows no link
//! and leaves no folder. `std::fs` takes whatever a path leads to at that moment.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};

/// The modules, each with where its names come from.
const MODULES: [(&str, &str); 4] = [
    ("agent/src/checkpoint/edit.rs", "file steps of a session"),
    ("agent/src/checkpoint/rewind.rs", "file steps of a session"),
    ("agent/src/checkpoint/state.rs", "file steps of a session"),
    ("store/src/sqlite/files.rs", "rows of a session"),
];

/// Crates with a module `fs` that takes paths.
const LIBRARIES: [&str; 2] = ["std", "tokio"];

/// Returns every place in these modules that takes a path by itself, one line each.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (path, names) in MODULES {
        let text =
            fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
        faults.extend(faults_of(path, names, &text));
    }
    Ok(faults)
}

fn faults_of(path: &str, names: &str, text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let places = (0..tokens.len()).filter(|at| names_files(&tokens, *at));
    places
        .map(|at| {
            let line = tokens[at].line;
            format!(
                "{path}: line {line}: `{}::fs` follows links out of a folder, and names here come from the {names}; use `ah_beneath`",
                tokens[at].text
            )
        })
        .collect()
}

/// Returns whether the tokens at `at` name a module `fs`, alone or in a list.
fn names_files(tokens: &[Token<'_>], at: usize) -> bool {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    if !LIBRARIES.contains(&text(at)) || text(at + 1) != "::" {
        return false;
    }
    match text(at + 2) {
        "fs" => true,
        "{" => {
            let list = &tokens[at + 2..behind_block(tokens, at + 2)];
            list.iter().any(|token| token.text == "fs")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_for_files_is_refused_and_others_are_not() {
        for (text, expected) in [
            ("use std::fs;", 1),
            ("use std::fs::{self, File};", 1),
            ("use std::{fs, io};", 1),
            ("use std::{io, path::Path, fs::File};", 1),
            ("fn f() { std::fs::remove_file(path); }", 1),
            ("async fn f() { tokio::fs::read(path).await; }", 1),
            ("use std::io; use rustix::fs::OFlags;", 0),
            ("// std::fs\nfn f() { \"std::fs\"; }", 0),
            ("#[cfg(test)]\nmod tests { use std::fs; }", 0),
        ] {
            assert_eq!(faults_of("x.rs", "rows", text).len(), expected, "{text}");
        }
    }
}
