//! `ah` as an agent of Inspect: installs it once for each set of pinned versions, and runs the test that evaluates a sample.
//!
//! The test is in `cli/tests/it/inspect.rs`; a variable names the Python that has Inspect, and without it it does nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;

/// Variable that names the Python to the test.
const VARIABLE: &str = "AH_TEST_INSPECT";

/// Installs Inspect if necessary; returns its Python.
pub fn install() -> Result<PathBuf> {
    Ok(cache::python("inspect")?.join("bin/python"))
}

/// Runs the test with `python`.
pub fn test(python: &Path) -> Result<()> {
    // Inspect unpacks its tools to one folder of the machine, and a second run would start them half unpacked.
    cache::test_with(&[(VARIABLE, python)], &["inspect::", "--test-threads=1"])
}
