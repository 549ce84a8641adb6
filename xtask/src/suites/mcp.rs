//! Runs with the reference MCP servers: installs them once for each set of pinned versions, and runs the tests that start
//! them.
//!
//! The tests are in `cli/tests/it/mcp/real.rs` and `fast.rs`; a variable names the servers' folder, and without it they do nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;
use crate::workspace::root;

/// Variable that names the servers' folder to the tests.
const VARIABLE: &str = "AH_TEST_MCP";
const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];

/// Installs the servers if necessary; returns their folder.
pub fn install() -> Result<PathBuf> {
    let interop = root().join("interop/mcp");
    let python = cache::python_version()?;
    let mut pins = vec![python.into_bytes(), cache::node_version()?.into_bytes()];
    pins.extend(cache::read(&interop, &PINS)?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("mcp", &pins, |folder| {
        cache::install_python(&folder.join("python"), &interop.join("requirements.txt"))?;
        cache::install_node(folder, &interop, &[])
    })
}

/// Runs the tests with the servers in `folder`.
pub fn test(folder: &Path) -> Result<()> {
    cache::test_with(&[(VARIABLE, folder)], &["mcp::real::", "mcp::fast::"])
}
