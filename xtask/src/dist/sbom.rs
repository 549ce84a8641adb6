//! The bill of materials: every crate in the binary, with version, licence and checksum, in the format CycloneDX 1.6.
//!
//! `cargo tree` says which crates these are, since `cargo metadata` includes optional ones that no feature enables, and
//! `cargo metadata` describes them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use spdx::Expression;

use super::archive::read;
use super::release::{Platform, Release};
use crate::workspace::{COMMAND_LINE, cargo, output, root};

/// Name and version of a crate.
type Crate = (String, String);

/// What cargo says about the crates.
struct Sources {
    /// Crates in the binary.
    used: BTreeSet<Crate>,
    metadata: Metadata,
    lock: Lock,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a crate of this workspace.
    source: Option<String>,
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

/// Returns the bill of materials of the binary for a platform.
pub fn bill(release: &Release, platform: Platform) -> Result<String> {
    let mut tree = cargo();
    tree.args(["tree", "--package", COMMAND_LINE, "--target"])
        .arg(platform.target())
        .args(["--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}"]);
    let mut metadata = cargo();
    metadata
        .args(["metadata", "--format-version", "1", "--filter-platform"])
        .arg(platform.target());
    let lock = String::from_utf8(read(&root().join("Cargo.lock"))?)?;
    let sources = Sources {
        used: crates(&output(&mut tree)?),
        metadata: serde_json::from_str(&output(&mut metadata)?)
            .context("parsing the output of `cargo metadata`")?,
        lock: toml::from_str(&lock).context("parsing Cargo.lock")?,
    };
    Ok(serde_json::to_string_pretty(&document(release, &sources)?)? + "\n")
}

/// Returns the crates of a tree, whose lines are like `serde v1.0.0 (*)`.
fn crates(tree: &str) -> BTreeSet<Crate> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            Some((name, words.next()?.strip_prefix('v')?.to_owned()))
        })
        .collect()
}

fn document(release: &Release, sources: &Sources) -> Result<Value> {
    let Sources {
        used,
        metadata,
        lock,
    } = sources;
    let checksums: BTreeMap<(&str, &str), &str> = lock
        .package
        .iter()
        .filter_map(|it| Some(((&*it.name, &*it.version), it.checksum.as_deref()?)))
        .collect();
    let packages: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(|it| used.contains(&(it.name.clone(), it.version.clone())))
        .map(|it| (&*it.id, it))
        .collect();
    let binary = packages.values().find(|it| it.name == COMMAND_LINE);
    let binary = binary.context("the tree has no binary")?;
    let parts = packages.values().filter(|it| it.name != COMMAND_LINE);
    let components: Vec<Value> = parts
        .map(|it| component(it, checksums.get(&(&*it.name, &*it.version)).copied()))
        .collect();
    let needs = |node: &Node| {
        let normal = node
            .deps
            .iter()
            .filter(|edge| edge.dep_kinds.iter().any(|it| it.kind.is_none()));
        let needed: BTreeSet<String> = normal
            .filter_map(|edge| packages.get(&*edge.pkg))
            .map(|it| reference(it))
            .collect();
        Some(json!({"ref": reference(packages.get(&*node.id)?), "dependsOn": needed}))
    };
    let time = jiff::Timestamp::from_second(release.time.try_into()?)?;
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.to_string(),
            "component": {
                "type": "application",
                "bom-ref": reference(binary),
                "name": "ah",
                "version": release.version,
                "description": release.description,
                "licenses": [{"expression": release.license}],
                "externalReferences": [{"type": "vcs", "url": release.repository}],
            },
        },
        "components": components,
        "dependencies": metadata.resolve.nodes.iter().filter_map(needs).collect::<Vec<_>>(),
    }))
}

fn component(package: &Package, checksum: Option<&str>) -> Value {
    let Package { name, version, .. } = package;
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": name,
        "version": version,
    });
    if let Some(license) = &package.license {
        // Crates from before the standard write `MIT/Apache-2.0`.
        let canonical = Expression::canonicalize(license).ok().flatten();
        let license = canonical.as_ref().unwrap_or(license);
        component["licenses"] = json!([{"expression": license}]);
    }
    if package.source.is_some() {
        component["purl"] = json!(reference(package));
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

/// Returns what other parts of the document call a crate: its package URL, or name and version of our own.
fn reference(package: &Package) -> String {
    let Package { name, version, .. } = package;
    if package.source.is_none() {
        return format!("{name}@{version}");
    }
    // The only character of versions that has a meaning in an address.
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
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
        assert_eq!(crates(tree), expected.into_iter().collect());
    }

    #[test]
    fn the_bill_names_crates_with_licence_and_checksum_and_who_needs_them() {
        let release = Release::of_checkout().unwrap();
        let platform = Platform::named(None).unwrap();
        let bill: Value = serde_json::from_str(&bill(&release, platform).unwrap()).unwrap();
        let components = bill["components"].as_array().unwrap();
        let find = |name: &str| components.iter().find(|it| it["name"] == name);
        let serde = find("serde").unwrap();
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(find("ah-store").is_some());
        // For tests, for builds, and for other systems.
        for absent in ["insta", "ah-testkit", "cc", "syn", "windows-sys"] {
            assert!(find(absent).is_none(), "{absent}");
        }

        let references: BTreeSet<&str> = components
            .iter()
            .chain([&bill["metadata"]["component"]])
            .map(|it| it["bom-ref"].as_str().unwrap())
            .collect();
        assert_eq!(references.len(), components.len() + 1);
        let dependencies = bill["dependencies"].as_array().unwrap();
        let named: BTreeSet<&str> = dependencies
            .iter()
            .map(|it| it["ref"].as_str().unwrap())
            .collect();
        assert_eq!(named, references);
    }
}
