//! The public names of the library `ah`, listed in `ah/public.txt`: what programs may rely on changes on purpose only.
//!
//! Names of modules, items, methods, fields and variants that are declared in `ah/src`, and those that it publishes from other
//! crates. Types are left to the compiler: a changed signature breaks the examples and the tests from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};
use crate::tidy;

/// Sources of the library, and the list of its names.
const SOURCES: &str = "ah/src";
const LIST: &str = "ah/public.txt";
/// What begins an item that has a name.
const ITEMS: [&str; 8] = [
    "const", "enum", "fn", "mod", "static", "struct", "trait", "type",
];

/// Returns the differences between the public names and the list, one line each. With `AH_WRITE_DOCS=1` the list is written.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let mut sources = Vec::new();
    for path in tidy::files(root, Path::new(SOURCES))? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("reading {}", path.display()))?;
            let inside = path.strip_prefix(SOURCES).unwrap_or(&path);
            sources.push((inside.to_owned(), text));
        }
    }
    let names = names(&sources);
    let list = root.join(LIST);
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        let lines: Vec<_> = names.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&list, lines.concat()).context("writing the public names")?;
    }
    let listed = fs::read_to_string(&list).context("reading the public names")?;
    Ok(differences(&names, &listed))
}

fn differences(names: &BTreeSet<String>, listed: &str) -> Vec<String> {
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let new = names.difference(&listed);
    let new = new.map(|name| {
        format!("`{name}` is public and not in {LIST}: make it private, or add it to the list")
    });
    let gone = listed.difference(names);
    let gone = gone.map(|name| {
        format!("`{name}` of {LIST} is gone: name the change in the changelog, and remove the line")
    });
    new.chain(gone).collect()
}

/// Returns the public names of the sources, whose paths are those below `src`.
fn names(sources: &[(PathBuf, String)]) -> BTreeSet<String> {
    let mut found = Found::default();
    for (path, text) in sources {
        found.read(path, &tokens(text));
    }
    found.names()
}

/// What is declared in the sources.
#[derive(Default)]
struct Found {
    /// Names that a module declares or publishes, by the module's path.
    declared: Vec<(String, String)>,
    /// Members by the type they belong to.
    members: BTreeSet<(String, String)>,
}

