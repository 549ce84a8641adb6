//! All of CI: every suite of tests, then the checks, which compile everything once more, then the names of the suites that this
//! machine could not run.
//!
//! `cargo test --workspace` alone is hermetic. The other suites need something that not every machine has.

pub mod acp;
pub mod browser;
pub mod cache;
pub mod conformance;
pub mod differential;
pub mod features;
pub mod harness;
pub mod hubs;
pub mod inspect;
pub mod library;
pub mod litellm;
pub mod local;
pub mod mcp;
pub mod openapi;
mod own;
pub mod packages;
mod passed;
pub mod postgres;
pub mod programs;
pub mod projects;
mod registry;
pub mod sdk;

use anyhow::{Result, bail};

use self::passed::{Passed, State};
use crate::check::check;
use crate::workspace::{in_ci, root};

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

/// The same, of suites that need what no registry has: a machine without it tests all else, CI's too.
const BEYOND_REGISTRIES: [Suite; 2] = [
    Suite {
        name: "postgres",
        missing: postgres::missing,
    },
    Suite {
        name: "harness",
        missing: harness::missing,
    },
];

/// Suites that CI runs by its schedule instead of for each change, each with why that is enough.
const NIGHTLY: [(&str, &str); 4] = [
    (
        "browser",
        "a download of 70 MB; the modules of the page have their tests in the suite `page`",
    ),
    (
        "features",
        "ten builds, of which each change tries the demo's; what they find breaks nobody who takes the whole",
    ),
    (
        "library",
        "a build of its own; its crates have their tests in the workspace",
    ),
    (
        "postgres",
        "the fleet's tests once more, over another store; those over SQLite run for each change",
    ),
];

/// Selection of suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Whether suites with large downloads run too.
    downloads: bool,
    /// Whether those of [`NIGHTLY`] run too.
    nightly: bool,
    /// Whether what passed before runs again.
    again: bool,
    /// Whether the time of each suite is printed.
    times: bool,
}

/// Reads the options of `cargo xtask test`.
pub fn wanted(options: &[&str]) -> Result<Wanted> {
    let mut wanted = Wanted {
        downloads: in_ci(),
        nightly: false,
        again: false,
        times: in_ci(),
    };
    for option in options {
        match *option {
            "--all" => (wanted.downloads, wanted.nightly) = (true, true),
            "--again" => wanted.again = true,
            "--times" => wanted.times = true,
            _ => bail!("unknown option `{option}` of test"),
        }
    }
    Ok(wanted)
}

/// Runs the suites, and in CI or with `--all` the checks. The last line names the suites that were left out; in CI that is an
/// error, but for those of [`NIGHTLY`] and [`BEYOND_REGISTRIES`].
pub fn test(wanted: Wanted) -> Result<()> {
    let passed = Passed::new(wanted.again);
    let everything = passed.state(&own::everything())?;
    let alone = |name, test: fn() -> Result<()>| {
        passed.unless(name, &everything, || test().map(|()| Vec::new()))
    };
    let own = passed.timed("building the tests", own::build)?;
    own::test(&own, &passed, &everything)?;
    alone("the demo's build", features::demo)?;
    if wanted.nightly {
        alone("features", features::test)?;
    }

    let state = own.state_of_suites(&passed)?;
    let mut suites = Suites {
        passed: &passed,
        state,
        with_downloads: wanted.downloads,
        left_out: missing(&SUITES),
    };
    suites.run("mcp", mcp::install(), |folder| mcp::test(folder))?;
    suites.run("acp", acp::install(), |folder| acp::test(folder))?;
    suites.run_parts("packages", || packages::test(None))?;
    suites.run("hubs", hubs::install(), hubs::test)?;
    suites.run("projects", projects::install(), |folder| {
        projects::test(folder)
    })?;
    suites.run("differential", cache::node_version(), |_| {
        differential::test()
    })?;
    suites.run("page", cache::node_version(), |_| browser::modules())?;
    match sdk::install() {
        Err(missing) => suites.leave_out("sdk", &format!("{missing:#}")),
        Ok(sdks) => suites.run_parts("sdk", || Ok(Vec::from_iter(sdk::test(&sdks)?)))?,
    }
    let mut absent = missing(&BEYOND_REGISTRIES);
    absent.extend(suites.downloads()?);
    if wanted.nightly {
        suites.run("browser", browser::install(), |folder| {
            browser::test(folder)
        })?;
    }
    // These build for themselves.
    suites.state = everything.clone();
    if wanted.nightly {
        if postgres::missing().is_none() {
            suites.run("postgres", Ok(()), |()| postgres::test())?;
        }
        suites.run("library", Ok(()), |()| library::test(&library::build()?))?;
    } else {
        let left = |(name, why): (&str, &str)| format!("{name} ({why}; use `--all`)");
        absent.extend(NIGHTLY.map(left));
    }
    if wanted.downloads {
        alone("checks", check)?;
    }
    if wanted.times {
        eprint!("{}", passed.times());
    }
    if in_ci() && !suites.left_out.is_empty() {
        bail!(
            "left out although CI is set: {}",
            suites.left_out.join(", ")
        );
    }
    suites.left_out.extend(absent);
    match &suites.left_out[..] {
        [] => println!("every suite passed"),
        names => println!("every suite passed except: {}", names.join(", ")),
    }
    Ok(())
}

