//! The thread that owns a child: starts it, reads its output, ends it at its deadline or when its handle is dropped,
//! reports the outcome, and runs until all descendants are gone.
//!
//! It waits for the process and not for the end of its output, since a grandchild may hold the pipe open for ever. It
//! is a thread and not a task, which keeps disk I/O and hashing off the runtime and works when there is no runtime.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ah_sandbox::{ChildGuard, Invocation, Streams, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use tokio::sync::watch;

use crate::command::{Command, CommandOutcome, Ending, StartError};
use crate::living::{self, Registration, StopHandle};
use crate::output::Recorder;
use crate::tree::{self, GRACE, MARK, Tree};

/// Time in which output of descendants is still read after the program has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// Size of the output pipe, the maximum without privileges: fewer context switches for a child that writes much.
const PIPE: usize = 1024 * 1024;
/// Size of the buffer for output that is read faster than it comes, as nearly all is, and for more.
const FIRST_BUFFER: usize = 16 * 1024;
const BUFFER: usize = 256 * 1024;
/// Interval of checking for the end where the kernel has no pidfd, and of trying to start a program.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Stage in the life of a child.
#[derive(Debug)]
pub(crate) enum ChildStage {
    Starting,
    Failed(StartError),
    Running,
    Ended(Arc<CommandOutcome>),
}

/// A running child, as its thread sees it.
pub(crate) struct Watch {
    child: process::Child,
    /// Keeps a sandboxed child alive.
    guard: Option<ChildGuard>,
    tree: Tree,
    /// Readable when the program has ended, unless the guard tells.
    exit: Option<OwnedFd>,
    /// Closed when the child shall stop.
    stop_request: PipeReader,
    output: Option<PipeReader>,
    recorder: Recorder,
    buffer: Vec<u8>,
    deadline: Option<(Instant, Duration)>,
    /// Reason and time of its termination by this thread.
    ended: Option<(Ending, Instant)>,
}

/// The child's ends of the pipes to its caller.
pub(crate) struct ChildEnds {
    pub(crate) stdin: PipeReader,
    pub(crate) stdout: PipeWriter,
    pub(crate) stderr: PipeWriter,
}

/// Events that the thread waits for.
enum WatchEvent {
    /// The child has written output or closed the pipe.
    Output,
    /// The child has ended.
    Exit,
    /// The child shall stop.
    StopRequest,
}

impl Watch {
    /// Starts `command` on a new thread, which publishes the stages of the child in `stages`.
    pub(crate) fn launch(
        command: Command,
        ends: Option<ChildEnds>,
        stages: watch::Sender<ChildStage>,
    ) -> Result<StopHandle, StartError> {
        let (program, cwd) = (command.program.clone(), command.cwd.clone());
        let launched = living::register().and_then(|(stop, registration, stop_request)| {
            thread::Builder::new()
                .name("child".into())
                .spawn(move || own(command, ends, stop_request, &registration, &stages))?;
            Ok(stop)
        });
        launched.map_err(|error| StartError {
            program,
            cwd,
            reason: error.to_string(),
        })
    }
}

/// Runs a child from its start to the end of its last descendant.
fn own(
    command: Command,
    ends: Option<ChildEnds>,
    stop_request: PipeReader,
    registration: &Registration,
    stages: &watch::Sender<ChildStage>,
) {
    let note = command.note;
    let mut watch = match Watch::start(command, ends, stop_request, registration) {
        Ok(watch) => watch,
        Err(error) => {
            stages.send_replace(ChildStage::Failed(error));
            return;
        }
    };
    stages.send_replace(ChildStage::Running);
    watch.until_exit();
    watch.drain();
    // A sandboxed program tells its end before its launcher has tidied up, which nobody needs to wait for.
    let told = watch.guard.as_ref().and_then(ChildGuard::status);
    let status = told.map_or_else(|| reap(&mut watch.tree, &mut watch.child), Ok);
    let (ending, kill_at) = match watch.ended {
        Some((ending, since)) => (ending, since + GRACE),
        None => (Ending::from(status), Instant::now() + GRACE),
    };
    let mut has_ended_all = false;
    if let Some(guard) = watch.guard.take() {
        has_ended_all = guard.has_ended_all();
        for path in guard.quarantine() {
            let path = path.display();
            let line =
                format!("note: moved a file that sandboxed commands may not create to {path}\n");
            watch.recorder.note(&line);
        }
    }
    if let Some(line) = note(ending) {
        watch.recorder.note(&line);
    }
    let output = watch.recorder.finish();
    stages.send_replace(ChildStage::Ended(Arc::new(CommandOutcome {
        ending,
        output,
    })));
    let _ = reap(&mut watch.tree, &mut watch.child);
    // Where the kernel has ended them, there is nothing to look for.
    if has_ended_all {
        watch.tree.reap_group();
    } else {
        watch.tree.clear(kill_at);
    }
}

impl From<io::Result<ExitStatus>> for Ending {
    fn from(status: io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => match status.code() {
                Some(code) => Self::Exited(code),
                None => Self::Killed(status.signal().unwrap_or_default()),
            },
            // Other code in this process has reaped the child.
            Err(_) => Self::Exited(-1),
        }
    }
}

