//! Starts commands in a sandbox.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, PipeWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::sync::oneshot;

use super::journal::JournalEntry;
use super::kept::Kept;
use super::newcomers::{Project, ProjectSnapshot};
use super::quarantine::ProtectedSnapshot;
use super::wire::LauncherMessage;
use crate::LAUNCHER;
use crate::allowlist::Allowlist;
use crate::command::{SetupError, Terminal};
use crate::confinement::Confinement;
use crate::environment::{HELD, PROXY_PORT, is_for_the_loader};
use crate::plan::{Layout, Plan, ResourceLimits};
use crate::proxy::Proxy;
use crate::proxy::thread::serve;

/// Policy, and the resources shared by all commands under it.
pub struct Sandbox {
    confinement: Confinement,
    project: Arc<Project>,
    launcher: PathBuf,
    limits: ResourceLimits,
    proxy: Proxy,
    network: Mutex<Option<Network>>,
    host_proxy: Mutex<Option<HostProxy>>,
    /// Folder of the journal of running commands.
    journal: Option<PathBuf>,
    /// Keeps the scratch directory alive; dropped with the sandbox.
    _keeper: Option<Box<dyn Send + Sync>>,
}

/// Network shared by all commands of a sandbox, so that they can reach each other's servers.
struct Network {
    user: OwnedFd,
    network: OwnedFd,
    /// Stops the proxy when dropped.
    _proxy: oneshot::Sender<()>,
}

/// Proxy for this process, on the loopback interface of the host.
struct HostProxy {
    address: SocketAddr,
    /// Stops the proxy when dropped.
    _proxy: oneshot::Sender<()>,
}

/// Command ready to start in the sandbox.
pub struct Prepared<'a> {
    /// Command to configure: standard streams and environment. The environment is passed on to the confined command.
    pub command: Command,
    sandbox: &'a Sandbox,
    link: OwnedFd,
    layout: PipeWriter,
    /// Folder of the journal of running commands.
    journal: Option<&'a Path>,
    /// Held by the first command, which creates the network; others wait for it.
    first: Option<MutexGuard<'a, Option<Network>>>,
}

/// Running command. When dropped, the command and all its descendants are killed.
pub struct Child {
    /// Launcher process; exits as the command does.
    pub process: process::Child,
    /// Keeps the command alive.
    pub guard: ChildGuard,
}

/// Guard of a running command, which is killed when this is dropped.
pub struct ChildGuard {
    _socket: OwnedFd,
    snapshot: ProtectedSnapshot,
    /// Nothing where mounts protect the files.
    kept: Kept,
    /// Removed with this guard.
    _entry: Option<JournalEntry>,
    project: ProjectSnapshot,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("confinement", &self.confinement)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a sandbox that enforces `confinement`, with `proxy` as its only network access. `launcher` is a program
    /// that calls [`crate::launcher`] if its first argument is [`LAUNCHER`]. The workspace is searched for what is to be
    /// protected in it, which may take a while.
    pub fn new(mut confinement: Confinement, proxy: Proxy, launcher: PathBuf) -> Self {
        let folders = confinement.protect_workspace();
        Self {
            project: Arc::new(Project::new(confinement.clone(), folders)),
            confinement,
            launcher,
            proxy,
            limits: limits(),
            network: Mutex::new(None),
            host_proxy: Mutex::new(None),
            journal: None,
            _keeper: None,
        }
    }

    /// Keeps the contents of `/tmp`, `/var/tmp` and the home directory between commands. They are stored in `folder`,
    /// which must be empty and exist as long as `keeper`.
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

    /// Returns a sandbox with the same policy and temporary directories, but a network of its own, in which also the
    /// hosts of `more` can be reached. `home`, an existing directory without symbolic links, replaces the home directory.
    pub fn extended(self: &Arc<Self>, home: Option<PathBuf>, more: &Allowlist) -> Self {
        Self {
            confinement: Confinement {
                own_home: home,
                ..self.confinement.clone()
            },
            project: self.project.clone(),
            launcher: self.launcher.clone(),
            proxy: self.proxy.extended(more),
            limits: self.limits,
            network: Mutex::new(None),
            host_proxy: Mutex::new(None),
            journal: self.journal.clone(),
            _keeper: Some(Box::new(self.clone())),
        }
    }

