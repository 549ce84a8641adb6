//! The quick half of CI: all checks that do not run the program.

use anyhow::{Result, bail};

use crate::workspace::{Package, cargo, packages, root, run};
use crate::{
    arrows, circles, doors, foreign, json, licenses, ports, prints, public, ratchets, sizes, tidy,
};

/// Checks format, rules, licences, lints and documentation, the cheapest first.
pub fn check() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    eprintln!("==> house rules");
    let faults = house_rules()?;
    for fault in &faults {
        eprintln!("{fault}");
    }
    match faults.len() {
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
fn house_rules() -> Result<Vec<String>> {
    let packages = packages()?;
    let folders: Vec<_> = packages.iter().map(Package::folder).collect();
    let mut faults = circles::faults(root(), &folders)?;
    faults.extend(doors::faults(root())?);
    faults.extend(foreign::faults(root(), &folders)?);
    faults.extend(json::faults(root(), &folders)?);
    faults.extend(ports::faults(root(), &folders)?);
    faults.extend(prints::faults(root(), &folders)?);
    faults.extend(public::faults(root())?);
    faults.extend(ratchets::faults(root(), &folders)?);
    faults.extend(sizes::faults(root(), &folders)?);
    faults.extend(tidy::faults(root())?);
    faults.extend(arrows::faults(&packages));
    faults.extend(licenses::faults()?);
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_keeps_the_rules() {
        let faults = house_rules().unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
