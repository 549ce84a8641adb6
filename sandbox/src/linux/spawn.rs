//! Starts commands in a sandbox, from the outside.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, PipeWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::quarantine::ProtectedSnapshot;
use super::wire::LauncherMessage;
use crate::LAUNCHER;
use crate::access::Tier;
use crate::command::{SetupError, Terminal};
use crate::confinement::Confinement;
use crate::environment::{HELD, is_for_the_loader};
use crate::plan::{Layout, Plan, ResourceLimits};
use crate::proxy::Proxy;

/// A policy, and what the commands under it share.
pub struct Sandbox {
    confinement: Confinement,
    launcher: PathBuf,
    limits: ResourceLimits,
    proxy: Proxy,
    network: Mutex<Option<Network>>,
    host_proxy: Mutex<Option<HostProxy>>,
    /// What keeps the folder for temporary files; dropped with the sandbox.
    _keeper: Option<Box<dyn Send + Sync>>,
}

/// The network that the commands of a sandbox share, so that one reaches what another serves.
struct Network {
    user: OwnedFd,
    network: OwnedFd,
    /// Dropped, it ends the proxy.
    _proxy: oneshot::Sender<()>,
}

/// The proxy as what runs in this process reaches it.
struct HostProxy {
    address: SocketAddr,
    /// Dropped, it ends the proxy.
    _proxy: oneshot::Sender<()>,
}

/// A command on its way into the sandbox.
pub struct Prepared<'a> {
    /// What starts it. Streams and variables are for the caller to set; the variables are the command's.
    pub command: Command,
    sandbox: &'a Sandbox,
    link: OwnedFd,
    layout: PipeWriter,
    /// Whoever comes first makes the network; the others wait for it.
    first: Option<MutexGuard<'a, Option<Network>>>,
}

/// A command in the sandbox. Dropped, it and all that it has started are killed.
pub struct Child {
    /// The launcher, which ends as the command ends.
    pub process: process::Child,
    /// Keeps the command alive.
    pub guard: ChildGuard,
}

/// The tie between a command and this process.
pub struct ChildGuard {
    _socket: OwnedFd,
    snapshot: ProtectedSnapshot,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sandbox = f.debug_struct("Sandbox");
        { sandbox }
            .field("confinement", &self.confinement)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox by this policy, with `proxy` as its only way out. `launcher` is a program that calls [`crate::launcher`] where its first argument is
    /// [`LAUNCHER`].
    pub fn new(confinement: Confinement, proxy: Proxy, launcher: PathBuf) -> Self {
        Self {
            confinement,
            launcher,
            proxy,
            limits: limits(),
            network: Mutex::new(None),
            host_proxy: Mutex::new(None),
            _keeper: None,
        }
    }

    /// The same sandbox, in which commands find in `/tmp` and in the home what earlier ones have left there. It is kept
    /// in `folder`, which is empty and there as long as `keeper` is.
    ///
    /// # Errors
    ///
    /// Where nothing can be made in the folder.
    pub fn with_scratch(
        mut self,
        folder: &Path,
        keeper: impl Send + Sync + 'static,
    ) -> io::Result<Self> {
        let path = folder.canonicalize()?;
        for (name, mode) in [("tmp", 0o1777), ("var-tmp", 0o1777), ("home", 0o700)] {
            let place = path.join(name);
            fs::create_dir(&place)?;
            fs::set_permissions(place, Permissions::from_mode(mode))?;
        }
        self.confinement.scratch = Some(path);
        self._keeper = Some(Box::new(keeper));
        Ok(self)
    }

    /// Runs nothing in the sandbox, to see whether it can be built.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn probe(&self) -> Result<(), SetupError> {
        let cwd = &self.confinement.workspace;
        let mut prepared = self.prepare("true".as_ref(), &[], cwd, Terminal::None)?;
        prepared
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = prepared.spawn()?;
        match child.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(SetupError::Sandbox(format!(
                "a program in it ended with {status}"
            ))),
            Err(error) => Err(SetupError::Sandbox(error.to_string())),
        }
    }

    /// The way out.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Where on the loopback of this machine the proxy is reached, for what runs in this process and keeps to the same
    /// policy. It is there as long as the sandbox.
    ///
    /// # Errors
    ///
    /// Where it cannot be served.
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

    /// The policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Prepares a command.
    ///
    /// # Errors
    ///
    /// Where a path of the policy is not there, or nothing would be hidden.
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
        let joined = network.as_ref().map(Network::namespaces).transpose();
        let joined = joined.map_err(|error| setup_error(error.to_string()))?;
        let makes_network = joined.is_none() && self.confinement.tier == Tier::Full;
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
            first: makes_network.then_some(network),
        })
    }
}

