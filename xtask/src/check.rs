//! The quick half of CI: all checks that do not run the program.

use anyhow::{Result, bail};

use crate::workspace::{Findings, Package, cargo, packages, root, run};
use crate::{arrows, circles, licenses, prints, sizes, tidy};

/// Checks format, rules, licences, lints and documentation, the cheapest first.
pub fn check() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    eprintln!("==> house rules");
    let findings = house_rules()?;
    for line in findings.notes.iter().chain(&findings.faults) {
        eprintln!("{line}");
    }
    match findings.faults.len() {
        0 => {}
        1 => bail!("one house rule is violated"),
        count => bail!("{count} house rules are violated"),
    }
    run(cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    run(cargo()
        .args(["doc", "--quiet", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Returns all violations of the house rules.
fn house_rules() -> Result<Findings> {
    let packages = packages()?;
    let folders: Vec<_> = packages.iter().map(Package::folder).collect();
    let mut findings = circles::findings(root(), &folders)?;
    findings.faults.extend(prints::faults(root(), &folders)?);
    findings.faults.extend(sizes::faults(root(), &folders)?);
    findings.faults.extend(tidy::faults(root())?);
    findings.faults.extend(arrows::faults(&packages));
    findings.faults.extend(licenses::faults()?);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_keeps_the_rules() {
        let findings = house_rules().unwrap();
        assert!(findings.faults.is_empty(), "{}", findings.faults.join("\n"));
    }
}
