//! The conformance suite of the Model Context Protocol, for clients and servers.
//!
//! For clients, it is servers and issuers that watch what `ah` sends: `interop/conformance/client.mjs` uses the binary as its
//! user would. For servers, it asks over HTTP for tools and prompts by names of its own, which `ah mcp serve` does not have; so it
//! asks `mcp-server/examples/everything`, the same server with these beside its own. The suite is pinned, and so is the Node that it
//! runs on, since it needs one that is newer than many systems have.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::cache;
use crate::workspace::{COMMAND_LINE, built, cargo, root, run};

const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
/// Oldest Node that the suite runs on.
const OLDEST_NODE: u32 = 22;
/// Revisions whose requirements are met; each names its scenarios.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Scenarios that no revision requires and that apply: the extension for tasks, and what the suite has not decided on.
const SERVER_BEYOND: [&str; 13] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "json-schema-2020-12",
    "http-header-validation",
    "http-custom-header-server-validation",
];
/// The same for clients; which of them do not pass, and why, is in `interop/conformance/beyond.yml`.
const CLIENT_BEYOND: [&str; 7] = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/wif-jwt-bearer",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "json-schema-2020-12-preservation",
];

/// Installs the suite if necessary; returns its folder.
pub fn install() -> Result<PathBuf> {
    cache::node("conformance")
}

/// Runs the scenarios that each revision requires, of clients and of servers, and others.
pub fn test(folder: &Path) -> Result<()> {
    let node = node(folder)?;
    test_server(folder, &node)?;
    test_client(folder, &node)
}

fn test_server(folder: &Path, node: &Path) -> Result<()> {
    run(cargo().args(["build", "--workspace", "--example", "everything"]))?;
    let program = root().join("target/debug/examples/everything");
    let child = Command::new(program).stdout(Stdio::piped()).spawn()?;
    let mut server = Server(child);
    let output = server.0.stdout.take().context("it has no output")?;
    let mut url = String::new();
    BufReader::new(output).read_line(&mut url)?;
    for revision in REVISIONS {
        let mut suite = Command::new(node);
        suite
            .arg(folder.join(SUITE))
            .args(["server", "--requirements", revision])
            .args(["--url", url.trim()])
            .arg("--output-dir")
            .arg(results(&format!("server-{revision}")));
        run(&mut suite)?;
    }
    for scenario in SERVER_BEYOND {
        let mut suite = Command::new(node);
        suite
            .arg(folder.join(SUITE))
            .args(["server", "--url", url.trim(), "--scenario", scenario])
            .args(["--spec-version", REVISIONS[1], "--force"])
            .arg("--output-dir")
            .arg(results("server-beyond"));
        run(&mut suite)?;
    }
    Ok(())
}

/// A server that ends with its value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended is none to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn results(name: &str) -> PathBuf {
    root().join("target/conformance-results").join(name)
}

fn test_client(folder: &Path, node: &Path) -> Result<()> {
    let binary = built(COMMAND_LINE, "ah", "dev")?;
    let client = root().join("interop/conformance/client.mjs");
    let command = format!("{} {}", node.display(), client.display());
    for revision in REVISIONS {
        let mut suite = Command::new(node);
        suite
            .arg(folder.join(SUITE))
            .args(["client", "--requirements", revision, "--timeout", "120000"])
            .args(["--command", &command])
            .arg("--output-dir")
            .arg(results(revision))
            .env("AH", &binary);
        run(&mut suite)?;
    }
    for scenario in CLIENT_BEYOND {
        let mut suite = Command::new(node);
        suite
            .arg(folder.join(SUITE))
            .args(["client", "--scenario", scenario, "--timeout", "120000"])
            .args(["--spec-version", REVISIONS[1], "--force"])
            .args(["--command", &command])
            .arg("--expected-failures")
            .arg(root().join("interop/conformance/beyond.yml"))
            .arg("--output-dir")
            .arg(results("beyond"))
            .env("AH", &binary);
        run(&mut suite)?;
    }
    Ok(())
}

/// Returns the Node that was installed with the suite; where none is published, the one of the system.
fn node(folder: &Path) -> Result<PathBuf> {
    let (system, machine) = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", machine) => ("darwin", machine),
        other => other,
    };
    let machine = match machine {
        "aarch64" => "arm64",
        "x86_64" => "x64",
        other => other,
    };
    let node = folder.join(format!("node_modules/node-{system}-{machine}/bin/node"));
    if node.exists() {
        return Ok(node);
    }
    let version = cache::node_version()?;
    let major = version.trim_start_matches('v').split('.').next();
    if major
        .and_then(|it| it.parse().ok())
        .is_none_or(|it: u32| it < OLDEST_NODE)
    {
        bail!("node is {}, and {OLDEST_NODE} is needed", version.trim());
    }
    Ok(PathBuf::from("node"))
}
