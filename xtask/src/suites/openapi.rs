//! `ah serve` against its description, `docs/openapi.json`: requests that Schemathesis makes up, none of which may fail in the
//! server, with every response as described; and the clients that three common generators make, each of which runs a session.
//!
//! The tests are in `interop/openapi` and `interop/clients`; `AH_TEST_EXAMPLES=1000` has the first try more than ten requests of each kind.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::cache;
use crate::workspace::{COMMAND_LINE, built, root, run};

/// Folders of what is installed.
pub struct Generators {
    /// A virtual environment with the fuzzer and a generator.
    python: PathBuf,
    /// Packages of Node.
    node: PathBuf,
}

/// Installs the fuzzer and the generators if necessary.
pub fn install() -> Result<Generators> {
    Ok(Generators {
        python: cache::python("openapi")?,
        node: cache::node("clients")?,
    })
}

/// Runs the tests.
pub fn test(generators: &Generators) -> Result<()> {
    let programs = generators.python.join("bin");
    let mut node = cache::offline(&Command::new("node"));
    node.current_dir(root().join("interop"))
        .args(["--test", "--test-reporter=spec"])
        .args(["openapi/fuzz.mjs", "clients/clients.mjs"])
        .env("AH_BINARY", built(COMMAND_LINE, "ah", "dev")?)
        .env("AH_TEST_LOOPBACK", built("ah-testkit", "loopback", "dev")?)
        .env("SCHEMATHESIS", programs.join("schemathesis"))
        .env("GENERATORS", &generators.node)
        .env("PYTHON_GENERATORS", programs);
    run(&mut node)
}
