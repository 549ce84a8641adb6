//! `ah acp` with the official client of the Agent Client Protocol, in both versions: installs it once for each set of pinned
//! versions, and runs the tests that start it.
//!
//! The tests are in `cli/tests/it/acp/client.rs`; a variable names the client's folder, and without it they do nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache;

/// Variable that names the client's folder to the tests.
const VARIABLE: &str = "AH_TEST_ACP";

/// Installs the client if necessary; returns its folder.
pub fn install() -> Result<PathBuf> {
    cache::node("acp")
}

/// Runs the tests with the client in `folder`.
pub fn test(folder: &Path) -> Result<()> {
    cache::test_with(&[(VARIABLE, folder)], &["acp::client::"])
}
