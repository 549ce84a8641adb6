//! Enforcement on macOS: every command runs under `sandbox-exec` with the profile of the policy.
//!
//! One layer, and no launcher: a command is a child of this process. Folders cannot be replaced, so the temporary ones
//! are used at their own paths, and the proxy listens on the loopback of the machine.

mod check;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgid, kill_process, kill_process_group, setrlimit,
};
use tokio::sync::oneshot;

pub use check::{Guarantee, check};

use crate::access::Tier;
use crate::allowlist::Allowlist;
use crate::bounds::{Bounds, Withheld};
use crate::command::{Invocation, SetupError, Streams, Terminal};
use crate::confinement::Confinement;
use crate::plan::Layout;
use crate::proxy::Proxy;
use crate::proxy::thread::serve;
use crate::recorder::Recorders;
use crate::seatbelt::profile;

/// Program that starts another one under a profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// File descriptors that may be open when a command starts.
const DESCRIPTORS: i32 = 4096;

impl Bounds {
    /// Returns `false`: only whole sandboxes have a profile.
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
    /// Returns `false`: only whole sandboxes have a profile.
    pub fn can_be_kept() -> bool {
        false
    }
}

/// Policy, and the proxy shared by all commands under it.
pub struct Sandbox {
    confinement: Confinement,
    proxy: Proxy,
    host_proxy: Mutex<Option<HostProxy>>,
    /// Keeps the scratch directory alive; dropped with the sandbox.
    _keeper: Option<Box<dyn Send + Sync>>,
}

/// Proxy on the loopback interface.
struct HostProxy {
    address: SocketAddr,
    /// Stops the proxy when dropped.
    _proxy: oneshot::Sender<()>,
}

/// Running command. When dropped, its process group is killed.
pub struct Child {
    /// Process of the command.
    pub process: process::Child,
    /// Keeps the command alive.
    pub guard: ChildGuard,
}