    /// Keeps a journal of running commands in `folder`, for [`crate::finish_journal`] should this process be killed.
    #[must_use]
    pub fn with_journal(mut self, folder: PathBuf) -> Self {
        self.journal = Some(folder);
        self
    }

    /// Runs a trivial command in the sandbox to see whether it works.
    ///
    /// # Errors
    ///
    /// If it does not, with the reason.
    pub fn probe(&self) -> Result<(), SetupError> {
        let cwd = &self.confinement.workspace;
        let mut prepared = self.prepare("true".as_ref(), &[], cwd, Terminal::None)?;
        // It creates nothing, while this program may create files under protected names.
        prepared.journal = None;
        prepared
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = prepared.spawn()?;
        match child.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(SetupError::Sandbox(format!(
                "a test program ended with {status}"
            ))),
            Err(error) => Err(SetupError::Sandbox(error.to_string())),
        }
    }

    /// Returns the proxy.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns the proxy's address on the host's loopback interface, for code in this process that follows the same
    /// policy. It is served as long as the sandbox exists.
    ///
    /// # Errors
    ///
    /// If no listener can be created.
    pub fn proxy_address(&self) -> io::Result<SocketAddr> {
        let mut host_proxy = self
            .host_proxy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
        self.confinement.tier.has_namespaces().then_some(PROXY_PORT)
    }

    /// Returns the policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Prepares a command.
    ///
    /// # Errors
    ///
    /// If the policy is invalid, or pipes cannot be created.
    pub fn prepare(
        &self,
        program: &OsStr,
        arguments: &[OsString],
        cwd: &Path,
        terminal: Terminal,
    ) -> Result<Prepared<'_>, SetupError> {
        let setup_error = |reason: String| SetupError::Sandbox(reason);
        self.confinement.validate().map_err(setup_error)?;
        let (link, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| setup_error(format!("socketpair: {errno}")))?;
        let (reader, layout) = io::pipe().map_err(|error| setup_error(format!("pipe: {error}")))?;
        let network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = network
            .as_ref()
            .map(Network::namespaces)
            .transpose()
            .map_err(|error| setup_error(error.to_string()))?;
        let makes_network = joined.is_none() && self.confinement.tier.has_namespaces();
        let plan = Plan {
            tier: self.confinement.tier,
            program: OsString::new(),
            arguments: Vec::new(),
            cwd: cwd.to_owned(),
            keeps_terminal: terminal == Terminal::Inherited,
            forwards_signals: terminal != Terminal::None,
            link: theirs.as_raw_fd(),
            layout: reader.as_raw_fd(),
            namespaces: joined
                .as_ref()
                .map(|[user, network]| (user.as_raw_fd(), network.as_raw_fd())),
            limits: self.limits,
        };
        let plan = serde_json::to_string(&plan).map_err(|error| setup_error(error.to_string()))?;
        let mut command = Command::new(&self.launcher);
        command.arg(LAUNCHER).arg(plan).arg(program).args(arguments);
        let mut inherited = vec![theirs, reader.into()];
        inherited.extend(joined.into_iter().flatten());
        inherit(&mut command, inherited);
        Ok(Prepared {
            command,
            sandbox: self,
            link,
            layout,
            journal: self.journal.as_deref(),
            first: makes_network.then_some(network),
        })
    }
}

/// Lets the child inherit these file descriptors, and no other child that is started meanwhile.
fn inherit(command: &mut Command, fds: Vec<OwnedFd>) {
    let give = move || {
        for fd in &fds {
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only.
    unsafe { command.pre_exec(give) };
}

impl Network {
    /// Serves the proxy of a new network.
    fn serve(fds: Vec<OwnedFd>, proxy: Proxy) -> io::Result<Self> {
        let [listener, user, network] = <[OwnedFd; 3]>::try_from(fds)
            .map_err(|_| io::Error::other("the launcher sent no network"))?;
        Ok(Self {
            user,
            network,
            _proxy: serve(listener.into(), proxy)?,
        })
    }

    fn namespaces(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.user.try_clone()?, self.network.try_clone()?])
    }
}

