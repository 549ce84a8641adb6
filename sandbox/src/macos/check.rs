//! Checks whether the sandbox works on this machine: tries forbidden operations from inside, by programs of the system.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;

use serde::Serialize;
use tempfile::TempDir;

use super::Sandbox;
use crate::access::Tier;
use crate::allowlist::Allowlist;
use crate::command::{Invocation, SetupError, Streams, Terminal};
use crate::confinement::Confinement;
use crate::proxy::Proxy;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarantee {
    /// Forbidden operation.
    pub name: String,
    /// Layers that refuse it.
    pub mechanism: String,
    /// Whether it was refused.
    pub held: bool,
    /// OS error number of the refusal, which a program does not tell.
    pub errno: Option<i32>,
}

/// Builds a sandbox around a temporary directory and runs all checks in it.
///
/// # Errors
///
/// If a sandbox of this tier cannot be built, with the reason.
pub fn check(tier: Tier, launcher: &Path) -> Result<Vec<Guarantee>, SetupError> {
    let setup_error = |error: io::Error| SetupError::Sandbox(error.to_string());
    let folder = TempDir::with_prefix("ah-check-").map_err(setup_error)?;
    let root = fs::canonicalize(folder.path()).map_err(setup_error)?;
    let [home, outside, workspace] = ["home", "outside", "workspace"].map(|name| root.join(name));
    for path in [&home, &outside, &workspace.join(".git/hooks")] {
        fs::create_dir_all(path).map_err(setup_error)?;
    }
    fs::write(home.join("secret"), "secret").map_err(setup_error)?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(setup_error)?;
    let port = listener.local_addr().map_err(setup_error)?.port();
    let mut confinement = Confinement::new(workspace.clone(), Some(home));
    confinement.tier = tier;
    let proxy = Proxy::new(Allowlist::default());
    let sandbox = Sandbox::new(confinement, proxy, launcher.to_owned());
    sandbox.probe()?;
    let operations = [
        (
            "read a file in the home folder",
            "cat ../home/secret".to_owned(),
        ),
        (
            "write outside the workspace",
            "touch ../outside/new".to_owned(),
        ),
        ("write a git hook", "touch .git/hooks/x".to_owned()),
        ("rename the .git folder", "mv .git git".to_owned()),
        (
            "put git settings in place",
            "touch .git/commondir".to_owned(),
        ),
        (
            "reach a listener on this machine",
            format!("nc -z 127.0.0.1 {port}"),
        ),
        (
            "make a file that runs as its owner",
            "touch x && chmod 4755 x".to_owned(),
        ),
    ];
    let mut all = Vec::new();
    for (name, line) in operations {
        let arguments = ["-c".into(), line.into()];
        let mut child = sandbox.spawn(Invocation {
            program: "/bin/sh".as_ref(),
            arguments: &arguments,
            cwd: &workspace,
            environment: Vec::new(),
            streams: Streams::null().map_err(setup_error)?,
            terminal: Terminal::None,
            bounds: None,
        })?;
        let status = child.process.wait().map_err(setup_error)?;
        all.push(Guarantee {
            name: name.to_owned(),
            mechanism: "Seatbelt".to_owned(),
            held: !status.success(),
            errno: None,
        });
    }
    Ok(all)
}
