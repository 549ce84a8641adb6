//! Launchers that wait for their order, as their parent sees them. One is kept ahead of the commands, ready with the layout
//! of the last one, since the setup of a sandbox takes longer than all else about a short command.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::wire::{LauncherMessage, Namespaces, ParentMessage};
use crate::LAUNCHER;
use crate::plan::{Layout, Plan};

/// Reason why a launcher cannot be used.
pub(super) const ENDED: &str = "its launcher was ended";
/// Longest wait for a message of a launcher until it is told to go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Longest wait for the end of one that is not used any more.
const LEAVE: Duration = Duration::from_secs(1);

/// What a launcher is started with.
pub(super) struct LauncherStart {
    pub program: PathBuf,
    pub workspace: PathBuf,
    pub plan: Plan,
    /// The session to join, if the tier has them.
    pub membership: Option<Membership>,
}

/// A command's place in a session.
pub(super) struct Membership {
    pub namespaces: Namespaces,
    pub gone: Gone,
}

/// Tells when nothing is left of a command of a session.
pub(super) struct Gone {
    /// Gets a byte from the first process of the session then.
    pub told: PipeReader,
    /// That process, which is dead only when the kernel has ended all others.
    pub first: OwnedFd,
}

impl Gone {
    /// Waits until nothing is left. If the session ends by itself, the kernel ends the command, but not for ever: as for a
    /// launcher that is not used any more.
    pub fn wait(&self) {
        let mut told = &self.told;
        if told.read_exact(&mut [0]).is_err() {
            until_end(&self.first);
        }
    }
}

/// A process that is to become a launcher, or the first one of a session. When dropped, it exits.
pub(super) struct LauncherProcess {
    /// Closed before the process is waited for, which ends it.
    link: OwnedFd,
    process: Waited,
}

/// Launcher that waits for its order. When dropped, it exits.
pub(super) struct WaitingLauncher {
    process: LauncherProcess,
    /// The list of mounts: tells when it has changed since.
    mounts: File,
    /// What it was told to get ready, if anything.
    layout: Option<Ready>,
    /// Of its place in a session.
    gone: Option<Gone>,
}

/// A launcher whose command runs.
pub(super) struct RunningLauncher {
    pub process: Child,
    pub link: OwnedFd,
    /// Tells when nothing of the command is left, if it is in a session.
    pub gone: Option<Gone>,
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

impl LauncherProcess {
    /// Starts `program` as such a process, with the workspace as its argument, so that people see in a list of processes what
    /// it belongs to. Unless it `leads_group`, it gets the signals of the terminal.
    pub fn start(program: &Path, workspace: &Path, leads_group: bool) -> io::Result<Self> {
        let (link, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut command = Command::new(program);
        command
            .arg(LAUNCHER)
            .arg(workspace)
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if leads_group {
            command.process_group(0);
        }
        let program = program.display();
        let process = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("`{program}`: {error}")))?;
        Ok(Self {
            link,
            process: Waited(Some(process)),
        })
    }

    /// Returns the socket to it.
    pub fn link(&self) -> &OwnedFd {
        &self.link
    }
}

impl WaitingLauncher {
    /// Starts a launcher.
    pub fn start(start: LauncherStart) -> io::Result<Self> {
        on_lasting_thread(move || Self::start_here(start))
    }

    fn start_here(start: LauncherStart) -> io::Result<Self> {
        // Before the launcher copies the mounts.
        let mounts = File::open("/proc/self/mounts")?;
        let leads_group = !start.plan.forwards_signals;
        let process = LauncherProcess::start(&start.program, &start.workspace, leads_group)?;
        let (namespaces, gone) = match start.membership {
            Some(Membership { namespaces, gone }) => (Some(namespaces), Some(gone)),
            None => (None, None),
        };
        ParentMessage::Plan(start.plan, namespaces).send(&process.link)?;
        Ok(Self {
            process,
            mounts,
            layout: None,
            gone,
        })
    }

