//! `ah serve` against its description: requests that Schemathesis makes up from `docs/openapi.json`. None may fail in the server,
//! and every response has to be as described.
//!
//! The test is `interop/openapi/fuzz.mjs`; `AH_TEST_EXAMPLES=1000` has it try more than ten requests of each kind.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::cache;
use crate::workspace::{COMMAND_LINE, built, root, run};

/// Installs the fuzzer if necessary; returns its program.
pub fn install() -> Result<PathBuf> {
    cache::node_version()?;
    Ok(cache::python("openapi")?.join("bin/schemathesis"))
}

/// Runs the test.
pub fn test(fuzzer: &Path) -> Result<()> {
    let mut node = cache::offline(&Command::new("node"));
    node.current_dir(root().join("interop/openapi"))
        .args(["--test", "--test-reporter=spec", "fuzz.mjs"])
        .env("AH_BINARY", built(COMMAND_LINE, "ah", "dev")?)
        .env("AH_TEST_LOOPBACK", built("ah-testkit", "loopback", "dev")?)
        .env("SCHEMATHESIS", fuzzer);
    run(&mut node)
}