impl Found {
    fn read(&mut self, path: &Path, tokens: &[Token<'_>]) {
        let module = module(path);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token.text {
                "pub" if tokens.get(at + 1).is_some_and(|next| next.text == "(") => at += 1,
                "pub" => {
                    at = self.published(&module, tokens, at + 1);
                    continue;
                }
                "impl" => {
                    at = self.implemented(tokens, at + 1);
                    continue;
                }
                "{" => {
                    at = behind_block(tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Notes the item that follows `pub` at `at`; returns the index after its name, or after what is inside of it.
    fn published(&mut self, module: &str, tokens: &[Token<'_>], at: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        if text(at) == "use" {
            let end = (at..tokens.len()).find(|at| text(*at) == ";");
            let end = end.unwrap_or(tokens.len());
            for name in used(&tokens[at + 1..end]) {
                self.declared.push((module.to_owned(), name));
            }
            return end;
        }
        // `async fn`, `unsafe trait`.
        let Some(at) = (at..at + 3).find(|at| ITEMS.contains(&text(*at))) else {
            return at;
        };
        let (kind, name) = (text(at), text(at + 1).to_owned());
        self.declared.push((module.to_owned(), name.clone()));
        let opens = |at: &usize| ["{", ";"].contains(&text(*at));
        let Some(open) = (at..tokens.len()).find(opens) else {
            return tokens.len();
        };
        if text(open) == ";" || kind == "fn" {
            return open;
        }
        let end = behind_block(tokens, open);
        let inside = &tokens[open + 1..end.saturating_sub(1).max(open + 1)];
        for member in members(kind, inside) {
            self.members.insert((name.clone(), member));
        }
        end
    }

    /// Notes the public methods of the block that follows `impl` at `at`; returns the index after it.
    fn implemented(&mut self, tokens: &[Token<'_>], at: usize) -> usize {
        let is_open = |at: &usize| tokens[*at].text == "{";
        let Some(open) = (at..tokens.len()).find(is_open) else {
            return tokens.len();
        };
        let end = behind_block(tokens, open);
        let head = &tokens[at..open];
        if head.iter().all(|token| token.text != "for") {
            let mut depth = 0_usize;
            let name = head.iter().find(|token| {
                match token.text {
                    "<" => depth += 1,
                    ">" => depth = depth.saturating_sub(1),
                    _ => return depth == 0,
                }
                false
            });
            let name = name.map_or("", |token| token.text);
            for member in members("struct", &tokens[open + 1..end - 1]) {
                self.members.insert((name.to_owned(), member));
            }
        }
        end
    }

    /// Returns the full names of what is reachable from the root.
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut modules = vec![String::new()];
        while let Some(module) = modules.pop() {
            for (_, name) in self.declared.iter().filter(|(of, _)| *of == module) {
                let inner = format!("{module}::{name}");
                names.insert(format!("ah{inner}"));
                let of_type = self.members.iter().filter(|(of, _)| of == name);
                names.extend(of_type.map(|(_, member)| format!("ah{inner}::{member}")));
                modules.push(inner);
            }
        }
        names
    }
}

/// Returns the path of the module in this file: empty for the root, `::tool::function` for `tool/function.rs`.
fn module(path: &Path) -> String {
    let path = path.with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    match &*parts {
        [root] if root == "lib" => String::new(),
        parts => parts.iter().map(|part| format!("::{part}")).collect(),
    }
}

/// Returns the names that a `use` publishes: the last of each path, or the one behind `as`.
fn used(tokens: &[Token<'_>]) -> Vec<String> {
    let ends = |at: usize| {
        tokens
            .get(at + 1)
            .is_none_or(|next| [",", "}"].contains(&next.text))
    };
    let is_name = |text: &str| !["}", "{", ",", "::"].contains(&text);
    let last = tokens.iter().enumerate();
    last.filter(|(at, token)| is_name(token.text) && ends(*at))
        .map(|(_, token)| token.text.to_owned())
        .collect()
}

/// Returns the names of public fields and methods, or of the variants or methods of a type of this kind.
fn members(kind: &str, inside: &[Token<'_>]) -> Vec<String> {
    let text = |at: usize| inside.get(at).map_or("", |token| token.text);
    let (mut members, mut at) = (Vec::new(), 0);
    // Whether a variant's name may follow.
    let mut is_due = true;
    while at < inside.len() {
        match text(at) {
            "{" | "(" | "[" => {
                at = behind_block(inside, at);
                continue;
            }
            "," => is_due = true,
            "pub" if text(at + 1) == "(" => {}
            "pub" => {
                let name =
                    (at + 1..at + 5).find(|at| !["async", "const", "fn"].contains(&text(*at)));
                members.extend(name.map(|at| text(at).to_owned()));
            }
            "fn" if kind == "trait" => members.push(text(at + 1).to_owned()),
            "#" => {}
            name if kind == "enum" && is_due => {
                members.push(name.to_owned());
                is_due = false;
            }
            _ => {}
        }
        at += 1;
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sources: &[(&str, &str)]) -> String {
        let sources: Vec<_> = sources
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect();
        Vec::from_iter(names(&sources)).join(" ")
    }

    #[test]
    fn names_are_those_that_a_program_can_write() {
        for (text, expected) in [
            ("mod a; pub(crate) struct A; struct B;", ""),
            (
                "pub use a::{B, c::D, e as F}; pub use g;",
                "ah::B ah::D ah::F ah::g",
            ),
            (
                "pub struct A { pub b: u8, c: u8, #[d(e)] pub f: [u8; 2] } impl A { pub async fn g(self) { let h = 1; } fn i() {} }",
                "ah::A ah::A::b ah::A::f ah::A::g",
            ),
            (
                "pub struct A<T>(T); impl<T> A<T> { pub fn b() {} }",
                "ah::A ah::A::b",
            ),
            ("pub struct A; impl B for A { fn b(&self) {} }", "ah::A"),
            (
                "pub enum A { #[b] C, D(u8), E { f: u8 } } pub type G = Arc<dyn Fn(A) -> H>;",
                "ah::A ah::A::C ah::A::D ah::A::E ah::G",
            ),
            (
                "pub trait A: B { fn c(&self); fn d() { e() } }",
                "ah::A ah::A::c ah::A::d",
            ),
            ("pub async fn a() { } #[cfg(test)] pub fn b() {}", "ah::a"),
        ] {
            assert_eq!(shown(&[("lib.rs", text)]), expected, "{text}");
        }
    }

    #[test]
    fn a_module_is_public_if_its_parents_are() {
        let sources = [
            ("lib.rs", "pub mod a; mod b; pub use b::B;"),
            ("a.rs", "pub mod c; pub struct A;"),
            ("a/c.rs", "pub fn c() {}"),
            ("b.rs", "pub struct B { pub d: u8 } pub struct Hidden;"),
        ];
        assert_eq!(
            shown(&sources),
            "ah::B ah::B::d ah::a ah::a::A ah::a::c ah::a::c::c"
        );
    }

    #[test]
    fn a_name_that_is_new_or_gone_is_a_fault() {
        let names = BTreeSet::from(["ah::A".to_owned(), "ah::B".to_owned()]);
        assert_eq!(differences(&names, "ah::A\nah::B\n").len(), 0);
        assert_eq!(differences(&names, "ah::A\nah::C\n").len(), 2);
    }
}