impl Watch {
    fn start(
        command: Command,
        ends: Option<ChildEnds>,
        stop_request: PipeReader,
        registration: &Registration,
    ) -> Result<Self, StartError> {
        tree::adopt_orphans();
        let name = registration.name();
        let started = match ends {
            Some(ends) => spawn_with_pipes(&command, &name, ends),
            None => spawn_recorded(&command, &name),
        };
        let Spawned {
            child,
            guard,
            output,
        } = started.map_err(|reason| StartError {
            reason: if command.cwd.is_dir() {
                reason
            } else {
                "no such directory".into()
            },
            program: command.program,
            cwd: command.cwd,
        })?;
        let leader = Pid::from_child(&child);
        registration.started(leader);
        let tells = guard.as_ref().and_then(ChildGuard::end).is_some();
        let pidfd = || pidfd_open(leader, PidfdFlags::empty()).ok();
        Ok(Self {
            child,
            guard,
            tree: Tree::new(leader, name),
            exit: if tells { None } else { pidfd() },
            stop_request,
            output,
            recorder: Recorder::new(command.keep),
            buffer: vec![0; FIRST_BUFFER],
            deadline: command.deadline.map(|time| (Instant::now() + time, time)),
            ended: None,
        })
    }

    /// Reads output until the program has ended; ends it at its deadline and on request.
    fn until_exit(&mut self) {
        loop {
            for event in self.wait() {
                match event {
                    WatchEvent::Output => _ = self.read(),
                    WatchEvent::Exit => return,
                    WatchEvent::StopRequest => self.end(Ending::Stopped),
                }
            }
            if self.exit().is_none() && has_ended(&self.child) {
                return;
            }
            match (self.ended, self.deadline) {
                (Some((_, since)), _) if since.elapsed() >= GRACE => self.tree.kill(),
                (None, Some((at, time))) if at <= Instant::now() => {
                    self.end(Ending::TimedOut(time));
                }
                (Some(_), _) | (None, _) => {}
            }
        }
    }

    /// Returns what is readable when the program has ended.
    fn exit(&self) -> Option<BorrowedFd<'_>> {
        let told = self.guard.as_ref().and_then(ChildGuard::end);
        told.or(self.exit.as_ref().map(AsFd::as_fd))
    }

    fn end(&mut self, ending: Ending) {
        self.ended = Some((ending, Instant::now()));
        self.tree.terminate();
    }

    /// Waits for events until the next time limit.
    fn wait(&self) -> Vec<WatchEvent> {
        let stop_request = self.ended.is_none().then_some(&self.stop_request);
        let mut sources = Vec::with_capacity(3);
        sources.extend(source(
            WatchEvent::Output,
            self.output.as_ref(),
            PollFlags::IN,
        ));
        let exit = self.exit();
        sources.extend(source(WatchEvent::Exit, exit.as_ref(), PollFlags::IN));
        sources.extend(source(WatchEvent::StopRequest, stop_request, PollFlags::IN));
        let (events, mut polled): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        // An interrupted poll reports no events.
        let _ = poll_for(&mut polled, self.poll_timeout());
        events
            .into_iter()
            .zip(polled)
            .filter(|(_, source)| !source.revents().is_empty())
            .map(|(event, _)| event)
            .collect()
    }

    /// Returns the time until the next thing to do without an event; `None` if there is none.
    fn poll_timeout(&self) -> Option<Duration> {
        let due = match (self.ended, self.deadline) {
            (Some((_, since)), _) => Some((since + GRACE, POLL_INTERVAL)),
            (None, Some((at, _))) => Some((at, Duration::ZERO)),
            (None, None) => None,
        };
        let until_due =
            due.map(|(at, least)| at.saturating_duration_since(Instant::now()).max(least));
        match self.exit() {
            Some(_) => until_due,
            None => Some(until_due.map_or(POLL_INTERVAL, |time| time.min(POLL_INTERVAL))),
        }
    }

    /// Reads once from the output pipe and returns the number of bytes.
    fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.output else {
            return 0;
        };
        match pipe.read(&mut self.buffer) {
            Ok(length @ 1..) => {
                self.recorder.write(&self.buffer[..length]);
                if length == self.buffer.len() {
                    self.buffer.resize(BUFFER, 0);
                }
                return length;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => self.output = None,
        }
        0
    }

    /// Reads all that is in the output pipe, however long that takes on a busy machine, and for [`DRAIN`] what
    /// descendants still write.
    fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        let mut total = 0;
        while let Some(pipe) = &self.output {
            let rest = end.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(pipe, PollFlags::IN)];
            match poll_for(&mut polled, Some(rest)) {
                // The program's own output is no longer than the pipe.
                Ok(1..) if !rest.is_zero() || total < PIPE => total += self.read(),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

fn source<'fd, Fd: AsFd>(
    event: WatchEvent,
    fd: Option<&'fd Fd>,
    flags: PollFlags,
) -> Option<(WatchEvent, PollFd<'fd>)> {
    fd.map(|fd| (event, PollFd::new(fd, flags)))
}

