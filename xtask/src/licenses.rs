//! Allowed licences and banned crates among the dependencies.
//!
//! The lists are in `deny.toml`, in the format of cargo-deny, so that both use the same. The dependencies come from
//! `cargo tree`, since `cargo metadata` includes optional crates that no feature enables.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::workspace::{cargo, output, root};

/// Part of `deny.toml` that is checked here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// Returns the dependencies that are not allowed, one line each.
pub fn faults() -> Result<Vec<String>> {
    let path = root().join("deny.toml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let tree = output(cargo().args([
        "tree",
        "--workspace",
        "--all-features",
        "--target",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ]))?;
    faults_of(&text, &tree)
}

fn faults_of(rules: &str, tree: &str) -> Result<Vec<String>> {
    let rules: Rules = toml::from_str(rules).context("reading deny.toml")?;
    let allowed = rules
        .licenses
        .allow
        .iter()
        .map(|name| {
            Licensee::parse(name)
                .with_context(|| format!("deny.toml: `{name}` is not an SPDX licence"))
        })
        .collect::<Result<Vec<_>>>()?;

    let mut faults = Vec::new();
    for line in tree.lines().collect::<BTreeSet<_>>() {
        let Some((package, license)) = line.split_once('\t') else {
            continue;
        };
        // Cargo marks repeated crates.
        let license = license.trim_end_matches(" (*)");
        let name = package.split(' ').next().unwrap_or(package);
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == name) {
            faults.push(format!(
                "deny.toml: {package} is banned: {}; remove the dependency",
                ban.reason
            ));
        }
        if !is_allowed(license, &allowed) {
            faults.push(format!(
                "deny.toml: the licence `{license}` of {package} is not in `licenses.allow`; use another crate"
            ));
        }
    }
    Ok(faults)
}

/// Whether a licence expression allows one of our licences. Older crates write `/` for `OR`.
fn is_allowed(license: &str, allowed: &[Licensee]) -> bool {
    Expression::parse_mode(license, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|wanted| allowed.iter().any(|ours| ours.satisfies(wanted)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_expressions() {
        let rules = r#"
            licenses.allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
            bans.deny = [{ crate = "ring", reason = "one is enough" }]
        "#;
        for (line, expected) in [
            ("a v1.0.0\tMIT", 0),
            ("a v1.0.0\tMIT (*)", 0),
            ("a v1.0.0\tMIT/Apache-2.0", 0),
            ("a v1.0.0\tGPL-3.0-only OR MIT", 0),
            ("a v1.0.0\tGPL-3.0-only AND MIT", 1),
            ("a v1.0.0\tApache-2.0 WITH LLVM-exception", 0),
            ("a v1.0.0\tMPL-2.0", 1),
            ("a v1.0.0\t", 1),
            ("a v1.0.0\tas you like", 1),
            ("ring v0.17.14\tMIT", 1),
        ] {
            assert_eq!(faults_of(rules, line).unwrap().len(), expected, "{line}");
        }
    }
}
