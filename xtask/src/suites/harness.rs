//! The tasks of harness-bench-fast, whose gold answers a scripted model gives, with the verifier of each as the check of its run:
//! installs them once for each set of pinned versions, and runs the test.
//!
//! The test is in `cli/tests/it/harness.rs`; a variable names the Python that has the tasks, and without it it does nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache;

/// Variable that names the Python to the test.
const VARIABLE: &str = "AH_TEST_HARNESS";
/// Minor version of the oldest Python 3 that has the tasks.
const OLDEST_PYTHON: u32 = 12;
/// What a machine without such a Python lacks.
const LACKING: &str = "no Python from 3.12 on";

/// Returns what this machine lacks, if anything.
pub fn missing() -> Option<&'static str> {
    cache::newer_python(OLDEST_PYTHON)
        .is_none()
        .then_some(LACKING)
}

/// Installs the tasks if necessary; returns their Python.
pub fn install() -> Result<PathBuf> {
    let (python, version) = cache::newer_python(OLDEST_PYTHON).context(LACKING)?;
    Ok(cache::python_by(python, &version, "harness")?.join("bin/python"))
}

/// Runs the test with `python`.
pub fn test(python: &Path) -> Result<()> {
    cache::test_with(&[(VARIABLE, python)], &["harness::"])
}
