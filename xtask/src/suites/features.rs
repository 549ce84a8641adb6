//! The features of the library: each can be left out, and without all of them little is left to build.
//!
//! They are checked by clippy like the whole workspace, which has checked most of the dependencies already.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::workspace::{cargo, output, run};

/// The library.
const LIBRARY: &str = "ah";
/// The crate with most of what its features switch.
const TOOLS: &str = "ah-tools";
/// Limit for the packages of the library without any feature, itself included.
const MAX_PACKAGES: usize = 158;

/// What `cargo demo` builds.
const DEMO: (&str, &[&str]) = ("ah-cli", &[]);

/// The builds: a package and its features. The features of tools are left out of `ah-tools` one by one, as the code that they
/// switch is there; that of all others is absent from one of the builds of the library.
const BUILDS: [(&str, &[&str]); 10] = [
    DEMO,
    (LIBRARY, &[]),
    (LIBRARY, &["engine"]),
    ("ah-fleet", &["postgres"]),
    ("ah-fleet", &["graphile"]),
    (TOOLS, &["image", "lua", "pdf", "sandbox", "web"]),
    (TOOLS, &["docx", "lua", "pdf", "sandbox", "web"]),
    (TOOLS, &["docx", "image", "pdf", "sandbox", "web"]),
    (TOOLS, &["docx", "image", "lua", "sandbox", "web"]),
    (TOOLS, &["docx", "image", "lua", "pdf", "sandbox"]),
];

/// Checks the library without any feature, and with each one left out; warnings are errors.
pub fn test() -> Result<()> {
    let count = packages()?;
    ensure!(
        count <= MAX_PACKAGES,
        "`{LIBRARY}` without features needs {count} packages; at most {MAX_PACKAGES} are allowed"
    );
    BUILDS.into_iter().try_for_each(lint)
}

/// Checks what a newcomer builds first.
pub fn demo() -> Result<()> {
    lint(DEMO)
}

/// Checks a build; warnings are errors.
fn lint((package, features): (&str, &[&str])) -> Result<()> {
    run(cargo()
        .args(["clippy", "--quiet", "-p", package, "--no-default-features"])
        .args(["--features", &features.join(","), "--", "-D", "warnings"]))
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
    use super::super::passed::files_below;
    use super::*;

    #[test]
    fn packages_are_counted_once_for_each_version() {
        let tree = "ah v0.1.0 (/src/ah)\nserde v1.0.0\nserde v1.0.0 (*)\nserde v2.0.0\n";
        assert_eq!(distinct(tree), 3);
    }

    #[test]
    fn the_library_without_features_stays_small() {
        assert!(packages().unwrap() <= MAX_PACKAGES);
    }

    /// Features that are switched in the sources of a crate.
    fn switched(folder: &str) -> BTreeSet<String> {
        let sources = files_below(&[format!("{folder}/src")]).unwrap();
        let sources = sources
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let names = |source: String| -> Vec<String> {
            let pieces = source.split("feature = \"").skip(1);
            pieces
                .filter_map(|piece| Some(piece.split_once('"')?.0.to_owned()))
                .collect()
        };
        sources.flat_map(names).collect()
    }

    #[test]
    fn what_a_feature_switches_is_built_without_it() {
        let is_left_out = |package: &str, feature: &str| {
            let mut builds = BUILDS.iter().filter(|(name, _)| *name == package);
            builds.any(|(_, with)| !with.contains(&feature))
        };
        // The engine is in the builds of the library that have it.
        for (folder, package) in [("tools", TOOLS), ("engine", LIBRARY), ("ah", LIBRARY)] {
            let switched = switched(folder);
            assert!(!switched.is_empty());
            for feature in switched {
                assert!(is_left_out(package, &feature), "{package}: `{feature}`");
            }
        }
        // Those of the others are absent where the library has none of its features.
        for (folder, known) in [
            ("config", "overlay"),
            ("fleet", "graphile postgres"),
            ("mcp", "client"),
            ("sandbox", "disk enforcement sqlite"),
            ("store", "fault-injection"),
        ] {
            assert_eq!(
                Vec::from_iter(switched(folder)).join(" "),
                known,
                "{folder}"
            );
        }
    }
}
