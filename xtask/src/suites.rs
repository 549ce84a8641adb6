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
const SUITES: [Suite; 1] = [Suite {
    name: "recordings",
    missing: || {
        let absent = !root().join("../shared/recordings").is_dir();
        absent.then_some("no folder ../shared/recordings")
    },
}];

/// The same, of suites that need a server of the system's.
const SERVERS: [Suite; 1] = [Suite {
    name: "postgres",
    missing: postgres::missing,
}];

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

    let mut left_out = LeftOut(Vec::new());
    left_out.extend(missing(&SUITES));
    left_out.unless("mcp", mcp::install(), |folder| mcp::test(folder))?;
    left_out.unless("acp", acp::install(), |folder| acp::test(folder))?;
    left_out.extend(packages::test(None)?);
    left_out.unless("hubs", hubs::install(), hubs::test)?;
    left_out.unless("projects", projects::install(), |folder| {
        projects::test(folder)
    })?;
    left_out.unless("differential", cache::node_version(), |_| {
        differential::test()
    })?;
    match sdk::install() {
        Err(missing) => left_out.push("sdk", &format!("{missing:#}")),
        Ok(sdks) => left_out.extend(sdk::test(&sdks)?),
    }
    // Unlike the rest, a browser and a database server are in no registry: a machine without them tests all else.
    let mut absent = LeftOut(missing(&SERVERS));
    match browser::chromium().map(browser::install) {
        None => absent.push("browser", "no Chromium in PATH"),
        Some(installed) => left_out.unless("browser", installed, browser::test)?,
    }
    let is_fetched = wanted == Wanted::All || in_ci();
    let mut fetched = Fetched(is_fetched, &mut left_out);
    fetched.test("litellm", 750, litellm::install, |python| {
        litellm::test(python)
    })?;
    fetched.test("inspect", 450, inspect::install, |python| {
        inspect::test(python)
    })?;
    fetched.test("conformance", 250, conformance::install, |folder| {
        conformance::test(folder)
    })?;
    fetched.test("programs", 200, programs::install, programs::test)?;
    fetched.test("openapi", 90, openapi::install, |fuzzer| {
        openapi::test(fuzzer)
    })?;
    if is_fetched && postgres::missing().is_none() {
        postgres::test()?;
    }
    if is_fetched {
        library::test(&library::build()?)?;
    } else {
        left_out.push("library", "a build of its own; use `--all`");
    }
    if in_ci() && !left_out.0.is_empty() {
        bail!("left out although CI is set: {}", left_out.0.join(", "));
    }
    left_out.extend(absent.0);
    match &left_out.0[..] {
        [] => println!("every suite ran"),
        names => println!("every suite ran except: {}", names.join(", ")),
    }
    Ok(())
}

/// The suites that were left out, each with the reason.
struct LeftOut(Vec<String>);

impl LeftOut {
    fn push(&mut self, name: &str, reason: &str) {
        self.0.push(format!("{name} ({reason})"));
    }

    fn extend(&mut self, more: impl IntoIterator<Item = String>) {
        self.0.extend(more);
    }

    /// Runs a suite with what was installed for it; if that is missing, the suite is left out.
    fn unless<T>(
        &mut self,
        name: &str,
        installed: Result<T>,
        test: impl FnOnce(&T) -> Result<()>,
    ) -> Result<()> {
        match installed {
            Err(missing) => {
                self.push(name, &format!("{missing:#}"));
                Ok(())
            }
            Ok(installed) => test(&installed),
        }
    }
}

/// Runs the suites with large downloads, if they are wanted.
struct Fetched<'a>(bool, &'a mut LeftOut);

impl Fetched<'_> {
    /// Runs a suite, whose download has so many megabytes.
    fn test<T>(
        &mut self,
        name: &str,
        megabytes: u32,
        install: impl FnOnce() -> Result<T>,
        test: impl FnOnce(&T) -> Result<()>,
    ) -> Result<()> {
        let Self(is_wanted, left_out) = self;
        if !*is_wanted {
            let reason = format!("a download of {megabytes} MB; use `--all`");
            left_out.push(name, &reason);
            return Ok(());
        }
        left_out.unless(name, install(), test)
    }
}

/// Returns the suites whose material is missing.
fn missing(suites: &[Suite]) -> Vec<String> {
    let missing = |suite: &Suite| Some(format!("{} ({})", suite.name, (suite.missing)()?));
    suites.iter().filter_map(missing).collect()
}
