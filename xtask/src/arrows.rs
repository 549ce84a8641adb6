//! Allowed dependencies between our crates, and dependencies reserved for the upper ones.
//!
//! Every arrow points down. ARCHITECTURE.md says why, and lists those in use.

use crate::workspace::{COMMAND_LINE, Dependency, Package};

/// Crates that each crate may use, besides `testkit` in tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("ah-beneath", &[]),
    ("ah-conversation", &[]),
    ("ah-diff", &[]),
    ("ah-ids", &["ah-conversation"]),
    ("ah-ignored", &["ah-beneath"]),
    ("ah-replace", &["ah-beneath"]),
    ("ah-http", &[]),
    ("ah-sandbox", &[]),
    ("ah-schema", &[]),
    ("ah-process", &["ah-conversation", "ah-sandbox"]),
    ("ah-git", &["ah-conversation", "ah-process"]),
    ("ah-provider", &["ah-conversation", "ah-diff", "ah-http"]),
    (
        "ah-store",
        &["ah-beneath", "ah-conversation", "ah-ids", "ah-sandbox"],
    ),
    (
        "ah-store-postgres",
        &["ah-conversation", "ah-ids", "ah-store"],
    ),
    (
        "ah-tools",
        &[
            "ah-beneath",
            "ah-conversation",
            "ah-diff",
            "ah-http",
            "ah-ignored",
            "ah-process",
            "ah-replace",
            "ah-sandbox",
            "ah-schema",
        ],
    ),
    (
        "ah-mcp",
        &["ah-conversation", "ah-http", "ah-process", "ah-schema"],
    ),
    (
        "ah-agent",
        &[
            "ah-beneath",
            "ah-conversation",
            "ah-diff",
            "ah-process",
            "ah-replace",
            "ah-schema",
        ],
    ),
    (
        FRONT,
        &[
            ENGINE,
            "ah-agent",
            "ah-config",
            "ah-conversation",
            "ah-ids",
            "ah-protocol",
            "ah-provider",
            "ah-store",
            "ah-tools",
            "ah-trace",
        ],
    ),
    ("ah-render", &["ah-conversation", "ah-diff"]),
    ("ah-transcript", &["ah-agent", "ah-conversation", "ah-git"]),
    (
        "ah-verify",
        &[
            "ah-beneath",
            "ah-conversation",
            "ah-diff",
            "ah-ignored",
            "ah-process",
            "ah-sandbox",
        ],
    ),
    (
        "ah-protocol",
        &["ah-agent", "ah-conversation", "ah-desk", "ah-transcript"],
    ),
    ("ah-acp", &["ah-agent", "ah-conversation", "ah-desk"]),
    ("ah-desk", &["ah-agent", "ah-conversation"]),
    ("ah-serve", &["ah-conversation", "ah-desk"]),
    (
        "ah-config",
        &[
            "ah-agent",
            "ah-beneath",
            "ah-conversation",
            "ah-git",
            "ah-http",
            "ah-mcp",
            "ah-process",
            "ah-provider",
            "ah-replace",
            "ah-sandbox",
        ],
    ),
    (
        "ah-testkit",
        &["ah-conversation", "ah-ids", "ah-provider", "ah-store"],
    ),
    ("xtask", &[]),
    (
        "ah-sim",
        &[
            "ah-agent",
            "ah-config",
            "ah-conversation",
            "ah-desk",
            "ah-fleet",
            "ah-http",
            "ah-ids",
            "ah-mcp",
            "ah-protocol",
            "ah-provider",
            "ah-sandbox",
            "ah-store",
            "ah-testkit",
            "ah-transcript",
        ],
    ),
    (
        "ah-fuzz",
        &[
            "ah-agent",
            "ah-conversation",
            "ah-desk",
            "ah-http",
            "ah-protocol",
            "ah-provider",
            "ah-sandbox",
            "ah-tools",
            "ah-transcript",
        ],
    ),
];

/// Crates beside the way from a configuration to a session, with what each may use. Only the command line knows them, so
/// that nobody who changes a session has to.
const OUTBUILDINGS: &[(&str, &[&str])] = &[
    (
        "ah-fleet",
        &[
            ENGINE,
            "ah-agent",
            "ah-beneath",
            "ah-config",
            "ah-conversation",
            "ah-git",
            "ah-ids",
            "ah-process",
            "ah-serve",
            "ah-store",
            "ah-store-postgres",
        ],
    ),
    ("ah-mcp-server", &["ah-agent", "ah-conversation", "ah-desk"]),
    (
        "ah-plugins",
        &["ah-beneath", "ah-config", "ah-conversation", "ah-git"],
    ),
    (
        "ah-porting",
        &[
            ENGINE,
            "ah-beneath",
            "ah-config",
            "ah-conversation",
            "ah-ids",
            "ah-store",
            "ah-transcript",
        ],
    ),
    ("ah-trace", &["ah-agent", "ah-conversation", "ah-http"]),
    (
        "ah-work",
        &[
            "ah-beneath",
            "ah-config",
            "ah-conversation",
            "ah-git",
            "ah-http",
            "ah-process",
        ],
    ),
];