fn poll_for(fds: &mut [PollFd<'_>], time: Option<Duration>) -> Result<usize, Errno> {
    // A time too long for the kernel's type means no limit.
    let timeout = time.and_then(|time| Timespec::try_from(time).ok());
    poll(fds, timeout.as_ref())
}

/// Reaps the child, and returns its status, however often it is called.
fn reap(tree: &mut Tree, child: &mut process::Child) -> io::Result<ExitStatus> {
    tree.leave_leader();
    child.wait()
}

/// Returns whether the child has ended, without reaping it.
fn has_ended(child: &process::Child) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(Pid::from_child(child)), look), Ok(None))
}

/// A started program with its pipes.
struct Spawned {
    child: process::Child,
    guard: Option<ChildGuard>,
    output: Option<PipeReader>,
}

/// Starts the program with one pipe for stdout and stderr, which alone keeps their order.
fn spawn_recorded(command: &Command, name: &str) -> Result<Spawned, String> {
    let pipes = || {
        let (output, stdout) = io::pipe()?;
        // It fails if the user's limit for large pipes is reached; the default size works too.
        let _ = fcntl_setpipe_size(&output, PIPE);
        let streams = Streams {
            stdin: input(&command.stdin)?.into(),
            stderr: stdout.try_clone()?.into(),
            stdout: stdout.into(),
        };
        Ok((streams, output))
    };
    let (streams, output) = pipes().map_err(|error: io::Error| error.to_string())?;
    let (child, guard) = spawn(command, name, streams)?;
    Ok(Spawned {
        child,
        guard,
        output: Some(output),
    })
}

/// Returns a file from which a child reads `bytes`. It is in memory, so that they are on no disk, and that nobody has to
/// write while the child reads; a shell reads a file in blocks, and a pipe byte by byte.
fn input(bytes: &[u8]) -> io::Result<File> {
    if bytes.is_empty() {
        return File::open("/dev/null");
    }
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Starts the program with pipes to the caller.
fn spawn_with_pipes(command: &Command, name: &str, ends: ChildEnds) -> Result<Spawned, String> {
    let streams = Streams {
        stdin: ends.stdin.into(),
        stdout: ends.stdout.into(),
        stderr: ends.stderr.into(),
    };
    let (child, guard) = spawn(command, name, streams)?;
    Ok(Spawned {
        child,
        guard,
        output: None,
    })
}

/// Starts the program, directly or in its sandbox.
fn spawn(
    command: &Command,
    name: &str,
    streams: Streams,
) -> Result<(process::Child, Option<ChildGuard>), String> {
    let mut environment = command.environment.clone();
    environment.push((MARK.to_owned(), mark(&command.environment, name)));
    let Some(sandbox) = &command.sandbox else {
        let mut direct = process::Command::new(&command.program);
        direct
            .args(&command.arguments)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(environment)
            .stdin(streams.stdin)
            .stdout(streams.stdout)
            .stderr(streams.stderr);
        match &command.bounds {
            // In a session of its own, it leads a group as well.
            Some(bounds) => bounds.hold(&mut direct)?,
            None => ah_sandbox::without_terminal(&mut direct),
        }
        let child = start(|| direct.spawn()).map_err(|error| error.to_string())?;
        return Ok((child, None));
    };
    let child = sandbox.spawn(Invocation {
        program: command.program.as_os_str(),
        arguments: &command.arguments,
        cwd: &command.cwd,
        environment,
        streams,
        terminal: Terminal::None,
        bounds: command.bounds.clone(),
    });
    let child = child.map_err(|error| error.to_string())?;
    Ok((child.process, Some(child.guard)))
}

/// Starts a program. One that this process has just written may still be open for writing in a child that was forked at
/// that moment, until the child executes its own program; it is tried again for a second.
fn start<T>(mut spawn: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let give_up_at = Instant::now() + Duration::from_secs(1);
    loop {
        let started = spawn();
        let is_busy =
            matches!(&started, Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy);
        if !is_busy || Instant::now() >= give_up_at {
            return started;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the mark of a child: its name after those of the children that this process itself runs in.
fn mark(environment: &[(String, String)], name: &str) -> String {
    match environment
        .iter()
        .rev()
        .find(|(variable, _)| variable == MARK)
    {
        Some((_, outer)) => format!("{outer}:{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_still_being_written_is_tried_again() {
        let mut tries = 0;
        let started = start(|| {
            tries += 1;
            match tries {
                1 | 2 => Err(io::ErrorKind::ExecutableFileBusy.into()),
                _ => Ok(tries),
            }
        });
        assert_eq!(started.unwrap(), 3);
    }

    #[test]
    fn any_other_failure_is_final() {
        let mut tries = 0;
        let started = start(|| -> io::Result<()> {
            tries += 1;
            Err(io::ErrorKind::NotFound.into())
        });
        assert_eq!(started.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(tries, 1);
    }
}
