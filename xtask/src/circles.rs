//! Files of a crate that use each other in a circle, so that none can be understood, moved or tested without the others.
//!
//! Items that both sides need belong in a file of their own. Circles that stay are listed in `circles/allowed.rs`, each with
//! its reason.

mod allowed;
mod components;
mod modules;
mod uses;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use self::allowed::{ALLOWED, Allowed};
use self::components::{Graph, components, shortest};
use self::modules::{Modules, Sources};
use self::uses::{Uses, uses};

/// Returns the circles that are not allowed, and unneeded entries of the list.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in folders {
        let source = root.join(folder).join("src");
        let mut sources = Sources::new();
        read(&source, "", &mut sources).with_context(|| format!("reading {}", source.display()))?;
        faults.extend(judge(folder, &sources, ALLOWED));
    }
    Ok(faults)
}

/// Reads all Rust files of a folder, under names that begin with `prefix`.
fn read(folder: &Path, prefix: &str, sources: &mut Sources) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), sources)?;
        } else if name.ends_with(".rs") {
            sources.insert(name, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

fn judge(folder: &str, sources: &Sources, allowed: &[Allowed]) -> Vec<String> {
    let uses = crate_uses(sources);
    let mut graph = Graph::new();
    for (from, to) in uses.keys() {
        graph.entry(from).or_default().insert(to);
        graph.entry(to).or_default();
    }
    let circles = components(&graph);
    let mut faults = Vec::new();
    for circle in &circles {
        let is_allowed = |it: &Allowed| {
            let mut files = circle.iter();
            it.folder == folder && files.all(|file| it.files.contains(file))
        };
        if !allowed.iter().any(is_allowed) {
            let text = message(folder, circle, &shortest(&graph, circle), &uses);
            faults.push(text);
        }
    }
    for Allowed { files, reason, .. } in allowed.iter().filter(|it| it.folder == folder) {
        let files: BTreeSet<_> = files.iter().copied().collect();
        let is_needed = circles.contains(&files);
        if !is_needed {
            let files: Vec<_> = files.into_iter().collect();
            faults.push(format!(
                "xtask/src/circles/allowed.rs: {folder}/src has no circle of exactly {} ({reason}); remove \
                 the entry, or the files that are no longer in it",
                files.join(", ")
            ));
        }
    }
    faults
}

/// Returns the uses between the files of a crate's library and binary.
fn crate_uses(sources: &Sources) -> Uses<'_> {
    let is_root = |file: &&String| matches!(file.as_str(), "lib.rs" | "main.rs");
    let mut all = Uses::new();
    for root in sources.keys().filter(is_root) {
        all.extend(uses(&Modules::read(sources, root)));
    }
    all
}

fn message(folder: &str, circle: &BTreeSet<&str>, way: &[&str], uses: &Uses) -> String {
    let steps = way.iter().enumerate().filter_map(|(index, from)| {
        let to = way[(index + 1) % way.len()];
        let found = uses.get(&(*from, to))?;
        Some(format!(
            "{from}:{} uses `{}` of {to}",
            found.line, found.item
        ))
    });
    let steps: Vec<_> = steps.collect();
    let mut text = format!(
        "{folder}/src/{}: in a circle of {} files: {}",
        way.first().unwrap_or(&""),
        circle.len(),
        steps.join(", ")
    );
    let others: Vec<_> = circle
        .iter()
        .filter(|file| !way.contains(file))
        .copied()
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(" (also in it: {})", others.join(", ")));
    }
    text.push_str(
        "; move what both sides need to a file of its own, or give the reason in xtask/src/circles/allowed.rs",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(b: &str) -> Sources {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::Second;\npub struct First;"),
            ("b.rs", b),
        ];
        files
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into()
    }

    #[test]
    fn a_circle_is_refused_with_its_uses_unless_it_is_listed() {
        let listed = [Allowed {
            folder: "x",
            files: &["a.rs", "b.rs"],
            reason: "a registry",
        }];
        let circle = sources("pub struct Second(\n  super::a::First\n);");
        let straight = sources("pub struct Second;");

        let found = judge("x", &circle, &[]);
        assert_eq!(
            found,
            [
                "x/src/a.rs: in a circle of 2 files: a.rs:1 uses `Second` of b.rs, b.rs:2 uses `First` of a.rs; \
                 move what both sides need to a file of its own, or give the reason in xtask/src/circles/allowed.rs"
            ]
        );
        assert_eq!(judge("y", &circle, &listed).len(), 1);
        assert_eq!(judge("x", &circle, &listed), Vec::<String>::new());
        assert_eq!(judge("x", &straight, &[]), Vec::<String>::new());
        let unneeded = judge("x", &straight, &listed);
        assert_eq!(unneeded.len(), 1);
        assert!(unneeded[0].contains("a.rs, b.rs (a registry)"));
    }
}
