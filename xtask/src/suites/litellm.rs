//! Sessions through the real LiteLLM proxy: installs it once for each set of pinned versions, and runs the tests that use
//! it.
//!
//! The tests are in `cli/tests/it/litellm.rs`. They start and stop the proxy themselves; a variable names its Python, and
//! without it they do nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache;
use crate::workspace::{cargo, root, run};

/// Variable that names the proxy's Python to the tests.
const VARIABLE: &str = "AH_TEST_LITELLM";

/// Installs the proxy if necessary; returns its Python.
pub fn install() -> Result<PathBuf> {
    let pins = root().join("interop/litellm/requirements.txt");
    let version = cache::python_version()?;
    let text = fs::read(&pins).with_context(|| format!("reading {}", pins.display()))?;
    let folder = cache::installed("litellm", &[&text, version.as_bytes()], |folder| {
        cache::install_python(folder, &pins)
    })?;
    Ok(folder.join("bin/python"))
}

/// Runs the tests with the proxy of `python`.
pub fn test(python: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it"])
        .args(["--", "litellm::"])
        .env(VARIABLE, python);
    run(&mut tests)
}
