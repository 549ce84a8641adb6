//! Sessions through the real LiteLLM proxy: installs it once for each set of pinned versions, and runs the tests that use
//! it.
//!
//! The tests are in `cli/tests/it/litellm.rs`. They start and stop the proxy themselves; a variable names its Python, and
//! without it they do nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;

/// Variable that names the proxy's Python to the tests.
pub const VARIABLE: &str = "AH_TEST_LITELLM";

/// Installs the proxy if necessary; returns its Python.
pub fn install() -> Result<PathBuf> {
    Ok(cache::python("litellm")?.join("bin/python"))
}

/// Runs the tests with the proxy of `python`.
pub fn test(python: &Path) -> Result<()> {
    cache::test_with(&[(VARIABLE, python)], &["litellm::"])
}