/// Doors: each speaks with one kind of client and uses the desk, never the engine or another door. What opens sessions
/// knows none of them; the command line hands them the desk. The protocol of hosts is not among them: the engine has its
/// own runs driven by it.
const DOORS: [&str; 2] = ["ah-acp", "ah-serve"];

/// Upper crates, each of which may use all that stand in front of it and all of [`ARROWS`] but those in [`APART`].
const UPPER: [&str; 3] = [ENGINE, "ah-terminal", COMMAND_LINE];
const ENGINE: &str = "ah-engine";
/// The library for programs of others: it stands in front of the engine as the command line does, and no crate of ours
/// goes through it.
const FRONT: &str = "ah";
/// Crates that nothing leads to.
const APART: [&str; 4] = [TESTKIT, "ah-fuzz", "ah-sim", "xtask"];
/// Only the crates that show things need it.
const APPEARANCE: &str = "ah-render";

const TESTKIT: &str = "ah-testkit";
/// The pure crate, and dependencies that would give it access to files, sockets, clocks or random numbers.
const PURE: &str = "ah-conversation";
const IMPURE: [&str; 11] = [
    "async-std",
    "futures",
    "getrandom",
    "hyper",
    "libc",
    "mio",
    "rand",
    "reqwest",
    "rusqlite",
    "rustix",
    "tokio",
];

/// Dependencies with the crates that may have them. Most belong to the terminal or the command line: a library that brings
/// them along would impose them on every program built on it.
const RESERVED: [(&str, &[&str]); 7] = [
    ("clap", &[COMMAND_LINE, "xtask"]),
    ("clap_complete", &[COMMAND_LINE]),
    ("clap_mangen", &[COMMAND_LINE]),
    ("reedline", &["ah-terminal", COMMAND_LINE]),
    ("crossterm", &["ah-terminal", COMMAND_LINE]),
    ("anstream", &["ah-terminal", COMMAND_LINE]),
    // Each crate that calls it has a copy of its algorithms.
    ("similar", &["ah-diff"]),
];

/// Returns the dependencies that are not allowed, one line each.
pub fn faults(packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .flat_map(|package| {
            package.dependencies.iter().filter_map(|dependency| {
                Some(format!(
                    "{}/Cargo.toml: {}",
                    package.name,
                    fault(package, dependency)?
                ))
            })
        })
        .collect()
}

