//! The same interface where no way to confine a command is known: nothing starts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::access::Tier;
use crate::command::{SetupError, Terminal};
use crate::confinement::Confinement;
use crate::proxy::Proxy;

/// A guarantee, of which there are none.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Guarantee {
    /// What must not be possible.
    pub name: String,
    /// What refuses it.
    pub mechanism: String,
    /// Whether it was refused.
    pub held: bool,
    /// The number of the error.
    pub errno: Option<i32>,
}

/// Refuses.
///
/// # Errors
///
/// Always.
pub fn check(_tier: Tier, _launcher: &Path) -> Result<Vec<Guarantee>, SetupError> {
    let system = std::env::consts::OS;
    Err(SetupError::Sandbox(format!("none is known on {system}")))
}

/// What the user can do.
pub fn remedy() -> String {
    "commands can be confined on Linux only".to_owned()
}

/// Whether this process is in a sandbox already, which is not known here.
pub fn is_confined() -> bool {
    false
}

/// Is the probe, which does nothing here.
pub fn probe(_arguments: impl Iterator<Item = OsString>) -> ! {
    process::exit(78)
}

/// A policy that nothing here can enforce.
pub struct Sandbox {
    confinement: Confinement,
    proxy: Proxy,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sandbox = f.debug_struct("Sandbox");
        { sandbox }
            .field("confinement", &self.confinement)
            .finish_non_exhaustive()
    }
}

/// A command that does not start.
pub struct Prepared {
    /// What would start it.
    pub command: Command,
}

/// A command that was started, of which there are none.
pub struct Child {
    /// Its process.
    pub process: process::Child,
    /// Its tie.
    pub guard: ChildGuard,
}

/// What ties a command to this process.
pub struct ChildGuard;

impl Sandbox {
    /// A sandbox by this policy.
    pub fn new(confinement: Confinement, proxy: Proxy, _launcher: PathBuf) -> Self {
        Self { confinement, proxy }
    }

    /// The way out.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn proxy_address(&self) -> std::io::Result<std::net::SocketAddr> {
        Err(std::io::Error::other("there is no sandbox here"))
    }

    /// The same sandbox.
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

    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn probe(&self) -> Result<(), SetupError> {
        let system = std::env::consts::OS;
        Err(SetupError::Sandbox(format!("none is known on {system}")))
    }

    /// The policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn prepare(
        &self,
        _program: &OsStr,
        _arguments: &[OsString],
        _cwd: &Path,
        _terminal: Terminal,
    ) -> Result<Prepared, SetupError> {
        let system = std::env::consts::OS;
        Err(SetupError::Sandbox(format!("none is known on {system}")))
    }
}

impl Prepared {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn spawn(self) -> Result<Child, SetupError> {
        Err(SetupError::Sandbox("none is known here".to_owned()))
    }
}

impl ChildGuard {
    /// What was moved aside: nothing.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Is the launcher, which does nothing here.
pub fn launcher(_arguments: impl Iterator<Item = OsString>) -> ! {
    process::exit(78)
}