/// Suites outside of `cargo test --workspace`, as they run.
struct Suites<'a> {
    passed: &'a Passed,
    /// What the next suites depend on, apart from what is installed for each: that is pinned by files that are part of it.
    state: State,
    /// Whether suites with large downloads run.
    with_downloads: bool,
    /// Those that were left out, each with the reason.
    left_out: Vec<String>,
}

impl Suites<'_> {
    fn leave_out(&mut self, name: &str, reason: &str) {
        self.left_out.push(format!("{name} ({reason})"));
    }

    /// Runs a suite that returns what it left out.
    fn run_parts(&mut self, name: &str, test: impl FnOnce() -> Result<Vec<String>>) -> Result<()> {
        let left_out = self.passed.unless(name, &self.state, test)?;
        self.left_out.extend(left_out);
        Ok(())
    }

    /// Runs a suite with what was installed for it; if that is missing, the suite is left out.
    fn run<T>(
        &mut self,
        name: &str,
        installed: Result<T>,
        test: impl FnOnce(&T) -> Result<()>,
    ) -> Result<()> {
        match installed {
            Err(missing) => {
                self.leave_out(name, &format!("{missing:#}"));
                Ok(())
            }
            Ok(installed) => self.run_parts(name, || test(&installed).map(|()| Vec::new())),
        }
    }

    /// Runs the suites with large downloads; returns those that no CI runs.
    fn downloads(&mut self) -> Result<Vec<String>> {
        let mut absent = Vec::new();
        self.download("litellm", 750, litellm::install, |python| {
            litellm::test(python)
        })?;
        self.download("inspect", 450, inspect::install, |python| {
            inspect::test(python)
        })?;
        if harness::missing().is_none() {
            self.download("harness", 30, harness::install, |python| {
                harness::test(python)
            })?;
        }
        self.download("conformance", 250, conformance::install, |folder| {
            conformance::test(folder)
        })?;
        self.download("programs", 700, programs::install, programs::test)?;
        // What a small model says depends on the processor: it does not decide about a change.
        if in_ci() {
            absent.push("local (a model on this machine; use `--all`)".to_owned());
        } else {
            self.download("local", 130, local::install, |python| local::test(python))?;
        }
        self.download("openapi", 260, openapi::install, openapi::test)?;
        Ok(absent)
    }

    /// Runs a suite, whose download has so many megabytes, if such are wanted.
    fn download<T>(
        &mut self,
        name: &str,
        megabytes: u32,
        install: impl FnOnce() -> Result<T>,
        test: impl FnOnce(&T) -> Result<()>,
    ) -> Result<()> {
        if self.with_downloads {
            return self.run(name, install(), test);
        }
        let reason = format!("a download of {megabytes} MB; use `--all`");
        self.leave_out(name, &reason);
        Ok(())
    }
}

/// Returns the suites whose material is missing.
fn missing(suites: &[Suite]) -> Vec<String> {
    let missing = |suite: &Suite| Some(format!("{} ({})", suite.name, (suite.missing)()?));
    suites.iter().filter_map(missing).collect()
}