impl Prepared<'_> {
    /// Starts the command and waits until it runs.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be set up, or the program cannot be executed.
    pub fn spawn(mut self) -> Result<Child, SetupError> {
        let setup_error = |reason: String| SetupError::Sandbox(reason);
        hide_loader_variables(&mut self.command);
        let launcher = self.sandbox.launcher.display();
        let process = self
            .command
            .spawn()
            .map_err(|error| setup_error(format!("`{launcher}`: {error}")))?;
        // Close our copies of the child's file descriptors, or its end would not be noticed.
        drop(self.command);
        let mut process = KillOnDrop(Some(process));
        // Paths are resolved while the launcher starts.
        let project = ProjectSnapshot::take(&self.sandbox.project);
        let confinement = project.protecting(&self.sandbox.confinement);
        let layout = Layout::of(&confinement).map_err(|error| setup_error(error.to_string()))?;
        let snapshot = ProtectedSnapshot::take(confinement.watched_paths());
        let kept = match confinement.tier.has_namespaces() {
            true => Kept::default(),
            false => Kept::take(confinement.protected_files()),
        };
        // Before the command can create anything: it starts when it has received the layout.
        let entry = self
            .journal
            .map(|folder| JournalEntry::write(folder, &snapshot, &kept))
            .transpose()
            .map_err(|error| {
                setup_error(format!("cannot write the journal of commands: {error}"))
            })?;
        send_layout(self.layout, &layout).map_err(|error| setup_error(error.to_string()))?;
        loop {
            let message = LauncherMessage::receive(&self.link);
            match message.map_err(|errno| setup_error(errno.to_string()))? {
                Some(LauncherMessage::Network(fds)) => {
                    let network = Network::serve(fds, self.sandbox.proxy.clone())
                        .map_err(|error| setup_error(error.to_string()))?;
                    if let Some(mut first) = self.first.take() {
                        *first = Some(network);
                    }
                }
                Some(LauncherMessage::Running) => break,
                Some(LauncherMessage::NoProgram(reason)) => {
                    return Err(SetupError::Program(reason));
                }
                Some(LauncherMessage::Failed(reason)) => return Err(setup_error(reason)),
                None => return Err(setup_error("the launcher exited unexpectedly".to_owned())),
            }
        }
        Ok(Child {
            process: process.0.take().expect("the process was not taken before"),
            guard: ChildGuard {
                _socket: self.link,
                snapshot,
                kept,
                _entry: entry,
                project,
            },
        })
    }
}

/// Sends the layout to the first process inside.
fn send_layout(mut to: PipeWriter, layout: &Layout) -> io::Result<()> {
    match to.write_all(&serde_json::to_vec(layout)?) {
        // The process has exited, and reports the reason over the socket.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Renames variables that control the dynamic loader, so that they do not affect the launcher, which runs outside the
/// sandbox. The command still gets them.
fn hide_loader_variables(command: &mut Command) {
    let hidden: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_owned())))
        .filter(|(name, _)| is_for_the_loader(name))
        .collect();
    for (name, value) in hidden {
        command
            .env_remove(&name)
            .env(format!("{HELD}{name}"), value);
    }
}

/// Launcher process that is killed on failure, unless taken out.
struct KillOnDrop(Option<process::Child>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl ChildGuard {
    /// Moves aside files that the command has put at protected paths, and repositories that it has made so that git
    /// would run something in them. Where no mount prevents it, protected files that it has changed are restored. To be
    /// called after the command has ended. Returns the new paths, or the old ones of files that could not be moved.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        let mut moved = self.snapshot.quarantine();
        moved.extend(self.kept.restore());
        moved.extend(self.project.quarantine());
        moved
    }
}

/// Returns the default limits: three quarters of the machine's memory, and enough processes for a large build.
fn limits() -> ResourceLimits {
    let memory = rustix::system::sysinfo();
    let total = memory.totalram * u64::from(memory.mem_unit.max(1));
    ResourceLimits {
        processes: 4096,
        file_bytes: 16 << 30,
        open_files: 65_536,
        memory_bytes: total / 4 * 3,
    }
}
