//! All of CI: the checks, then every suite of tests, and by name those that this machine could not run.
//!
//! `cargo test --workspace` alone is hermetic. What else there is needs something that not every machine has, and
//! is listed in [`SUITES`] with what it needs.

mod cache;
pub mod github;
pub mod litellm;
pub mod mcp;
pub mod sdk;

use anyhow::{Result, bail};

use crate::check::check;
use crate::workspace::{cargo, in_ci, root, run};

/// A suite that not every machine can run.
struct Suite {
    name: &'static str,
    /// What is missing here, if it is.
    missing: fn() -> Option<&'static str>,
}

/// Suites that run inside `cargo test` and pass unseen where their material is missing.
const SUITES: [Suite; 1] = [Suite {
    name: "recordings",
    missing: || {
        let absent = !root().join("../shared/recordings").is_dir();
        absent.then_some("no folder ../shared/recordings")
    },
}];

/// Which suites are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those that need nothing that has to be fetched.
    AtHand,
    /// All of them.
    All,
}

/// Runs the checks and the suites. Ends with one line that says what was left out; in CI that is a failure.
pub fn test(wanted: Wanted) -> Result<()> {
    check()?;
    run(cargo().args(["test", "--workspace"]))?;

    let mut left_out: Vec<String> = SUITES
        .iter()
        .filter_map(|suite| Some(format!("{} ({})", suite.name, (suite.missing)()?)))
        .collect();
    match mcp::install() {
        Err(missing) => left_out.push(format!("mcp ({missing:#})")),
        Ok(folder) => mcp::test(&folder)?,
    }
    match github::install() {
        Err(missing) => left_out.push(format!("github ({missing:#})")),
        Ok(folder) => github::test(&folder)?,
    }
    match sdk::install() {
        Err(missing) => left_out.push(format!("sdk ({missing:#})")),
        Ok(sdks) => left_out.extend(sdk::test(&sdks)?),
    }
    let is_fetched = wanted == Wanted::All || in_ci();
    match is_fetched.then(litellm::install) {
        None => left_out.push("litellm (750 MB to fetch; `--all` does)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("litellm ({missing:#})")),
        Some(Ok(python)) => litellm::test(&python)?,
    }
    if left_out.is_empty() {
        println!("every suite ran");
        return Ok(());
    }
    if in_ci() {
        bail!("left out, though CI is set: {}", left_out.join(", "));
    }
    println!("every suite ran but: {}", left_out.join(", "));
    Ok(())
}
