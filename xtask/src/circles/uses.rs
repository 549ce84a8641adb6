//! Uses between the files of a crate: every import and every path is followed to the file that defines the item, through
//! re-exports of other modules.

use std::collections::BTreeMap;

use super::modules::{Module, Modules};

/// One use of an item of another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use<'a> {
    pub item: &'a str,
    pub line: usize,
}

/// The first use of each pair of files, `(user, used)`.
pub type Uses<'a> = BTreeMap<(&'a str, &'a str), Use<'a>>;

/// Target of a path.
#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    Module(usize),
    /// An item, and the file that defines it.
    Item(&'a str, &'a str),
}

/// Upper limit of re-exports followed for one path, since globs may form a loop.
const MOST_STEPS: usize = 16;

/// Returns the uses between the files of a crate.
///
/// The declaration of a child module is not a use of it, nor is a re-export whose name the file itself does not use.
pub fn uses<'a>(modules: &Modules<'a>) -> Uses<'a> {
    let mut uses = Uses::new();
    for (id, module) in modules.all.iter().enumerate() {
        let mut add = |target: Option<Target<'a>>, line: usize| {
            if let Some(Target::Item(file, item)) = target
                && file != module.file
            {
                let pair = uses.entry((module.file, file));
                pair.or_insert(Use { item, line });
            }
        };
        for import in &module.imports {
            let line = import.path.line;
            let target = modules.resolve(id, &import.path.segments, false, 0);
            match (import.name, target) {
                (None, Some(Target::Module(other))) if !import.is_exported => {
                    for name in &module.names {
                        add(modules.find(other, name, false, 0), line);
                    }
                }
                (Some(name), _) if !import.is_exported || module.names.contains(name) => {
                    add(target, line);
                }
                _ => {}
            }
        }
        for path in &module.paths {
            add(modules.resolve(id, &path.segments, false, 0), path.line);
        }
    }
    uses
}

impl<'a> Modules<'a> {
    /// Follows a path from a module. `None` if it leads out of the crate.
    fn resolve(
        &self,
        module: usize,
        path: &[&'a str],
        wants_module: bool,
        step: usize,
    ) -> Option<Target<'a>> {
        let (first, mut rest) = path.split_first()?;
        let mut target = match *first {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.all[module].parent?),
            name => self.find(module, name, wants_module || !rest.is_empty(), step)?,
        };
        while let Target::Module(id) = target
            && let Some((name, behind)) = rest.split_first()
        {
            rest = behind;
            let module: &Module = &self.all[id];
            target = if *name == "super" {
                Target::Module(module.parent?)
            } else {
                let wants_module = wants_module || !rest.is_empty();
                // A macro may have generated it.
                self.find(id, name, wants_module, step)
                    .unwrap_or(Target::Item(module.file, name))
            };
        }
        Some(target)
    }

    /// Looks up a name in a module. Modules and other items have separate namespaces, so there may be one of each.
    fn find(
        &self,
        id: usize,
        name: &'a str,
        wants_module: bool,
        step: usize,
    ) -> Option<Target<'a>> {
        if step > MOST_STEPS {
            return None;
        }
        let module = &self.all[id];
        let child = module
            .children
            .get(name)
            .map(|child| Target::Module(*child));
        let item = module
            .items
            .get(name)
            .map(|name| Target::Item(module.file, name));
        let own = if wants_module { child.or(item) } else { item };
        let imported = || {
            let mut named = module.imports.iter().filter(|it| it.name == Some(name));
            named.find_map(|it| self.resolve(id, &it.path.segments, wants_module, step + 1))
        };
        let globbed = || {
            let mut globs = module.imports.iter().filter(|it| it.name.is_none());
            globs.find_map(
                |it| match self.resolve(id, &it.path.segments, true, step + 1)? {
                    Target::Module(other) if other != id => {
                        self.find(other, name, wants_module, step + 1)
                    }
                    _ => None,
                },
            )
        };
        own.or_else(imported).or(child).or_else(globbed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules::Sources;
    use super::*;

    /// Formats the uses, one per line.
    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Sources = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        uses(&Modules::read(&sources, "lib.rs"))
            .iter()
            .map(|((from, to), it)| format!("{from}:{} {} of {to}", it.line, it.item))
            .collect()
    }

    #[test]
    fn imports_and_paths_lead_to_the_file_that_defines_the_item() {
        let uses = shown(&[
            (
                "lib.rs",
                "mod a;\nmod b;\npub use a::deep::Thing;\npub struct Root;",
            ),
            (
                "a.rs",
                "pub mod deep;\nuse self::deep::{Thing as It, other};\npub use deep::*;",
            ),
            (
                "a/deep.rs",
                "pub struct Thing;\npub fn other() { super::super::b::run() }",
            ),
            (
                "b.rs",
                "use crate::{Root, Thing};\nuse super::a;\npub fn run() {\n  a::other();\n}",
            ),
        ]);
        assert_eq!(
            uses,
            [
                "a.rs:2 Thing of a/deep.rs",
                "a/deep.rs:2 run of b.rs",
                "b.rs:1 Thing of a/deep.rs",
                "b.rs:1 Root of lib.rs",
            ]
        );
    }

    #[test]
    fn tests_declarations_and_re_exports_are_no_uses() {
        let uses = shown(&[
            (
                "lib.rs",
                "mod a;\nmod b { pub use super::a::X; }\npub(crate) use a::{X, Y};\ntype Z = Y;",
            ),
            (
                "a.rs",
                "pub struct X;\npub struct Y;\n#[cfg(test)]\nmod tests { use crate::Z; }\n// crate::Z\n",
            ),
        ]);
        assert_eq!(uses, ["lib.rs:3 Y of a.rs"]);
    }

    #[test]
    fn a_function_may_have_the_name_of_its_module() {
        let uses = shown(&[
            ("lib.rs", "mod serve;\nmod user;\npub use serve::serve;"),
            ("serve.rs", "pub fn serve() {}\npub struct Served;"),
            (
                "user.rs",
                "use super::serve;\nuse crate::serve::Served;\nfn f() { serve(); vec![super::serve::Served] }",
            ),
        ]);
        assert_eq!(uses, ["user.rs:1 serve of serve.rs"]);
    }

    #[test]
    fn external_paths_and_loops_of_globs_are_ignored() {
        let uses = shown(&[
            (
                "lib.rs",
                "mod a;\nuse std::io::{self, Read};\nuse a::*;\nfn f() { io::x(); serde::y(); g::h() }",
            ),
            ("a.rs", "use super::*;\nfn i() { g::h() }"),
        ]);
        assert!(uses.is_empty(), "{uses:?}");
    }
}
