//! Module tree of a crate: for each module its file, items, imports, and the paths it mentions.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::iter::Peekable;
use std::slice::Iter;

use crate::source::{Token, behind_block, tokens};

/// Sources of a crate by path below its `src`, with `/` between the parts.
pub type Sources = BTreeMap<String, String>;

/// Module tree below one crate root.
#[derive(Debug)]
pub struct Modules<'a> {
    /// The root first.
    pub all: Vec<Module<'a>>,
}

/// A module with a file of its own, or one written inside its parent.
#[derive(Debug)]
pub struct Module<'a> {
    pub file: &'a str,
    pub parent: Option<usize>,
    /// Names from the root to this module.
    path: Vec<&'a str>,
    pub children: BTreeMap<&'a str, usize>,
    /// Names of the items that it declares.
    pub items: BTreeSet<&'a str>,
    pub imports: Vec<Import<'a>>,
    /// Paths of two or more segments outside `use`.
    pub paths: Vec<Path<'a>>,
    /// All names outside `use`.
    pub names: HashSet<&'a str>,
}

/// A path with the line where it is written.
#[derive(Debug, Clone)]
pub struct Path<'a> {
    pub segments: Vec<&'a str>,
    pub line: usize,
}

/// One name that a `use` brings into a module.
#[derive(Debug)]
pub struct Import<'a> {
    pub path: Path<'a>,
    /// Name in this module; `None` for a glob.
    pub name: Option<&'a str>,
    /// Whether it is a re-export (`pub use`).
    pub is_exported: bool,
}

impl<'a> Modules<'a> {
    /// Reads the modules below `root`, such as `lib.rs`. Files that no `mod` names are not part of the tree.
    pub fn read(sources: &'a Sources, root: &'a str) -> Self {
        let mut modules = Self { all: Vec::new() };
        if let Some((file, text)) = sources.get_key_value(root) {
            modules.add(sources, file, None, Vec::new(), &tokens(text));
        }
        modules
    }

    fn add(
        &mut self,
        sources: &'a Sources,
        file: &'a str,
        parent: Option<usize>,
        path: Vec<&'a str>,
        tokens: &[Token<'a>],
    ) -> usize {
        let id = self.all.len();
        self.all.push(Module {
            file,
            parent,
            path,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            paths: Vec::new(),
            names: HashSet::new(),
        });
        let mut depth = 0_usize;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let next = tokens.get(at + 1).map_or("", |token| token.text);
            let module = &mut self.all[id];
            match token.text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "mod" if depth == 0 && is_name(next) => {
                    at = self.child(sources, id, tokens, at);
                    continue;
                }
                // `use<…>` lists the captures of an `impl Trait`.
                "use" if next != "<" => {
                    at = module.import(tokens, at);
                    continue;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                    if depth == 0 =>
                {
                    let is_mutable = usize::from(next == "mut");
                    let name = tokens.get(at + 1 + is_mutable);
                    module.items.extend(name.map(|name| name.text));
                }
                "macro_rules" if depth == 0 => {
                    module
                        .items
                        .extend(tokens.get(at + 2).map(|name| name.text));
                }
                name if is_name(name) => {
                    at = module.mention(tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        id
    }

    /// Reads the module that `mod` at `at` declares; returns the index behind the declaration.
    fn child(
        &mut self,
        sources: &'a Sources,
        parent: usize,
        tokens: &[Token<'a>],
        at: usize,
    ) -> usize {
        let name = tokens[at + 1].text;
        let mut path = self.all[parent].path.clone();
        path.push(name);
        let is_inside = tokens.get(at + 2).is_some_and(|token| token.text == "{");
        let (child, end) = if is_inside {
            let end = behind_block(tokens, at + 2);
            let inside = &tokens[at + 3..end.saturating_sub(1).max(at + 3)];
            let file = self.all[parent].file;
            let child = self.add(sources, file, Some(parent), path, inside);
            (Some(child), end)
        } else {
            let below = path.join("/");
            let files = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let found = files.iter().find_map(|file| sources.get_key_value(file));
            let child = found.map(|(file, text)| {
                let tokens = crate::source::tokens(text);
                self.add(sources, file, Some(parent), path, &tokens)
            });
            (child, at + 3)
        };
        if let Some(child) = child {
            self.all[parent].children.insert(name, child);
        }
        end
    }
}

impl<'a> Module<'a> {
    /// Records the name at `at` and the path that it begins; returns the index behind it.
    fn mention(&mut self, tokens: &[Token<'a>], mut at: usize) -> usize {
        let line = tokens[at].line;
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let is_start = at == 0 || text(at - 1) != "::";
        let is_visibility = at > 0 && text(at - 1) == "in";
        let mut segments = vec![text(at)];
        at += 1;
        while text(at) == "::" && is_name(text(at + 1)) {
            segments.push(text(at + 1));
            at += 2;
        }
        self.names.insert(segments[0]);
        if is_start && !is_visibility && segments.len() > 1 {
            self.paths.push(Path { segments, line });
        }
        at
    }

    /// Reads the `use` at `at`; returns the index behind its semicolon.
    fn import(&mut self, tokens: &[Token<'a>], at: usize) -> usize {
        let end = tokens[at..].iter().position(|token| token.text == ";");
        let end = end.map_or(tokens.len(), |length| at + length);
        let before = |back: usize| at.checked_sub(back).map_or("", |index| tokens[index].text);
        let is_exported = before(1) == "pub" || before(1) == ")" && before(4) == "pub";
        let mut tokens = tokens[at + 1..end].iter().peekable();
        self.branch(&mut tokens, &[], is_exported);
        end + 1
    }

    /// Reads one branch of a `use`, up to the comma or the brace behind it.
    fn branch(
        &mut self,
        tokens: &mut Peekable<Iter<'_, Token<'a>>>,
        prefix: &[&'a str],
        is_exported: bool,
    ) {
        let mut segments = prefix.to_vec();
        let mut name = prefix.last().copied();
        let mut line = tokens.peek().map_or(0, |token| token.line);
        while let Some(token) = tokens.next_if(|token| !matches!(token.text, "," | "}")) {
            match token.text {
                "{" => {
                    while tokens.next_if(|token| token.text == "}").is_none() {
                        self.branch(tokens, &segments, is_exported);
                        tokens.next_if(|token| token.text == ",");
                    }
                    return;
                }
                "::" => {}
                "*" => name = None,
                "self" if !segments.is_empty() => {}
                "as" => {
                    name = tokens.next().map(|alias| alias.text);
                }
                segment => {
                    segments.push(segment);
                    (name, line) = (Some(segment), token.line);
                }
            }
        }
        self.imports.push(Import {
            path: Path { segments, line },
            name,
            is_exported,
        });
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|char: char| char.is_alphabetic() || char == '_')
}
