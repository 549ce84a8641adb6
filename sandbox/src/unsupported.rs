//! Stub for builds and platforms without a sandbox: the same interface, but no command starts.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::Arc;

use crate::access::Tier;
use crate::allowlist::Allowlist;
use crate::bounds::{Bounds, Withheld};
use crate::command::{Invocation, SetupError};
use crate::confinement::Confinement;
use crate::proxy::Proxy;
use crate::recorder::Recorders;

/// Result of one check; never produced on this platform.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Guarantee {
    /// Forbidden operation.
    pub name: String,
    /// Layers that refuse it.
    pub mechanism: String,
    /// Whether it was refused.
    pub held: bool,
    /// OS error number of the refusal.
    pub errno: Option<i32>,
}

/// Returns an error: there is no sandbox on this platform.
///
/// # Errors
///
/// Always.
pub fn check(_tier: Tier, _launcher: &Path) -> Result<Vec<Guarantee>, SetupError> {
    Err(no_sandbox())
}

fn no_sandbox() -> SetupError {
    let text = if cfg!(target_os = "linux") {
        "not part of this build".to_owned()
    } else {
        format!("not supported on {}", std::env::consts::OS)
    };
    SetupError::Sandbox(text)
}

/// Returns advice for the user.
pub fn remedy() -> String {
    if cfg!(target_os = "linux") {
        "the sandbox requires a build with the feature `sandbox`".to_owned()
    } else {
        "the sandbox requires Linux".to_owned()
    }
}

/// Returns no paths: there is no journal on this platform.
pub fn finish_journal(_folder: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// Does nothing: not supported on this platform.
pub fn conceal(_is_secret: &dyn Fn(&str) -> bool) {}

/// Returns `false`: cannot be detected on this platform.
pub fn is_confined() -> bool {
    false
}

/// Exits: there is no probe on this platform.
pub fn probe(_arguments: impl Iterator<Item = OsString>) -> ! {
    process::exit(78)
}

impl Bounds {
    /// Returns `false`: there is no sandbox on this platform.
    pub fn can_be_kept() -> bool {
        false
    }

    /// Fails, since nothing here keeps a command within bounds.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn hold(&self, _command: &mut process::Command) -> Result<(), String> {
        Err("a single command cannot be confined further on this platform".to_owned())
    }
}

impl Withheld {
    /// Returns `false`: there is no sandbox on this platform.
    pub fn can_be_kept() -> bool {
        false
    }
}

/// Policy that cannot be enforced on this platform.
pub struct Sandbox {
    confinement: Confinement,
    proxy: Proxy,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("confinement", &self.confinement)
            .finish_non_exhaustive()
    }
}

/// Running command; never produced on this platform.
pub struct Child {
    /// Process of the command.
    pub process: process::Child,
    /// Guard of the command.
    pub guard: ChildGuard,
}

/// Guard of a running command.
pub struct ChildGuard;

impl Sandbox {
    /// Returns a sandbox that starts no commands.
    pub fn new(confinement: Confinement, proxy: Proxy, _launcher: PathBuf) -> Self {
        Self { confinement, proxy }
    }

    /// Returns the sandbox unchanged: nothing needs to be moved aside on this platform.
    #[must_use]
    pub fn with_journal(self, _folder: PathBuf) -> Self {
        self
    }

    /// Returns `false`: file changes by commands are not seen on this platform.
    pub fn can_record_changes(&self) -> bool {
        false
    }

    /// Does nothing, as [`Self::can_record_changes`] says.
    pub fn record_changes(&self, _: Arc<dyn Recorders>) {}

    /// Returns the proxy.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns an error: there is no sandbox on this platform.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn proxy_address(&self) -> std::io::Result<std::net::SocketAddr> {
        Err(std::io::Error::other(
            "the sandbox is not supported on this platform",
        ))
    }

    /// Returns `None`: there is no proxy on this platform.
    pub fn proxy_port(&self) -> Option<u16> {
        None
    }

    /// Returns the sandbox unchanged.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn with_scratch(
        self,
        _folder: &Path,
        _keeper: impl Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Ok(self)
    }

    /// Returns a sandbox that starts no commands either.
    pub fn extended(self: &Arc<Self>, home: Option<PathBuf>, more: &Allowlist) -> Self {
        Self {
            confinement: Confinement {
                own_home: home,
                ..self.confinement.clone()
            },
            proxy: self.proxy.extended(more),
        }
    }

    /// Returns an error: there is no sandbox on this platform.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn probe(&self) -> Result<(), SetupError> {
        Err(no_sandbox())
    }

    /// Returns the policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Returns an error: there is no sandbox on this platform.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn spawn(&self, _invocation: Invocation<'_>) -> Result<Child, SetupError> {
        Err(no_sandbox())
    }
}

impl ChildGuard {
    /// Returns `None`.
    pub fn end(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns `None`.
    pub fn status(&self) -> Option<ExitStatus> {
        None
    }

    /// Returns `false`: what a command leaves running is to be looked for.
    pub fn has_ended_all(&self) -> bool {
        false
    }

    /// Returns no paths.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Exits: there is no launcher on this platform.
pub fn launcher() -> ! {
    process::exit(78)
}
