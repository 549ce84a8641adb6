//! Starts commands in a sandbox.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::changes::{self, RecorderCell};
use super::journal::JournalEntry;
use super::kept::Kept;
use super::newcomers::{Project, ProjectSnapshot};
use super::quarantine::ProtectedSnapshot;
use super::session::Session;
use super::veil::{Readable, Running, Veil};
use super::waiting::{ENDED, Gone, LauncherStart, Membership, Ready, Spare, WaitingLauncher};
use super::wire::{LauncherMessage, ParentMessage};
use crate::allowlist::Allowlist;
use crate::bounds::Withheld;
use crate::command::{Invocation, SetupError, Streams, Terminal};
use crate::confinement::Confinement;
use crate::environment::PROXY_PORT;
use crate::plan::{Layout, Order, Plan, ResourceLimits};
use crate::proxy::Proxy;
use crate::proxy::thread::serve;
use crate::recorder::{Recorder, Recorders};
use crate::survey::Protected;

/// Policy, and the resources shared by all commands under it.
pub struct Sandbox {
    confinement: Confinement,
    project: Arc<Project>,
    launcher: PathBuf,
    limits: ResourceLimits,
    proxy: Proxy,
    /// What all commands share, from the first one on; `None` where the tier has no namespaces.
    session: Mutex<Option<Session>>,
    host_proxy: Mutex<Option<HostProxy>>,
    /// Folder of the journal of running commands.
    journal: Option<PathBuf>,
    /// Who is told of file changes.
    recorders: RecorderCell,
    /// Whether a command could be watched for file changes, as far as one was started.
    is_watching: Arc<AtomicBool>,
    /// What was hidden from the last command, and what those that run can read beside; nothing where mounts hide.
    hidden: Mutex<Veil>,
    readable: Readable,
    /// Launcher for the next command; `None` if there are not to be many.
    spare: Option<Spare>,
    /// Keeps the scratch directory alive; dropped with the sandbox.
    _keeper: Option<Box<dyn Send + Sync>>,
}

/// How often a sandbox is set up anew for one command because the project changed meanwhile.
const ATTEMPTS: usize = 5;

/// Proxy for this process, on the loopback interface of the host.
struct HostProxy {
    address: SocketAddr,
    /// Stops the proxy when dropped.
    _proxy: oneshot::Sender<()>,
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
    /// Tells of the end; closing it kills the command.
    link: OwnedFd,
    watch: Watch,
    recorder: Option<Arc<dyn Recorder>>,
    /// Tells when nothing of the command is left, if it is in a session.
    gone: Option<Gone>,
    next: Option<NextLauncher>,
}

/// What was there before a command.
struct Watch {
    snapshot: ProtectedSnapshot,
    /// Nothing where mounts protect the files.
    kept: Kept,
    /// Removed with this.
    _entry: Option<JournalEntry>,
    running: Option<Running>,
    project: ProjectSnapshot,
}

/// Launcher for the next command, started when a command has ended: both mount, and would wait for each other.
struct NextLauncher {
    spare: Spare,
    start: LauncherStart,
    ready: Ready,
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
    /// that calls [`crate::launcher`] if its first argument is [`crate::LAUNCHER`]. The workspace is searched for what is to be
    /// protected in it, which may take a while.
    pub fn new(mut confinement: Confinement, proxy: Proxy, launcher: PathBuf) -> Self {
        let folders = confinement.protect_workspace();
        Self {
            project: Arc::new(Project::new(confinement.clone(), folders)),
            confinement,
            launcher,
            proxy,
            limits: limits(),
            session: Mutex::new(None),
            host_proxy: Mutex::new(None),
            journal: None,
            recorders: RecorderCell::default(),
            is_watching: Arc::default(),
            hidden: Mutex::default(),
            readable: Readable::default(),
            spare: None,
            _keeper: None,
        }
    }

