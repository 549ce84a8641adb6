//! Default methods of ports: what wraps a port and forgets one of them answers for what it wraps, and nobody notices.
//!
//! So a trait that some type implements and that is held as `dyn` has none. What only some implementations have is a value, whose
//! default is nothing (`ToolExtras`), or another port (`Mailbox`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};
use crate::tidy;

/// Crates of fakes and checks, which hold no port of the product.
const OUTSIDE: [&str; 3] = ["xtask", "testkit", "fuzz"];

/// Returns every port that has default methods.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut traits = Traits::default();
    for folder in folders {
        if OUTSIDE.contains(&folder.as_str()) {
            continue;
        }
        for path in tidy::files(root, &Path::new(folder).join("src"))? {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if is_rust && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("reading {}", path.display()))?;
                traits.read(&text);
            }
        }
    }
    Ok(traits.faults())
}

/// What is known of the traits of the workspace, by their names.
#[derive(Default)]
struct Traits {
    /// Names of the default methods of each trait that has some.
    defaults: BTreeMap<String, Vec<String>>,
    implemented: BTreeSet<String>,
    held: BTreeSet<String>,
}

impl Traits {
    fn read(&mut self, text: &str) {
        let tokens = tokens(text);
        for (at, token) in tokens.iter().enumerate() {
            match token.text {
                "trait" => self.declared(&tokens, at),
                "dyn" => self.held.extend(last_name(&tokens, at + 1)),
                "for" => self.implemented.extend(name_before(&tokens, at)),
                _ => {}
            }
        }
    }

    /// Notes the default methods of the trait whose declaration starts at `at`.
    fn declared(&mut self, tokens: &[Token<'_>], at: usize) {
        let Some(name) = tokens.get(at + 1) else {
            return;
        };
        let is_open = |token: &Token| token.text == "{";
        let Some(open) = (at..tokens.len()).find(|at| is_open(&tokens[*at])) else {
            return;
        };
        let end = behind_block(tokens, open);
        let (mut inside, mut method) = (open + 1, None);
        while inside < end {
            match tokens[inside].text {
                "fn" => method = tokens.get(inside + 1).map(|token| token.text),
                ";" => method = None,
                "(" | "[" => {
                    inside = behind_block(tokens, inside);
                    continue;
                }
                "{" => {
                    let methods = self.defaults.entry(name.text.to_owned()).or_default();
                    methods.extend(method.take().map(str::to_owned));
                    inside = behind_block(tokens, inside);
                    continue;
                }
                _ => {}
            }
            inside += 1;
        }
    }

    fn faults(&self) -> Vec<String> {
        let is_port = |name: &str| self.implemented.contains(name) && self.held.contains(name);
        let ports = self.defaults.iter();
        let ports = ports.filter(|(name, methods)| is_port(name) && !methods.is_empty());
        let fault = |(name, methods): (&String, &Vec<String>)| {
            format!(
                "the port `{name}` has the default methods {}; each type that implements it says what it does",
                methods.join(", ")
            )
        };
        ports.map(fault).collect()
    }
}

/// Returns the last name of the path that starts at `at`.
fn last_name(tokens: &[Token<'_>], mut at: usize) -> Option<String> {
    while tokens.get(at + 1).is_some_and(|next| next.text == "::") {
        at += 2;
    }
    tokens.get(at).map(|token| token.text.to_owned())
}

/// Returns the name of the trait before the `for` at `at`, without its arguments.
fn name_before(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let mut before = at.checked_sub(1)?;
    let mut depth = 0_usize;
    loop {
        match tokens[before].text {
            ">" => depth += 1,
            "<" => depth = depth.saturating_sub(1),
            name if depth == 0 => return Some(name.to_owned()),
            _ => {}
        }
        before = before.checked_sub(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the faults of a source text.
    fn faults_of(text: &str) -> Vec<String> {
        let mut traits = Traits::default();
        traits.read(text);
        traits.faults()
    }

    #[test]
    fn a_default_method_of_a_port_is_refused() {
        for (text, expected) in [
            ("trait Port: Send { fn a(&self) -> u8 { 1 } }", 0),
            (
                "trait Port { fn a(&self) { } }\nimpl Port for A { }\nstruct B(Box<dyn Port>);",
                1,
            ),
            (
                "trait Port<T> { fn a(&self, at: [u8; 2]); }\nimpl Port<u8> for A { }\ntype B = dyn a::Port<u8>;",
                0,
            ),
            (
                "trait Port<T> { fn b(&self); fn a(&self) { } }\nimpl<T> a::Port<Vec<T>> for A { }\ntype B = dyn a::Port<u8>;",
                1,
            ),
            ("trait Port { fn a(&self) { } }\nimpl Port for A { }", 0),
        ] {
            assert_eq!(faults_of(text).len(), expected, "{text}");
        }
    }
}
