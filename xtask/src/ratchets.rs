//! Counts of what ties rooms together. They may only fall, and are lowered when they have.
//!
//! Each is a habit that is convenient at every single place and dear in the sum: a reader of a function that takes the whole
//! configuration knows nothing of what it depends on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};
use crate::tidy;

/// Crates of fakes and checks.
const OUTSIDE: [&str; 3] = ["xtask", "testkit", "fuzz"];

/// Something that is counted in the tokens of a file.
struct Ratchet {
    name: &'static str,
    advice: &'static str,
    limit: usize,
    count: fn(&[Token<'_>]) -> usize,
}

const RATCHETS: [Ratchet; 3] = [
    Ratchet {
        name: "conditions `cfg(feature)`",
        advice: "make what can be absent a module of its own, or a crate that `cli` adds",
        limit: 44,
        count: features,
    },
    Ratchet {
        name: "signatures with `&Config`",
        advice: "take the part that is needed: `&SandboxConfig`, `&Environment`",
        limit: 311,
        count: configs,
    },
    Ratchet {
        name: "branches on `Interface`",
        advice: "make a method of `Interface` that says what differs",
        limit: 53,
        count: interfaces,
    },
];

/// Returns each count that is above its limit, or below it.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut counts = [0; RATCHETS.len()];
    for folder in folders {
        if OUTSIDE.contains(&folder.as_str()) {
            continue;
        }
        for path in tidy::files(root, &Path::new(folder).join("src"))? {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if is_rust && !is_test(&path) {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("reading {}", path.display()))?;
                let tokens = tokens(&text);
                for (sum, ratchet) in counts.iter_mut().zip(&RATCHETS) {
                    *sum += (ratchet.count)(&tokens);
                }
            }
        }
    }
    let pairs = RATCHETS.iter().zip(counts);
    Ok(pairs.filter_map(|(it, count)| fault(it, count)).collect())
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.iter().any(|part| part == "tests")
}

fn fault(ratchet: &Ratchet, count: usize) -> Option<String> {
    let Ratchet {
        name,
        advice,
        limit,
        ..
    } = ratchet;
    if count > *limit {
        Some(format!(
            "{count} {name}, {} more than known: {advice}",
            count - limit
        ))
    } else if count < *limit {
        Some(format!(
            "xtask/src/ratchets.rs: there are {count} {name}; lower {limit}"
        ))
    } else {
        None
    }
}

/// Counts `cfg` and `cfg_attr` whose condition names a feature.
fn features(tokens: &[Token<'_>]) -> usize {
    let is_condition = |at: usize| {
        let opens = tokens.get(at + 1).is_some_and(|next| next.text == "(");
        ["cfg", "cfg_attr"].contains(&tokens[at].text)
            && opens
            && inside(tokens, at + 1)
                .iter()
                .any(|token| token.text == "feature")
    };
    (0..tokens.len()).filter(|at| is_condition(*at)).count()
}

/// Counts functions that take the whole configuration.
fn configs(tokens: &[Token<'_>]) -> usize {
    let takes = |at: usize| {
        let open = (at..tokens.len()).find(|at| tokens[*at].text == "(");
        let arguments = open.map_or(&[][..], |open| inside(tokens, open));
        (0..arguments.len()).any(|at| {
            let before = &arguments[..at];
            let is_lent = matches!(
                before,
                [.., last] | [.., last, Token { text: "'" | "mut", .. }] if last.text == "&"
            );
            arguments[at].text == "Config" && is_lent
        })
    };
    let functions = (0..tokens.len()).filter(|at| tokens[*at].text == "fn");
    functions.filter(|at| takes(*at)).count()
}

/// Counts comparisons with a variant of `Interface`, patterns of one, and choices by `pick`.
fn interfaces(tokens: &[Token<'_>]) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is_branch = |at: usize| {
        let before = (
            at.checked_sub(2).map_or("", text),
            at.checked_sub(1).map_or("", text),
        );
        match text(at) {
            "Interface" if text(at + 1) == "::" => {
                let is_compared = matches!(before, ("=" | "!", "="));
                let is_pattern = text(at + 3) == "=" && text(at + 4) == ">" || text(at + 3) == "|";
                is_compared || is_pattern
            }
            "pick" => before.1 == "." && text(at + 1) == "(",
            _ => false,
        }
    };
    (0..tokens.len()).filter(|at| is_branch(*at)).count()
}

/// Returns what is between the bracket at `open` and the one that closes it.
fn inside<'a, 'b>(tokens: &'a [Token<'b>], open: usize) -> &'a [Token<'b>] {
    let end = behind_block(tokens, open);
    tokens.get(open + 1..end - 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ties_rooms_together_is_counted() {
        for (text, expected) in [
            (
                "#[cfg(feature = \"a\")] mod a; #[cfg(unix)] mod b;",
                [1, 0, 0],
            ),
            (
                "#[cfg_attr(not(feature = \"a\"), path = \"b\")] mod a;",
                [1, 0, 0],
            ),
            ("if cfg!(feature = \"a\") { }", [0, 0, 0]),
            ("fn a(config: &Config) { b(&Config::c()) }", [0, 1, 0]),
            (
                "fn a<'b>(&self, config: &'b Config, other: &Config);",
                [0, 1, 0],
            ),
            ("fn a(config: &SandboxConfig) -> Config { }", [0, 0, 0]),
            (
                "interface == Interface::Native; a != Interface::AgentSdk",
                [0, 0, 2],
            ),
            (
                "match a { Interface::Native => 1, Interface::AgentSdk => 2 }",
                [0, 0, 2],
            ),
            (
                "interface.pick(1, 2); let a = Interface::Native;",
                [0, 0, 1],
            ),
        ] {
            let tokens = tokens(text);
            let counts = [features(&tokens), configs(&tokens), interfaces(&tokens)];
            assert_eq!(counts, expected, "{text}");
        }
    }

    #[test]
    fn a_count_is_neither_above_nor_below_its_limit() {
        for (count, expected) in [(0, true), (1, false)] {
            let ratchet = Ratchet {
                limit: 1,
                ..RATCHETS[0]
            };
            assert_eq!(fault(&ratchet, count).is_some(), expected, "{count}");
        }
        let above = Ratchet {
            limit: 1,
            ..RATCHETS[0]
        };
        assert!(fault(&above, 2).is_some());
    }
}
