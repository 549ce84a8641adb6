//! The sandbox of one server: that of the session with a network and a lasting home directory of its own.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_process::{Allowlist, Sandbox};

use crate::config::{ServerConfig, Transport};
use crate::home::folder_name;
use crate::needs::base_name;
use crate::options::Confined;

/// Commands that talk to a daemon outside any sandbox, which hides it.
const CONTAINERS: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Sandbox of one server.
#[derive(Debug)]
pub(crate) struct ServerCell {
    pub(crate) sandbox: Arc<Sandbox>,
    /// Environment variables, besides those of the server's configuration.
    pub(crate) environment: Vec<(String, String)>,
    /// Whether the server may reach hosts where it can do more than install itself.
    pub(crate) reaches_out: bool,
    /// What the user can do if the program fails, for all we know from its configuration.
    hint: String,
    /// What allows hosts.
    remedy: String,
}

impl ServerCell {
    /// Returns the sandbox in which the server of this name runs, if any: only a child process can be confined.
    pub(crate) fn new(
        confined: Option<&Confined>,
        name: &str,
        config: &ServerConfig,
    ) -> Option<Self> {
        let is_free = |confined: &&Confined| confined.free.iter().any(|free| free == name);
        let confined = confined.filter(|confined| !is_free(confined))?;
        let Transport::Stdio(program) = &config.transport else {
            return None;
        };
        let home = confined.homes.as_ref().and_then(|homes| {
            let folder = folder_name(name, config.project.as_deref());
            let made = make(&homes.join(folder).join("home"));
            made.inspect_err(|error| {
                tracing::warn!(server = name, "its home directory cannot be kept: {error}");
            })
            .ok()
        });
        let is_complete = confined.sandbox.proxy().allowlist().is_complete;
        let hosts = if config.is_granted || config.needs.is_empty() {
            config.needs.allowed(is_complete)
        } else {
            // The user has been asked about these hosts, and did not allow them.
            Allowlist {
                is_complete: true,
                ..Allowlist::default()
            }
        };
        let sandbox = confined.sandbox.extended(home, &hosts);
        let own = sandbox.confinement().variables();
        let mut environment = confined.environment.clone();
        environment.retain(|(name, _)| !own.iter().any(|(own, _)| own == name));
        environment.extend(own);
        let hint = if CONTAINERS.contains(&base_name(&program.command)) {
            format!(
                "`{}` needs its daemon, which is outside the sandbox: add `{name}` to `sandbox.unconfinedServers` in your settings",
                program.command
            )
        } else {
            "it runs in the sandbox: allow what it needs with `allowHosts` of the server, with `sandbox.unveil` and \
             `sandbox.env` in your settings, or run it outside with `sandbox.unconfinedServers`"
                .to_owned()
        };
        let remedy = match config.project {
            Some(_) if !config.is_granted => format!(
                "`ah mcp test {name}` on a terminal asks about the hosts of a project's server and remembers the answer; \
                 `sandbox.allowHosts` in your settings allows hosts for all programs"
            ),
            _ => "allow them with `allowHosts` of the server, or for all programs with `sandbox.allowHosts` in your settings"
                .to_owned(),
        };
        Some(Self {
            remedy,
            sandbox: Arc::new(sandbox),
            environment,
            reaches_out: config.is_granted && config.needs.reaches_out(),
            hint,
        })
    }

    /// Returns what the sandbox refused since the last call, with what would allow it.
    pub(crate) fn refusals(&self) -> Option<String> {
        let refused = self.sandbox.proxy().take_refusals();
        (!refused.is_empty()).then(|| {
            let refused = refused.join("; ");
            format!(
                "the sandbox refused connections: {refused}; {}",
                self.remedy
            )
        })
    }

    /// Returns what the user can do about a failure for which nothing was refused.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

/// Makes the folder, readable by the user alone; returns its path without symbolic links.
fn make(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    folder.canonicalize()
}
