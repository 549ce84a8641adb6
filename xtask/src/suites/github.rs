//! GitHub's published description of its API: installed once for each pinned version, and used to validate the exchanges
//! between `ah work` and the test kit's GitHub.
//!
//! The test is `cli/tests/it/work/shape.rs`; a variable names the folder of the description, and without it the test
//! does nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;
use crate::workspace::{cargo, root, run};

/// Variable that names the folder of the description to the test.
const VARIABLE: &str = "AH_TEST_GITHUB";
const PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs the description if necessary; returns its folder.
pub fn install() -> Result<PathBuf> {
    let interop = root().join("interop/github");
    let pins = cache::read(&interop, &PINS)?;
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("github", &pins, |folder| {
        cache::install_node(folder, &interop, &[])
    })
}

/// Runs the test with the description in `folder`.
pub fn test(folder: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it"])
        .args(["--", "work::shape::"])
        .env(VARIABLE, folder);
    run(&mut tests)
}