/// Guard of a running command, which is killed when this is dropped.
pub struct ChildGuard(Option<Pid>);

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("confinement", &self.confinement)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a sandbox that enforces `confinement`, with `proxy` as its only network access. No launcher is needed.
    pub fn new(mut confinement: Confinement, proxy: Proxy, _launcher: PathBuf) -> Self {
        confinement.protect_workspace();
        Self {
            confinement,
            proxy,
            host_proxy: Mutex::new(None),
            _keeper: None,
        }
    }

    /// Keeps temporary files between commands. They are stored in `folder`, which must be empty and exist as long as
    /// `keeper`.
    ///
    /// # Errors
    ///
    /// If the directories cannot be created.
    pub fn with_scratch(
        mut self,
        folder: &Path,
        keeper: impl Send + Sync + 'static,
    ) -> io::Result<Self> {
        self.confinement.make_scratch(folder)?;
        self._keeper = Some(Box::new(keeper));
        Ok(self)
    }

    /// Returns a sandbox with the same policy and temporary directories, but a proxy of its own, by which also the hosts
    /// of `more` can be reached. `home`, an existing directory without symbolic links, replaces the home directory.
    pub fn extended(self: &Arc<Self>, home: Option<PathBuf>, more: &Allowlist) -> Self {
        Self {
            confinement: Confinement {
                own_home: home,
                ..self.confinement.clone()
            },
            proxy: self.proxy.extended(more),
            host_proxy: Mutex::new(None),
            _keeper: Some(Box::new(self.clone())),
        }
    }

    /// Runs a trivial command in the sandbox to see whether it works.
    ///
    /// # Errors
    ///
    /// If it does not, with the reason.
    pub fn probe(&self) -> Result<(), SetupError> {
        let mut child = self.spawn(Invocation {
            program: "/usr/bin/true".as_ref(),
            arguments: &[],
            cwd: &self.confinement.workspace,
            environment: Vec::new(),
            streams: Streams::null().map_err(SetupError::of)?,
            terminal: Terminal::None,
            bounds: None,
        })?;
        match child.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(SetupError::Sandbox(format!(
                "a test program ended with {status}"
            ))),
            Err(error) => Err(SetupError::Sandbox(error.to_string())),
        }
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

    /// Returns the proxy's address on the loopback interface. It is served as long as the sandbox exists.
    ///
    /// # Errors
    ///
    /// If no listener can be created.
    pub fn proxy_address(&self) -> io::Result<SocketAddr> {
        let mut host_proxy = self.host_proxy.lock();
        if let Some(host_proxy) = &*host_proxy {
            return Ok(host_proxy.address);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let _proxy = serve(listener, self.proxy.clone())?;
        *host_proxy = Some(HostProxy { address, _proxy });
        Ok(address)
    }

    /// Returns the port at which commands find the proxy on their loopback interface; `None` if they have no network.
    pub fn proxy_port(&self) -> Option<u16> {
        self.proxy_address().ok().map(|address| address.port())
    }

    /// Returns the policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Starts a command.
    ///
    /// # Errors
    ///
    /// If the policy is invalid, another tier is wanted than this platform has, or the program that sets up the sandbox
    /// cannot be executed.
    pub fn spawn(&self, invocation: Invocation<'_>) -> Result<Child, SetupError> {
        let mut confinement = self.confinement.clone();
        if let Some(bounds) = &invocation.bounds {
            confinement.withhold(&bounds.withheld);
        }
        confinement.validate().map_err(SetupError::Sandbox)?;
        if confinement.tier != Tier::Full {
            let tier = confinement.tier.as_str();
            return Err(SetupError::Sandbox(format!("no tier `{tier}` on macOS")));
        }
        let layout = Layout::of(&confinement);
        let layout = layout.map_err(|error| SetupError::Sandbox(error.to_string()))?;
        let names = confinement.protected.iter();
        let protected: Vec<_> = names.map(|name| confinement.workspace.join(name)).collect();
        let workspace = &confinement.workspace;
        let profile = profile(&layout, workspace, &protected, self.proxy_port())
            .map_err(SetupError::Sandbox)?;
        let mut command = Command::new(SANDBOX_EXEC);
        command
            .arg("-p")
            .arg(profile)
            .arg(invocation.program)
            .args(invocation.arguments)
            .current_dir(invocation.cwd)
            .env_clear()
            .envs(invocation.environment)
            .stdin(invocation.streams.stdin)
            .stdout(invocation.streams.stdout)
            .stderr(invocation.streams.stderr);
        if invocation.terminal == Terminal::None {
            command.process_group(0);
        }
        let prepare = || {
            for number in 3..DESCRIPTORS {
                // SAFETY: the descriptor is marked, not closed; a number that is none is an error without effect.
                let fd = unsafe { BorrowedFd::borrow_raw(number) };
                let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
            }
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            setrlimit(Resource::Core, none).map_err(io::Error::from)
        };
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(prepare) };
        let process = command.spawn();
        let process =
            process.map_err(|error| SetupError::Sandbox(format!("`{SANDBOX_EXEC}`: {error}")))?;
        let guard = ChildGuard(Some(Pid::from_child(&process)));
        Ok(Child { process, guard })
    }
}

impl ChildGuard {
    /// Returns `None`: the end of its process is that of the command.
    pub fn end(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns `None`: the end of its process is that of the command.
    pub fn status(&self) -> Option<ExitStatus> {
        None
    }

    /// Returns `false`: what a command leaves running is to be looked for.
    pub fn has_ended_all(&self) -> bool {
        false
    }

    /// Returns no paths: protected files cannot be created in the first place.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(pid) = self.0.take() else {
            return;
        };
        let _ = if getpgid(Some(pid)) == Ok(pid) {
            kill_process_group(pid, Signal::KILL)
        } else {
            kill_process(pid, Signal::KILL)
        };
    }
}

/// Returns advice for the user.
pub fn remedy() -> String {
    format!(
        "the sandbox of macOS needs `{SANDBOX_EXEC}`, and cannot be used inside another sandbox"
    )
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

/// Exits: there is no launcher on this platform.
pub fn launcher() -> ! {
    process::exit(78)
}
