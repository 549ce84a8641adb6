//! Sessions through the real LiteLLM proxy: installs it, once for each set of pins, and runs the tests that ask it.
//!
//! The tests stand in `cli/tests/it/litellm.rs`. They start and stop the proxy themselves, and learn from a variable
//! where it is; without the variable they do nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache;
use crate::workspace::{cargo, root, run};

/// Tells the tests which Python has the proxy.
const VARIABLE: &str = "AH_TEST_LITELLM";

/// Installs the proxy where it is not yet; gives the Python that has it.
pub fn install() -> Result<PathBuf> {
    let pins = root().join("interop/litellm/requirements.txt");
    let version = cache::python_version()?;
    let text = fs::read(&pins).with_context(|| format!("reading {}", pins.display()))?;
    let folder = cache::installed("litellm", &[&text, version.as_bytes()], |folder| {
        cache::install_python(folder, &pins)
    })?;
    Ok(folder.join("bin/python"))
}

/// Runs the tests with the proxy of this Python.
pub fn test(python: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--package", "ah-cli", "--test", "it"])
        .args(["--", "litellm::"])
        .env(VARIABLE, python);
    run(&mut tests)
}
