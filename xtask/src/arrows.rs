//! Which of our crates may use which.
//!
//! Every arrow points down. ARCHITECTURE.md says why, and lists those that are in use.

use crate::workspace::{Dependency, Package};

/// What each crate may use of ours, besides `testkit` in tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("ah-conversation", &[]),
    ("ah-http", &[]),
    ("ah-sandbox", &[]),
    ("ah-process", &["ah-conversation", "ah-sandbox"]),
    ("ah-provider", &["ah-conversation", "ah-http"]),
    ("ah-store", &["ah-conversation"]),
    ("ah-tools", &["ah-conversation", "ah-http", "ah-process"]),
    ("ah-mcp", &["ah-conversation", "ah-http", "ah-process"]),
    ("ah-agent", &["ah-conversation", "ah-process"]),
    ("ah-render", &["ah-conversation"]),
    ("ah-work", &["ah-http", "ah-process"]),
    ("ah-protocol", &["ah-agent", "ah-conversation"]),
    (
        "ah-testkit",
        &["ah-conversation", "ah-provider", "ah-store"],
    ),
    ("xtask", &[]),
    (
        "ah-fuzz",
        &[
            "ah-agent",
            "ah-conversation",
            "ah-http",
            "ah-protocol",
            "ah-provider",
            "ah-sandbox",
            "ah-tools",
        ],
    ),
];

/// The binary hands all parts to each other, so it may use them all, but the test kit.
const BINARY: &str = "ah";
const TESTKIT: &str = "ah-testkit";
/// The pure crate, and what would let it reach a file, a socket, a clock or chance.
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

/// Arrows that are not allowed, one line each.
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
        return Some(format!("{name} does I/O, and this crate does none"));
    }
    let is_ours = name == BINARY || name == "xtask" || name.starts_with("ah-");
    if !is_ours {
        return None;
    }
    if name == TESTKIT {
        let is_allowed = is_dev && package.name != PURE;
        return (!is_allowed).then(|| format!("{name} is for tests of crates above {PURE} only"));
    }
    if package.name == BINARY && name != "xtask" {
        return None;
    }
    match ARROWS.iter().find(|(from, _)| *from == package.name) {
        Some((_, to)) if to.contains(&name) => None,
        Some(_) => Some(format!("no arrow leads to {name}")),
        None => Some("this crate is missing in xtask/src/arrows.rs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_arrows_of_the_list_are_allowed() {
        for (from, kind, to, is_allowed) in [
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
            ("ah", None, "ah-tools", true),
            ("ah", None, "ah-testkit", false),
            ("ah-new", None, "ah-tools", false),
        ] {
            let dependency = Dependency {
                name: to.to_owned(),
                kind: kind.map(str::to_owned),
            };
            let package = Package {
                name: from.to_owned(),
                dependencies: vec![dependency],
            };
            assert_eq!(
                faults(&[package]).is_empty(),
                is_allowed,
                "{from} -> {to} {kind:?}"
            );
        }
    }
}