/// Gives these to the child, and to no other child that is started meanwhile.
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
    /// A network whose proxy is served from now on.
    fn serve(fds: Vec<OwnedFd>, proxy: Proxy) -> io::Result<Self> {
        let [listener, user, network] = <[OwnedFd; 3]>::try_from(fds)
            .map_err(|_| io::Error::other("the launcher gave no network"))?;
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

/// Serves the proxy on a thread of its own, until what is given back is dropped: commands are started from many, and
/// the caller's runtime has other things to do.
fn serve(listener: TcpListener, proxy: Proxy) -> io::Result<oneshot::Sender<()>> {
    listener.set_nonblocking(true)?;
    let (end, ended) = oneshot::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("proxy".into()).spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            tokio::select! {
                () = proxy.serve_tcp(listener) => {}
                _ = ended => {}
            }
        });
        // A question that nobody answers any more must not hold us.
        runtime.shutdown_background();
    })?;
    Ok(end)
}

impl Prepared<'_> {
    /// Starts the command; returns when it runs.
    ///
    /// # Errors
    ///
    /// Where the sandbox could not be built, or the program is not there.
    pub fn spawn(mut self) -> Result<Child, SetupError> {
        let setup_error = |reason: String| SetupError::Sandbox(reason);
        hold(&mut self.command);
        let launcher = self.sandbox.launcher.display();
        let spawned = self.command.spawn();
        let process = spawned.map_err(|error| setup_error(format!("`{launcher}`: {error}")))?;
        // The child's ends are the child's alone, or its end would go unnoticed.
        drop(self.command);
        let mut process = KillOnDrop(Some(process));
        // The paths are looked up while the launcher comes to life.
        let confinement = &self.sandbox.confinement;
        let layout = Layout::of(confinement).map_err(|error| setup_error(error.to_string()))?;
        let snapshot = ProtectedSnapshot::look(confinement.watched_paths());
        tell(self.layout, &layout).map_err(|error| setup_error(error.to_string()))?;
        loop {
            let message = LauncherMessage::receive(&self.link);
            match message.map_err(|errno| setup_error(errno.to_string()))? {
                Some(LauncherMessage::Network(fds)) => {
                    let network = Network::serve(fds, self.sandbox.proxy.clone());
                    let network = network.map_err(|error| setup_error(error.to_string()))?;
                    if let Some(mut first) = self.first.take() {
                        *first = Some(network);
                    }
                }
                Some(LauncherMessage::Running) => break,
                Some(LauncherMessage::NoProgram(reason)) => {
                    return Err(SetupError::Program(reason));
                }
                Some(LauncherMessage::Failed(reason)) => return Err(setup_error(reason)),
                None => return Err(setup_error("the launcher has ended".to_owned())),
            }
        }
        Ok(Child {
            process: process.0.take().expect("it was put there"),
            guard: ChildGuard {
                _socket: self.link,
                snapshot,
            },
        })
    }
}

/// Tells the first process inside what is to be seen there.
fn tell(mut to: PipeWriter, layout: &Layout) -> io::Result<()> {
    match to.write_all(&serde_json::to_vec(layout)?) {
        // It has ended, and says why by the link.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Keeps from the launcher what is said to its loader and its library: it runs outside, and what is the command's must
/// not become part of it. The command gets it all the same.
fn hold(command: &mut Command) {
    let held: Vec<_> = { command.get_envs() }
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_owned())))
        .filter(|(name, _)| is_for_the_loader(name))
        .collect();
    for (name, value) in held {
        command
            .env_remove(&name)
            .env(format!("{HELD}{name}"), value);
    }
}

/// A launcher that is of no use any more unless it is taken out.
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
    /// To be called when the command has ended: moves aside what it has put where nothing may be put, and gives the
    /// new names, or the old ones of what could not be moved.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        self.snapshot.quarantine()
    }
}

/// Half of the machine's memory and more, and as many processes as a large build may have.
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
