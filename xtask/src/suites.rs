//! All of CI: the checks, then every suite of tests, then the names of those that this machine could not run.
//!
//! `cargo test --workspace` alone is hermetic. The other suites need something that not every machine has.

pub mod acp;
pub mod browser;
pub mod cache;
pub mod conformance;
pub mod differential;
mod features;
pub mod hubs;
pub mod inspect;
pub mod library;
pub mod litellm;
pub mod mcp;
pub mod openapi;
pub mod packages;
pub mod postgres;
pub mod programs;
pub mod projects;
mod registry;
pub mod sdk;

use anyhow::{Result, bail};

use crate::check::check;
use crate::workspace::{cargo, in_ci, root, run};

/// Suite inside `cargo test` that not every machine can run.
struct Suite {
    name: &'static str,
    /// Returns what this machine lacks for it, if anything.
    missing: fn() -> Option<&'static str>,
}

/// Suites inside `cargo test` that pass without testing anything where their material is missing.
const SUITES: [Suite; 2] = [
    Suite {
        name: "recordings",
        missing: || {
            let absent = !root().join("../shared/recordings").is_dir();
            absent.then_some("no folder ../shared/recordings")
        },
    },
    Suite {
        name: "postgres",
        missing: postgres::missing,
    },
];

/// Selection of suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Suites without large downloads.
    AtHand,
    /// All suites.
    All,
}

/// Runs the checks and the suites. The last line names the suites that were left out; in CI that is an error.
pub fn test(wanted: Wanted) -> Result<()> {
    check()?;
    run(cargo().args(["test", "--workspace"]))?;
    features::test()?;

    let mut left_out: Vec<String> = SUITES
        .iter()
        .filter_map(|suite| Some(format!("{} ({})", suite.name, (suite.missing)()?)))
        .collect();
    match mcp::install() {
        Err(missing) => left_out.push(format!("mcp ({missing:#})")),
        Ok(folder) => mcp::test(&folder)?,
    }
    match acp::install() {
        Err(missing) => left_out.push(format!("acp ({missing:#})")),
        Ok(folder) => acp::test(&folder)?,
    }
    left_out.extend(packages::test(None)?);
    match hubs::install() {
        Err(missing) => left_out.push(format!("hubs ({missing:#})")),
        Ok(hubs) => hubs::test(&hubs)?,
    }
    match projects::install() {
        Err(missing) => left_out.push(format!("projects ({missing:#})")),
        Ok(folder) => projects::test(&folder)?,
    }
    match cache::node_version() {
        Err(missing) => left_out.push(format!("differential ({missing:#})")),
        Ok(_) => differential::test()?,
    }
    match sdk::install() {
        Err(missing) => left_out.push(format!("sdk ({missing:#})")),
        Ok(sdks) => left_out.extend(sdk::test(&sdks)?),
    }
    // Unlike the rest, a browser is in no registry: a machine without one tests all else.
    let mut absent = Vec::new();
    match browser::chromium().map(browser::install) {
        None => absent.push("browser (no Chromium in PATH)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("browser ({missing:#})")),
        Some(Ok(browser)) => browser::test(&browser)?,
    }
    let is_fetched = wanted == Wanted::All || in_ci();
    match is_fetched.then(litellm::install) {
        None => left_out.push("litellm (a download of 750 MB; use `--all`)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("litellm ({missing:#})")),
        Some(Ok(python)) => litellm::test(&python)?,
    }
    match is_fetched.then(inspect::install) {
        None => left_out.push("inspect (a download of 450 MB; use `--all`)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("inspect ({missing:#})")),
        Some(Ok(python)) => inspect::test(&python)?,
    }
    match is_fetched.then(conformance::install) {
        None => left_out.push("conformance (a download of 250 MB; use `--all`)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("conformance ({missing:#})")),
        Some(Ok(folder)) => conformance::test(&folder)?,
    }
    match is_fetched.then(programs::install) {
        None => left_out.push("programs (a download of 200 MB; use `--all`)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("programs ({missing:#})")),
        Some(Ok(programs)) => programs::test(&programs)?,
    }
    match is_fetched.then(openapi::install) {
        None => left_out.push("openapi (a download of 90 MB; use `--all`)".to_owned()),
        Some(Err(missing)) => left_out.push(format!("openapi ({missing:#})")),
        Some(Ok(fuzzer)) => openapi::test(&fuzzer)?,
    }
    if is_fetched {
        library::test(&library::build()?)?;
    } else {
        left_out.push("library (a build of its own; use `--all`)".to_owned());
    }
    if in_ci() && !left_out.is_empty() {
        bail!("left out although CI is set: {}", left_out.join(", "));
    }
    left_out.extend(absent);
    if left_out.is_empty() {
        println!("every suite ran");
    } else {
        println!("every suite ran except: {}", left_out.join(", "));
    }
    Ok(())
}
