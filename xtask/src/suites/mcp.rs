//! Runs with the reference MCP servers: installs them, once for each set of pins, and runs the tests that start them.
//!
//! The tests stand in `cli/tests/it/mcp/real.rs` and learn from a variable where the servers are; without the variable
//! they do nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::cache;
use crate::workspace::{cargo, output, root, run};

/// Tells the tests which folder has the servers.
const VARIABLE: &str = "AH_TEST_MCP";
const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];

/// Installs the servers where they are not yet; gives their folder.
pub fn install() -> Result<PathBuf> {
    let interop = root().join("interop/mcp");
    let python = cache::python_version()?;
    let node = output(Command::new("node").arg("--version")).map_err(|_| anyhow!("no node"))?;
    let mut pins = vec![python.into_bytes(), node.into_bytes()];
    for name in PINS {
        let path = interop.join(name);
        pins.push(fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
    }
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    cache::installed("mcp", &pins, |folder| {
        cache::install_python(&folder.join("python"), &interop.join("requirements.txt"))?;
        for name in &PINS[..2] {
            fs::copy(interop.join(name), folder.join(name))?;
        }
        // What packages want to run when they are installed is not needed.
        run(Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(folder))
        .map_err(|_| anyhow!("npm could not install it"))
    })
}

/// Runs the tests with the servers of this folder.
pub fn test(folder: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--package", "ah", "--test", "it"])
        .args(["--", "mcp::real::"])
        .env(VARIABLE, folder);
    run(&mut tests)
}
