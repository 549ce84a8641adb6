//! The crates in a binary: names and versions from `cargo tree`, since `cargo metadata` includes optional ones that no
//! feature enables; what they are from `cargo metadata`; checksums from `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::archive::read;
use super::release::Platform;
use crate::workspace::{COMMAND_LINE, PUBLISHED_FEATURES, cargo, output, root};

/// Name and version of a crate.
type Version = (String, String);

/// A crate in the binary.
#[derive(Debug, Deserialize)]
pub struct Crate {
    id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SPDX expression; older crates write `MIT/Apache-2.0`.
    pub license: Option<String>,
    /// The registry; `None` for a crate of this workspace.
    pub source: Option<String>,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// SHA-256 of its archive in the registry.
    #[serde(skip)]
    pub checksum: Option<String>,
    /// Names for the crates it uses, as in [`Crate::reference`].
    #[serde(skip)]
    pub uses: BTreeSet<String>,
}

impl Crate {
    /// Returns a name that no other crate has: the package URL, or name and version of our own.
    pub fn reference(&self) -> String {
        let Self { name, version, .. } = self;
        if self.source.is_none() {
            return format!("{name}@{version}");
        }
        // The only character of versions that has a meaning in an address.
        format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None` for a normal dependency.
    kind: Option<String>,
}

/// `Cargo.lock`.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Returns the crates in the binary for a platform by name and version, itself included.
pub fn in_binary(platform: Platform) -> Result<Vec<Crate>> {
    let mut tree = cargo();
    tree.args(["tree", "--package", COMMAND_LINE])
        .args(PUBLISHED_FEATURES)
        .arg("--target")
        .arg(platform.target())
        .args(["--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}"]);
    let used = listed(&output(&mut tree)?);
    let mut metadata = cargo();
    metadata
        .args(["metadata", "--format-version", "1", "--all-features"])
        .arg("--filter-platform")
        .arg(platform.target());
    let metadata: Metadata = serde_json::from_str(&output(&mut metadata)?)
        .context("parsing the output of `cargo metadata`")?;
    let lock = String::from_utf8(read(&root().join("Cargo.lock"))?)?;
    let lock: Lock = toml::from_str(&lock).context("parsing Cargo.lock")?;

    let is_used = |it: &Crate| used.contains(&(it.name.clone(), it.version.clone()));
    let mut crates: Vec<Crate> = metadata.packages.into_iter().filter(is_used).collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let references: BTreeMap<String, String> = crates
        .iter()
        .map(|it| (it.id.clone(), it.reference()))
        .collect();
    for it in &mut crates {
        let mut locked = lock.package.iter();
        let locked = locked.find(|found| found.name == it.name && found.version == it.version);
        it.checksum = locked.and_then(|locked| locked.checksum.clone());
        let mut nodes = metadata.resolve.nodes.iter();
        let node = nodes.find(|node| node.id == it.id);
        let edges = node.into_iter().flat_map(|node| &node.deps);
        it.uses = edges
            .filter(|edge| edge.dep_kinds.iter().any(|it| it.kind.is_none()))
            .filter_map(|edge| references.get(&edge.pkg).cloned())
            .collect();
    }
    Ok(crates)
}

/// Returns the crates of a tree, whose lines are like `serde v1.0.0 (*)`.
fn listed(tree: &str) -> BTreeSet<Version> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            Some((name, words.next()?.strip_prefix('v')?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_a_tree_are_read_once() {
        let tree = "ah-cli v0.1.0 (/src/cli)\nserde v1.0.0\nserde v1.0.0 (*)\n\nfoo v2.0.0+1.2\n";
        let expected = [
            ("ah-cli", "0.1.0"),
            ("foo", "2.0.0+1.2"),
            ("serde", "1.0.0"),
        ];
        let expected = expected.map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(listed(tree), expected.into_iter().collect());
    }

    #[test]
    fn neither_tests_nor_builds_nor_other_systems_are_in_the_binary() {
        let crates = in_binary(Platform::named(None).unwrap()).unwrap();
        let has = |name: &str| crates.iter().any(|it| it.name == name);
        assert!(has("ah-store") && has("serde") && has("libsqlite3-sys") && has("tokio-postgres"));
        for absent in [
            "insta",
            "ah-testkit",
            "cc",
            "syn",
            "windows-sys",
            "graphile_worker",
        ] {
            assert!(!has(absent), "{absent}");
        }
    }
}
