//! The quick half of CI: all that can be said without running the program.

use anyhow::{Result, bail};

use crate::workspace::{cargo, packages, root, run};
use crate::{arrows, licenses, tidy};

/// Checks format, rules, licences, lints and documentation, the cheapest first.
pub fn check() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    eprintln!("==> house rules");
    report(&tidy::faults(root())?)?;
    report(&arrows::faults(&packages()?))?;
    report(&licenses::faults()?)?;
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

fn report(faults: &[String]) -> Result<()> {
    for fault in faults {
        eprintln!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        1 => bail!("one rule of the house is broken"),
        count => bail!("{count} rules of the house are broken"),
    }
}
