//! The features of the library: each can be left out, and without all of them little is left to build.
//!
//! The builds have a target folder of their own, so that they do not disturb what other commands share.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::workspace::{cargo, output, root, run};

/// The library.
const LIBRARY: &str = "ah";
/// Its features.
const FEATURES: [&str; 10] = [
    "docx", "image", "log", "lua", "mcp", "overlay", "pdf", "sandbox", "sqlite", "web",
];
/// Limit for the packages of the library without any feature, itself included.
const MAX_PACKAGES: usize = 169;

/// Checks the library without any feature, and with each one left out; warnings are errors.
pub fn test() -> Result<()> {
    let count = packages()?;
    ensure!(
        count <= MAX_PACKAGES,
        "`{LIBRARY}` without features needs {count} packages; at most {MAX_PACKAGES} are allowed"
    );
    check("")?;
    for absent in FEATURES {
        check(&all_but(absent))?;
    }
    // Off by default.
    check("postgres")?;
    // What `cargo demo` builds.
    check_package("ah-cli", "")
}

/// Returns the features without `absent`, separated by commas.
fn all_but(absent: &str) -> String {
    let present = FEATURES.iter().filter(|feature| **feature != absent);
    present.copied().collect::<Vec<_>>().join(",")
}

fn check(features: &str) -> Result<()> {
    check_package(LIBRARY, features)
}

fn check_package(package: &str, features: &str) -> Result<()> {
    run(cargo()
        .args(["check", "-p", package, "--no-default-features"])
        .args(["--features", features, "--target-dir"])
        .arg(root().join("target/features"))
        .env("RUSTFLAGS", "-D warnings"))
}

/// Returns the number of packages of the library without features.
fn packages() -> Result<usize> {
    let tree = output(
        cargo()
            .args(["tree", "-p", LIBRARY, "--no-default-features"])
            .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]),
    )?;
    Ok(distinct(&tree))
}

/// Counts the packages of a tree by name and version.
fn distinct(tree: &str) -> usize {
    let packages: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| line.split(" (").next())
        .filter(|package| !package.is_empty())
        .collect();
    packages.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_once_for_each_version() {
        let tree = "ah v0.1.0 (/src/engine)\nserde v1.0.0\nserde v1.0.0 (*)\nserde v2.0.0\n";
        assert_eq!(distinct(tree), 3);
    }

    #[test]
    fn the_library_without_features_stays_small() {
        assert!(packages().unwrap() <= MAX_PACKAGES);
    }

    #[test]
    fn a_feature_is_left_out() {
        assert_eq!(
            all_but("image"),
            "docx,log,lua,mcp,overlay,pdf,sandbox,sqlite,web"
        );
    }
}
