//! Launchers that wait for their order, as their parent sees them. One is kept ahead of the commands, ready with the layout
//! of the last one, since the setup of a sandbox takes longer than all else about a short command.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::wire::ParentMessage;
use crate::LAUNCHER;
use crate::plan::{Layout, Plan};

/// What a launcher is started with.
pub(super) struct LauncherStart {
    pub program: PathBuf,
    /// The workspace: its argument, so that people see in a list of processes what it belongs to.
    pub workspace: PathBuf,
    pub plan: Plan,
    /// User and network namespace to join.
    pub namespaces: Option<[OwnedFd; 2]>,
}

/// Launcher that waits for its order. When dropped, it exits.
pub(super) struct WaitingLauncher {
    /// Closed before the process is waited for, which ends it.
    link: OwnedFd,
    process: Waited,
    /// The list of mounts: tells when it has changed since.
    mounts: File,
    /// What it was told to get ready, if anything.
    layout: Option<Ready>,
}

/// What a launcher gets ready before there is a command.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Ready {
    pub layout: Layout,
    /// Whether file changes are to be recorded.
    pub is_recorded: bool,
}

/// Process that is waited for, unless taken out.
struct Waited(Option<Child>);

/// Launcher for the next command, if there is one.
#[derive(Clone, Default)]
pub(super) struct Spare(Arc<Mutex<Option<WaitingLauncher>>>);

impl WaitingLauncher {
    /// Starts a launcher.
    pub fn start(start: LauncherStart) -> io::Result<Self> {
        let (reply, started) = mpsc::channel();
        on_lasting_thread(move || drop(reply.send(Self::start_here(start))))?;
        started.recv().unwrap_or_else(|_| Err(no_thread()))
    }

    fn start_here(start: LauncherStart) -> io::Result<Self> {
        // Before the launcher copies the mounts.
        let mounts = File::open("/proc/self/mounts")?;
        let (link, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut command = Command::new(&start.program);
        command
            .arg(LAUNCHER)
            .arg(&start.workspace)
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !start.plan.forwards_signals {
            command.process_group(0);
        }
        let program = start.program.display();
        let process = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("`{program}`: {error}")))?;
        let launcher = Self {
            link,
            process: Waited(Some(process)),
            mounts,
            layout: None,
        };
        ParentMessage::Plan(start.plan, start.namespaces).send(&launcher.link)?;
        Ok(launcher)
    }

    /// Has the launcher get `ready`. Returns `false` if it has got something else ready, and is of no use for this.
    pub fn prepare(&mut self, ready: &Ready) -> io::Result<bool> {
        if let Some(before) = &self.layout {
            return Ok(before == ready);
        }
        let message = ParentMessage::Layout(ready.layout.clone(), ready.is_recorded);
        message.send(&self.link)?;
        self.layout = Some(ready.clone());
        Ok(true)
    }

    /// Returns the socket to the launcher.
    pub fn link(&self) -> &OwnedFd {
        &self.link
    }

    /// Returns the process and the socket of a launcher whose command runs.
    pub fn into_running(mut self) -> (Child, OwnedFd) {
        let process = self.process.0.take();
        (process.expect("taken out only here"), self.link)
    }

    /// Returns whether it is still there and sees the mounts as they are now.
    fn is_fresh(&self) -> bool {
        let now = Timespec::default();
        let mut polled = [
            // It tells when the other side is closed.
            PollFd::new(&self.link, PollFlags::empty()),
            PollFd::new(&self.mounts, PollFlags::PRI),
        ];
        matches!(poll(&mut polled, Some(&now)), Ok(0))
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ = process.wait();
        }
    }
}

impl Spare {
    /// Returns the launcher, which is replaced by [`Self::fill`].
    pub fn take(&self) -> Option<WaitingLauncher> {
        self.lock().take().filter(WaitingLauncher::is_fresh)
    }

    /// Starts a launcher for the next command, unless there is one, and has it get `ready`. Does not wait for it; if it
    /// fails, the next command starts its own and says why.
    pub fn fill(&self, start: LauncherStart, ready: Option<Ready>) {
        let spare = self.clone();
        let _ = on_lasting_thread(move || {
            if spare.lock().is_none()
                && let Ok(mut launcher) = WaitingLauncher::start_here(start)
                && ready.is_none_or(|ready| launcher.prepare(&ready).is_ok())
            {
                *spare.lock() = Some(launcher);
            }
        });
    }

    /// Ignores poison: each change is a single assignment.
    fn lock(&self) -> MutexGuard<'_, Option<WaitingLauncher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `job`, which must not panic, on a thread that lasts as long as this process: the kernel kills a launcher when
/// the thread that started it ends.
fn on_lasting_thread(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    type Job = Box<dyn FnOnce() + Send>;
    static JOBS: LazyLock<Option<mpsc::Sender<Job>>> = LazyLock::new(|| {
        let (jobs, received) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name("launchers".to_owned());
        let thread = thread.spawn(move || received.into_iter().for_each(|job| job()));
        thread.is_ok().then_some(jobs)
    });
    let jobs = JOBS.as_ref().ok_or_else(no_thread)?;
    jobs.send(Box::new(job)).map_err(|_| no_thread())
}

fn no_thread() -> io::Error {
    io::Error::other("no thread to start commands from")
}