    /// Has the launcher get `ready`, `is_ahead` of the command. Returns `false` if it has got something else ready, and is of no
    /// use for this.
    pub fn prepare(&mut self, ready: &Ready, is_ahead: bool) -> io::Result<bool> {
        if let Some(before) = &self.layout {
            return Ok(before == ready);
        }
        let message = ParentMessage::Layout(ready.layout.clone(), ready.is_recorded, is_ahead);
        message.send(self.link())?;
        self.layout = Some(ready.clone());
        Ok(true)
    }

    /// Returns the socket to the launcher.
    pub fn link(&self) -> &OwnedFd {
        &self.process.link
    }

    /// Receives its next message once it has an order. Another command of the session may have stopped the processes of its
    /// group, or ended them: if none of them has read the order, it is stale.
    pub fn receive(&self) -> io::Result<Option<LauncherMessage>> {
        let patience = Timespec::try_from(PATIENCE).ok();
        loop {
            let mut polled = [PollFd::new(self.link(), PollFlags::IN)];
            match poll(&mut polled, patience.as_ref()) {
                Ok(0) => self.process.process.go_on(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    let is_unread = socket_error(self.link())? == Err(Errno::CONNRESET);
                    let message = LauncherMessage::receive(self.link())?;
                    let ended = || LauncherMessage::Stale(ENDED.to_owned());
                    return Ok(message.or_else(|| is_unread.then(ended)));
                }
            }
        }
    }

    /// Returns the launcher whose command runs.
    pub fn into_running(self) -> RunningLauncher {
        let LauncherProcess { link, mut process } = self.process;
        RunningLauncher {
            process: process.0.take().expect("taken out only here"),
            link,
            gone: self.gone,
        }
    }

    /// Returns whether it is still there and sees the mounts as they are now.
    fn is_fresh(&self) -> bool {
        let now = Timespec::default();
        let mut polled = [
            // It tells when the other side is closed.
            PollFd::new(self.link(), PollFlags::empty()),
            PollFd::new(&self.mounts, PollFlags::PRI),
        ];
        matches!(poll(&mut polled, Some(&now)), Ok(0))
    }
}

impl Waited {
    /// Has the processes of the group that it leads go on, if it leads one.
    fn go_on(&self) {
        if let Some(process) = &self.0 {
            let _ = kill_process_group(Pid::from_child(process), Signal::CONT);
        }
    }
}

impl Drop for Waited {
    /// Waits for the end, but not for ever: see [`until_end`].
    fn drop(&mut self) {
        let Some(process) = &mut self.0 else {
            return;
        };
        if let Ok(None) = process.try_wait()
            && let Ok(end) = pidfd_open(Pid::from_child(process), PidfdFlags::empty())
            && until_end(&end)
        {
            let _ = process.try_wait();
        }
    }
}

/// Waits until a process has ended, and returns whether it has; but not for ever: the kernel keeps a process namespace whose
/// processes it has killed until somebody has waited for each of them, and the orphans of a launcher that was killed may be
/// those of a process that never does, such as the first one of a container.
fn until_end(process: &OwnedFd) -> bool {
    let until = Instant::now() + LEAVE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled.is_ok_and(|count| count > 0),
        }
    }
}

impl Spare {
    /// Returns the launcher, which is replaced by [`Self::fill`].
    pub fn take(&self) -> Option<WaitingLauncher> {
        self.0.lock().take().filter(WaitingLauncher::is_fresh)
    }

    /// Starts a launcher for the next command, unless there is one, and has it get `ready`. Does not wait for it; if it
    /// fails, the next command starts its own and says why.
    pub fn fill(&self, start: LauncherStart, ready: Ready) {
        let spare = self.clone();
        let _ = post(move || {
            if spare.0.lock().is_none()
                && let Ok(mut launcher) = WaitingLauncher::start_here(start)
                && launcher.prepare(&ready, true).is_ok()
            {
                *spare.0.lock() = Some(launcher);
            }
        });
    }
}

/// Runs `job`, which must not panic, on a thread that lasts as long as this process, and returns its result: the kernel
/// kills a launcher when the thread that started it ends.
pub(super) fn on_lasting_thread<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (reply, done) = mpsc::channel();
    post(move || drop(reply.send(job())))?;
    done.recv().unwrap_or_else(|_| Err(no_thread()))
}

/// Has the thread that lasts as long as this process run `job`, without waiting for it.
fn post(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
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
