//! GitHub's own description of its API: installed once for each pin, and held against what `ah work` and the test kit's
//! GitHub say to each other.
//!
//! The test stands in `cli/tests/it/work/shape.rs` and learns from a variable where the description is; without the
//! variable it does nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;
use crate::workspace::{cargo, root, run};

/// Tells the test which folder has the description.
const VARIABLE: &str = "AH_TEST_GITHUB";
const PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs the description where it is not yet; gives its folder.
pub fn install() -> Result<PathBuf> {
    let interop = root().join("interop/github");
    let pins = cache::read(&interop, &PINS)?;
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("github", &pins, |folder| {
        cache::install_node(folder, &interop, &[])
    })
}

/// Runs the test with the description in this folder.
pub fn test(folder: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--package", "ah-cli", "--test", "it"])
        .args(["--", "work::shape::"])
        .env(VARIABLE, folder);
    run(&mut tests)
}
