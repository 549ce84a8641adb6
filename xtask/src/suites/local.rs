//! A real model on a real server of this machine: installs both once for each set of pinned versions, and runs the tests that
//! use them.
//!
//! The tests are in `cli/tests/it/local.rs`. They start and stop the server themselves; a variable names the Python that has it, and
//! without it they do nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{cache, litellm};

/// Variable that names the Python to the tests.
const VARIABLE: &str = "AH_TEST_LOCAL";

/// Installs the server and the model if necessary; returns their Python.
pub fn install() -> Result<PathBuf> {
    Ok(cache::python("local")?.join("bin/python"))
}

/// Runs the tests with `python`.
pub fn test(python: &Path) -> Result<()> {
    let proxy = litellm::install()?;
    cache::test_with(
        &[(VARIABLE, python), (litellm::VARIABLE, &proxy)],
        &["local::"],
    )
}
