//! The store over a PostgreSQL server that the tests start on a temporary folder, kill and stop, and the program with that
//! store.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::workspace::{cargo, run};

/// Library that gives the workers clocks that are wrong, of the package `faketime`.
const FAKETIME: &str = "faketime/libfaketime.so.1";
/// Number of seeds with faults, if `AH_FAULT_SEEDS` does not say.
const SEEDS: &str = "20";

/// Returns what this machine lacks, if anything.
pub fn missing() -> Option<&'static str> {
    servers()
        .is_empty()
        .then_some("no PostgreSQL in /usr/lib/postgresql")
}

/// Returns the programs that set up a server, of each installed version.
pub fn servers() -> Vec<PathBuf> {
    let installed = Path::new("/usr/lib/postgresql").read_dir();
    let versions = installed.into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin/initdb"));
    programs.filter(|program| program.exists()).collect()
}

/// Runs the tests of the store with many seeds, and those of the program that has it.
pub fn test() -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}: `apt-get install postgresql`");
    }
    let proxy = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    if !proxy.iter().any(|path| Path::new(path).exists()) {
        eprintln!("left out: a proxy before PostgreSQL, since there is no pgbouncer");
    }
    let seeds = std::env::var("AH_FAULT_SEEDS").unwrap_or_else(|_| SEEDS.to_owned());
    let mut tests = cargo();
    tests
        .args(["test", "--workspace", "--features", "ah-cli/graphile"])
        .args([
            "--test",
            "it",
            "--",
            "fleet::",
            "faults::faults",
            "waking::",
        ])
        .env("AH_FAULT_SEEDS", seeds);
    match faketime() {
        Some(library) => tests.env("AH_FAULT_FAKETIME", library),
        None => {
            eprintln!("left out: workers whose clocks are wrong, since there is no faketime");
            &mut tests
        }
    };
    run(&mut tests)
}

fn faketime() -> Option<PathBuf> {
    let folders = Path::new("/usr/lib").read_dir().ok()?.flatten();
    let mut libraries = folders.map(|folder| folder.path().join(FAKETIME));
    libraries.find(|library| library.exists())
}