fn fault(package: &Package, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let is_dev = dependency.kind.as_deref() == Some("dev");
    if package.name == PURE && !is_dev && IMPURE.contains(&name) {
        return Some(format!(
            "{name} does I/O, and this crate does none; pass the value in as an argument"
        ));
    }
    let is_ours = name == FRONT || name == "xtask" || name.starts_with("ah-");
    if !is_ours {
        let (_, owners) = RESERVED.iter().find(|(reserved, _)| *reserved == name)?;
        let is_allowed = owners.contains(&package.name.as_str());
        return (!is_allowed).then(|| {
            format!(
                "{name} is for {} only; pass plain values to this crate",
                owners.join(", ")
            )
        });
    }
    if name == FRONT {
        return Some(format!(
            "{name} is for programs of others only; use {ENGINE}"
        ));
    }
    if name == TESTKIT {
        let is_allowed = package.name != PURE && (is_dev || APART.contains(&&*package.name));
        return (!is_allowed).then(|| format!("{name} is for tests of crates above {PURE} only"));
    }
    // The library names in its list those that it hands to the engine.
    if package.name != FRONT && OUTBUILDINGS.iter().any(|(outside, _)| *outside == name) {
        let is_allowed = package.name == COMMAND_LINE || APART.contains(&&*package.name);
        return (!is_allowed).then(|| format!("{name} is for {COMMAND_LINE} only"));
    }
    if DOORS.contains(&name) && [ENGINE, "ah-terminal"].contains(&&*package.name) {
        return Some(format!(
            "{name} is a door; it is handed the desk by {COMMAND_LINE}"
        ));
    }
    if let Some(storey) = UPPER.iter().position(|upper| *upper == package.name) {
        let is_below = match UPPER.iter().position(|upper| *upper == name) {
            Some(other) => other < storey,
            None => !APART.contains(&name) && (name != APPEARANCE || storey > 0),
        };
        return (!is_below).then(|| format!("no arrow leads up to {name}"));
    }
    let mut arrows = ARROWS.iter().chain(OUTBUILDINGS);
    match arrows.find(|(from, _)| *from == package.name) {
        Some((_, to)) if to.contains(&name) => None,
        Some(_) => Some(format!(
            "no arrow leads to {name}; hand over what is needed as a value or through a port of ah-conversation"
        )),
        None => Some("this crate is missing in xtask/src/arrows.rs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: "x/Cargo.toml".into(),
            dependencies,
        }
    }

    fn is_allowed(from: &str, kind: Option<&str>, to: &str) -> bool {
        let dependency = Dependency {
            name: to.to_owned(),
            kind: kind.map(str::to_owned),
        };
        faults(&[package(from, vec![dependency])]).is_empty()
    }

    #[test]
    fn only_the_arrows_of_the_list_are_allowed() {
        for (from, kind, to, expected) in [
            ("ah-provider", None, "ah-http", true),
            ("ah-provider", None, "serde", true),
            ("ah-provider", None, "ah-store", false),
            ("ah-provider", Some("dev"), "ah-store", false),
            ("ah-provider", Some("dev"), "ah-testkit", true),
            ("ah-provider", None, "ah-testkit", false),
            ("ah-conversation", Some("dev"), "ah-testkit", false),
            ("ah-conversation", Some("dev"), "tokio", true),
            ("ah-conversation", None, "tokio", false),
            ("ah-http", None, "ah-conversation", false),
            ("ah-config", None, "ah-mcp", true),
            ("ah-config", None, "ah-engine", false),
            ("ah-engine", None, "ah-testkit", false),
            ("ah-engine", None, "xtask", false),
            ("ah-new", None, "ah-tools", false),
            ("ah", None, "ah-engine", true),
            ("ah", None, "ah-terminal", false),
            ("ah", None, "ah-trace", true),
            ("ah", None, "ah-plugins", false),
            ("ah-cli", None, "ah", false),
            ("ah-cli", Some("dev"), "ah", false),
            ("ah-plugins", None, "ah-config", true),
            ("ah-plugins", None, "ah-engine", false),
            ("ah-tools", None, "clap", false),
            ("xtask", None, "clap", true),
        ] {
            let found = is_allowed(from, kind, to);
            assert_eq!(found, expected, "{from} -> {to} {kind:?}");
        }
    }

    #[test]
    fn upper_crates_use_all_below_them_and_none_above() {
        for (from, to, expected) in [
            ("ah-engine", "ah-config", true),
            ("ah-engine", "ah-store", true),
            ("ah-engine", "ah-render", false),
            ("ah-engine", "ah-terminal", false),
            ("ah-engine", "ah-cli", false),
            ("ah-engine", "clap", false),
            ("ah-engine", "crossterm", false),
            ("ah-terminal", "ah-engine", true),
            ("ah-terminal", "ah-render", true),
            ("ah-terminal", "reedline", true),
            ("ah-terminal", "clap", false),
            ("ah-terminal", "ah-cli", false),
            ("ah-cli", "ah-terminal", true),
            ("ah-cli", "ah-fuzz", false),
            ("ah-cli", "clap_complete", true),
            ("ah-agent", "ah-engine", false),
            ("ah-cli", "ah-plugins", true),
            ("ah-engine", "ah-plugins", false),
            ("ah-terminal", "ah-plugins", false),
            ("ah-config", "ah-plugins", false),
            ("ah-engine", "ah-desk", true),
            ("ah-engine", "ah-acp", false),
            ("ah-engine", "ah-serve", false),
            ("ah-terminal", "ah-serve", false),
            ("ah-cli", "ah-serve", true),
        ] {
            assert_eq!(is_allowed(from, None, to), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn doors_use_the_desk_and_neither_the_engine_nor_each_other() {
        let doors = ["ah-acp", "ah-serve", "ah-mcp-server", "ah-protocol"];
        let closed = [ENGINE, "ah-terminal", "ah-config", "ah-store", "ah-tools"];
        for door in doors {
            assert!(is_allowed(door, None, "ah-desk"), "{door}");
            for other in doors.iter().chain(&closed) {
                assert!(!is_allowed(door, None, other), "{door} -> {other}");
            }
        }
    }

    #[test]
    fn a_line_says_which_crate_and_what_to_do() {
        let dependency = |name: &str| Dependency {
            name: name.to_owned(),
            kind: None,
        };
        let packages = [
            package("ah-tools", vec![dependency("ah-store")]),
            package("ah-work", vec![dependency("clap")]),
        ];
        assert_eq!(
            faults(&packages),
            [
                "ah-tools/Cargo.toml: no arrow leads to ah-store; hand over what is needed as a value or through a port \
                 of ah-conversation",
                "ah-work/Cargo.toml: clap is for ah-cli, xtask only; pass plain values to this crate",
            ]
        );
    }
}