    /// Keeps the contents of `/tmp`, `/var/tmp` and the home directory between commands. They are stored in `folder`,
    /// which must be empty and exist as long as `keeper`. From the first command on, a process waits for the next.
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
        self.spare = Some(Spare::default());
        self._keeper = Some(Box::new(keeper));
        Ok(self)
    }

    /// Returns a sandbox with the same policy and temporary directories, but a session of its own, in which also the
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
            session: Mutex::new(None),
            host_proxy: Mutex::new(None),
            journal: self.journal.clone(),
            recorders: self.recorders.clone(),
            is_watching: self.is_watching.clone(),
            hidden: Mutex::default(),
            readable: self.readable.clone(),
            spare: None,
            _keeper: Some(Box::new(self.clone())),
        }
    }

    /// Keeps a journal of running commands in `folder`, for [`crate::finish_journal`] should this process be killed.
    #[must_use]
    pub fn with_journal(mut self, folder: PathBuf) -> Self {
        self.journal = Some(folder);
        self
    }

    /// Returns whether the kernel lets this sandbox learn of file changes by its commands. Known after [`Self::probe`].
    pub fn can_record_changes(&self) -> bool {
        self.is_watching.load(Ordering::Relaxed)
    }

    /// Tells those of `recorders`, instead of earlier ones, of file changes by commands before they happen: of those that are
    /// started from now on.
    pub fn record_changes(&self, recorders: Arc<dyn Recorders>) {
        *self.recorders.lock() = Some(recorders);
    }

    fn recorders(&self) -> Option<Arc<dyn Recorders>> {
        self.recorders.lock().clone()
    }

    /// Runs a trivial command in the sandbox to see whether it works.
    ///
    /// # Errors
    ///
    /// If it does not, with the reason.
    pub fn probe(&self) -> Result<(), SetupError> {
        let invocation = Invocation {
            program: "true".as_ref(),
            arguments: &[],
            cwd: &self.confinement.workspace,
            environment: Vec::new(),
            streams: Streams::null().map_err(SetupError::of)?,
            terminal: Terminal::None,
            bounds: None,
        };
        // It creates nothing, while this program may create files under protected names.
        let (mut child, _) = self.start(invocation, None, true)?;
        match child.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(SetupError::Sandbox(format!(
                "a test program ended with {status}"
            ))),
            Err(error) => Err(SetupError::of(error)),
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
        self.confinement.tier.has_namespaces().then_some(PROXY_PORT)
    }

    /// Returns the policy.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Starts a command and waits until it runs.
    ///
    /// # Errors
    ///
    /// If the policy is invalid, the sandbox cannot be set up, or the program cannot be executed.
    pub fn spawn(&self, invocation: Invocation<'_>) -> Result<Child, SetupError> {
        let is_alone = invocation.terminal != Terminal::None;
        let is_recorded = self.recorders().is_some();
        let (mut child, ready) = self.start(invocation, self.journal.as_deref(), is_recorded)?;
        // Without one, the next command starts its own: this one runs already.
        if let (Some(spare), false) = (&self.spare, is_alone)
            && let Ok(start) = self.launcher(Terminal::None)
        {
            child.guard.next = Some(NextLauncher {
                spare: spare.clone(),
                start,
                ready,
            });
        }
        Ok(child)
    }

    fn start(
        &self,
        mut invocation: Invocation<'_>,
        journal: Option<&Path>,
        is_recorded: bool,
    ) -> Result<(Child, Ready), SetupError> {
        self.confinement.validate().map_err(SetupError::Sandbox)?;
        let terminal = invocation.terminal;
        // It starts while paths are looked up.
        let mut launcher = self.take_launcher(terminal)?;
        let bounds = invocation.bounds.as_mut();
        let withheld = bounds.map(|bounds| std::mem::take(&mut bounds.withheld));
        let withheld = withheld.unwrap_or_default();
        let order = order(invocation);
        let mut attempts = 0;
        loop {
            let (ready, watch) = self.survey(&withheld, journal, is_recorded)?;
            let mut recorder = None;
            let given = self.give(&mut launcher, &ready, &order, &mut recorder)?;
            let Some(reason) = given else {
                let running = launcher.into_running();
                let guard = ChildGuard {
                    link: running.link,
                    watch,
                    recorder,
                    gone: running.gone,
                    next: None,
                };
                let process = running.process;
                return Ok((Child { process, guard }, ready));
            };
            if attempts == ATTEMPTS {
                return Err(SetupError::Sandbox(reason));
            }
            attempts += 1;
            launcher = self.new_launcher(terminal)?;
        }
    }

    /// Looks at the project before a command.
    fn survey(
        &self,
        withheld: &Withheld,
        journal: Option<&Path>,
        is_recorded: bool,
    ) -> Result<(Ready, Watch), SetupError> {
        let project = ProjectSnapshot::take(&self.project);
        self.put_back()?;
        let mut confinement = project.protecting(&self.confinement);
        confinement.withhold(withheld);
        let mut layout = Layout::of(&confinement).map_err(SetupError::of)?;
        let mut running = None;
        let mut veil = Veil::default();
        if !confinement.tier.has_namespaces() {
            veil = self.hide(Veil::over(&mut layout).map_err(SetupError::of)?);
            let begun = self.readable.begin(&mut layout, &veil);
            running = Some(begun.map_err(SetupError::of)?);
        }
        let snapshot = ProtectedSnapshot::take(confinement.watched_paths(&layout));
        let kept = match confinement.tier.has_namespaces() {
            true => Kept::default(),
            false => Kept::take(Protected::look(&confinement).paths()).veiled(veil),
        };
        // Before the command can create anything: it starts when it has received the order.
        let entry = journal
            .map(|folder| JournalEntry::write(folder, &snapshot, &kept, &project.record()))
            .transpose()
            .map_err(|error| {
                SetupError::Sandbox(format!("cannot write the journal of commands: {error}"))
            })?;
        let watch = Watch {
            snapshot,
            kept,
            _entry: entry,
            running,
            project,
        };
        let ready = Ready {
            layout,
            is_recorded,
        };
        Ok((ready, watch))
    }

    /// Puts back what commands have moved that still run. What has moved since the last one ended was moved by somebody else.
    fn put_back(&self) -> Result<(), SetupError> {
        if !self.readable.is_at_stake() {
            return Ok(());
        }
        let hidden = self.hidden.lock();
        // A sandbox that has hidden nothing cannot say that all is back.
        if *hidden != Veil::default() {
            hidden.restore().map_err(SetupError::of)?;
            self.readable.is_restored();
        }
        Ok(())
    }

    /// Keeps in mind what is hidden; returns it with what is hidden from commands that still run, which may move it where this
    /// one finds it.
    fn hide(&self, mut veil: Veil) -> Veil {
        let mut hidden = self.hidden.lock();
        if self.readable.is_at_stake() {
            veil.join(&hidden);
        }
        hidden.clone_from(&veil);
        veil
    }

    /// Gives a launcher its order, and waits until the command runs; `told` is then who is told of its changes. If the
    /// launcher cannot be used since the project has changed, returns the reason.
    fn give(
        &self,
        launcher: &mut WaitingLauncher,
        ready: &Ready,
        order: &ParentMessage,
        told: &mut Option<Arc<dyn Recorder>>,
    ) -> Result<Option<String>, SetupError> {
        let sent = match launcher.prepare(ready, false) {
            Ok(false) => return Ok(Some("the project has changed".to_owned())),
            Ok(true) => order.send(launcher.link()),
            Err(error) => Err(error),
        };
        // The launcher may have exited, and told the reason over the socket.
        let is_closed = matches!(&sent, Err(error) if is_closed(error));
        if !is_closed {
            sent.map_err(SetupError::of)?;
        }
        loop {
            match launcher.receive().map_err(SetupError::of)? {
                Some(LauncherMessage::Changes(listener)) => {
                    self.is_watching.store(true, Ordering::Relaxed);
                    if let (Some(recorders), ParentMessage::Order(order, _)) =
                        (self.recorders(), order)
                    {
                        let recorder = recorders.of_command(&order.environment);
                        changes::serve(listener, recorder.clone()).map_err(SetupError::of)?;
                        *told = Some(recorder);
                    }
                }
                Some(LauncherMessage::Stale(reason)) => return Ok(Some(reason)),
                Some(LauncherMessage::Running) => return Ok(None),
                Some(LauncherMessage::NoProgram(reason)) => {
                    return Err(SetupError::Program(reason));
                }
                Some(LauncherMessage::Failed(reason)) => return Err(SetupError::Sandbox(reason)),
                None if is_closed => return Ok(Some(ENDED.to_owned())),
                Some(LauncherMessage::Session(_) | LauncherMessage::Ended(_)) | None => {
                    return Err(SetupError::of("the launcher exited unexpectedly"));
                }
            }
        }
    }

    /// Returns a launcher for a command.
    fn take_launcher(&self, terminal: Terminal) -> Result<WaitingLauncher, SetupError> {
        if terminal == Terminal::None
            && let Some(launcher) = self.spare.as_ref().and_then(Spare::take)
        {
            return Ok(launcher);
        }
        self.new_launcher(terminal)
    }

    /// Starts a launcher for one command.
    fn new_launcher(&self, terminal: Terminal) -> Result<WaitingLauncher, SetupError> {
        WaitingLauncher::start(self.launcher(terminal)?).map_err(SetupError::of)
    }

    /// Returns how to start a launcher.
    fn launcher(&self, terminal: Terminal) -> Result<LauncherStart, SetupError> {
        let has_session = self.confinement.tier.has_namespaces();
        let membership = has_session.then(|| self.membership()).transpose()?;
        Ok(LauncherStart {
            program: self.launcher.clone(),
            workspace: self.confinement.workspace.clone(),
            plan: Plan {
                tier: self.confinement.tier,
                keeps_terminal: terminal == Terminal::Inherited,
                forwards_signals: terminal != Terminal::None,
                limits: self.limits,
            },
            membership,
        })
    }

    /// Returns a place in the session, which is made for the first command, and anew if a command has ended it.
    fn membership(&self) -> Result<Membership, SetupError> {
        let mut session = self.session.lock();
        let alive = match session.take().filter(Session::is_alive) {
            Some(alive) => alive,
            None => Session::start(
                self.launcher.clone(),
                self.confinement.workspace.clone(),
                self.confinement.tier,
                self.proxy.clone(),
            )?,
        };
        session.insert(alive).admit().map_err(SetupError::of)
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Returns the order for a command.
fn order(invocation: Invocation<'_>) -> ParentMessage {
    let order = Order {
        program: invocation.program.to_owned(),
        arguments: invocation.arguments.to_vec(),
        cwd: invocation.cwd.to_owned(),
        environment: invocation.environment,
        bounds: invocation.bounds,
    };
    ParentMessage::Order(Box::new(order), invocation.streams)
}

impl ChildGuard {
    /// Returns what becomes readable when the command has ended, before its launcher does.
    pub fn end(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    /// Waits for the end of the command and of all that it has started, and returns its status. The launcher is still to be
    /// waited for. `None` if it ends without having told; the status is its own then.
    pub fn status(&self) -> Option<ExitStatus> {
        if let Ok(Some(LauncherMessage::Ended(status))) = LauncherMessage::receive(&self.link) {
            return Some(ExitStatus::from_raw(status));
        }
        if let Some(gone) = &self.gone {
            gone.wait();
        }
        None
    }

    /// Returns whether all descendants of a command have ended with it, as its session sees to.
    pub fn has_ended_all(&self) -> bool {
        self.gone.is_some()
    }

    /// Moves aside files that the command has put at protected paths, and repositories that it has made so that git
    /// would run something in them. Where no mount prevents it, protected files that it has changed are restored. To be
    /// called after the command has ended. Returns the new paths, or the old ones of files that could not be moved.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        let mut moved = self.watch.snapshot.quarantine();
        match (self.watch.kept.put_back(), &self.watch.running) {
            (Ok(aside), _) => moved.extend(aside),
            // The next command is not started before it is.
            (Err(_), Some(running)) => running.has_lost(),
            (Err(_), None) => {}
        }
        moved.extend(self.watch.kept.restore());
        moved.extend(self.watch.project.quarantine());
        moved
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(recorder) = &self.recorder {
            recorder.ended();
        }
        if let Some(NextLauncher {
            spare,
            start,
            ready,
        }) = self.next.take()
        {
            spare.fill(start, ready);
        }
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
