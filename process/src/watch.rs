//! The thread that owns a child: starts it, reads what it writes, ends it when its time is over or nobody waits for
//! it any more, tells what came of it, and stays until all that it started is gone.
//!
//! It waits for the process and not for the end of its output, since a grandchild may hold the pipe for ever. That it
//! is a thread and no task keeps disk and hash away from the runtime, and lets it finish when there is no runtime.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ah_sandbox::{ChildGuard, Prepared, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use tokio::sync::watch;

use crate::living::{self, Entry, Registration};
use crate::output::Recorder;
use crate::tree::{self, GRACE, MARK, Tree};
use crate::{Command, Ending, Outcome, StartError};

/// How long the output of others is still taken after the program has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// As much as the kernel allows without privileges: fewer switches between a chatty child and us.
const PIPE: usize = 1024 * 1024;
const BUFFER: usize = 256 * 1024;
/// How often to look for the end where the kernel does not tell.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How far a child has come.
#[derive(Debug)]
pub(crate) enum Stage {
    Starting,
    Failed(StartError),
    Running,
    Ended(Arc<Outcome>),
}

/// A running child, as its thread sees it.
pub(crate) struct Watch {
    child: process::Child,
    /// Keeps it alive in its sandbox, where it has one.
    guard: Option<ChildGuard>,
    tree: Tree,
    /// Becomes readable when the program ends.
    exit: Option<OwnedFd>,
    /// Ends when the child is to be stopped.
    request: PipeReader,
    output: Option<PipeReader>,
    input: Option<Input>,
    recorder: Recorder,
    buffer: Vec<u8>,
    deadline: Option<(Instant, Duration)>,
    /// Why and since when it is being ended.
    ended: Option<(Ending, Instant)>,
}

/// A child's ends of the pipes by which its owner talks with it.
pub(crate) struct Ends {
    pub(crate) stdin: PipeReader,
    pub(crate) stdout: PipeWriter,
    pub(crate) stderr: PipeWriter,
}

/// What the thread waits for.
enum News {
    /// The child has written, or closed its end.
    Output,
    /// The child has room for more.
    Input,
    /// The child has ended.
    Exit,
    /// The child is to be stopped.
    Request,
}

/// What the child has yet to read.
struct Input {
    pipe: PipeWriter,
    bytes: Vec<u8>,
    written: usize,
}

impl Watch {
    /// Starts `command` on a thread of its own, which tells in `stages` how far it is.
    pub(crate) fn launch(
        command: Command,
        ends: Option<Ends>,
        stages: watch::Sender<Stage>,
    ) -> Result<Entry, StartError> {
        let (program, cwd) = (command.program.clone(), command.cwd.clone());
        let launched = living::register().and_then(|(entry, registration, request)| {
            thread::Builder::new()
                .name("child".into())
                .spawn(move || own(command, ends, request, &registration, &stages))?;
            Ok(entry)
        });
        launched.map_err(|error| StartError {
            program,
            cwd,
            reason: error.to_string(),
        })
    }
}

/// The whole life of a child.
fn own(
    command: Command,
    ends: Option<Ends>,
    request: PipeReader,
    registration: &Registration,
    stages: &watch::Sender<Stage>,
) {
    let note = command.note;
    let mut watch = match Watch::start(command, ends, request, registration) {
        Ok(watch) => watch,
        Err(error) => {
            stages.send_replace(Stage::Failed(error));
            return;
        }
    };
    stages.send_replace(Stage::Running);
    watch.until_exit();
    watch.drain();
    watch.tree.leave_leader();
    let status = watch.child.wait();
    let (ending, kill_at) = match watch.ended {
        Some((ending, since)) => (ending, since + GRACE),
        None => (Ending::from(status), Instant::now() + GRACE),
    };
    for path in watch.guard.take().iter().flat_map(ChildGuard::quarantine) {
        let path = path.display();
        let line = format!("note: what nothing in the sandbox may make was moved to {path}\n");
        watch.recorder.note(&line);
    }
    if let Some(line) = note(ending) {
        watch.recorder.note(&line);
    }
    let output = watch.recorder.finish();
    stages.send_replace(Stage::Ended(Arc::new(Outcome { ending, output })));
    watch.tree.clear(kill_at);
}

impl From<io::Result<ExitStatus>> for Ending {
    fn from(status: io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => match status.code() {
                Some(code) => Self::Exited(code),
                None => Self::Killed(status.signal().unwrap_or_default()),
            },
            // Somebody else in this process has taken the status of our child.
            Err(_) => Self::Exited(-1),
        }
    }
}

impl Watch {
    fn start(
        command: Command,
        ends: Option<Ends>,
        request: PipeReader,
        registration: &Registration,
    ) -> Result<Self, StartError> {
        tree::adopt_orphans();
        let name = registration.name();
        let started = match ends {
            Some(ends) => converse(&command, &name, ends),
            None => spawn(&command, &name),
        };
        let Spawned {
            child,
            guard,
            output,
            input,
        } = started.map_err(|reason| StartError {
            reason: match command.cwd.is_dir() {
                true => reason,
                false => "no such directory".into(),
            },
            program: command.program,
            cwd: command.cwd,
        })?;
        let leader = Pid::from_child(&child);
        registration.started(leader);
        Ok(Self {
            child,
            guard,
            tree: Tree::new(leader, name),
            exit: pidfd_open(leader, PidfdFlags::empty()).ok(),
            request,
            output,
            input: input.map(|pipe| Input {
                pipe,
                bytes: command.stdin,
                written: 0,
            }),
            recorder: Recorder::new(command.keep),
            buffer: vec![0; BUFFER],
            deadline: command.deadline.map(|time| (Instant::now() + time, time)),
            ended: None,
        })
    }

    /// Moves bytes until the program has ended, and ends it when it must.
    fn until_exit(&mut self) {
        loop {
            for news in self.wait() {
                match news {
                    News::Output => _ = self.read(),
                    News::Input => self.feed(),
                    News::Exit => return,
                    News::Request => self.end(Ending::Stopped),
                }
            }
            if self.exit.is_none() && has_ended(&self.child) {
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

    fn end(&mut self, ending: Ending) {
        self.ended = Some((ending, Instant::now()));
        self.tree.terminate();
    }

    /// Waits until there is something to do.
    fn wait(&self) -> Vec<News> {
        let request = self.ended.is_none().then_some(&self.request);
        let input = self.input.as_ref().map(|input| &input.pipe);
        let mut sources = Vec::with_capacity(4);
        sources.extend(watched(News::Output, self.output.as_ref(), PollFlags::IN));
        sources.extend(watched(News::Input, input, PollFlags::OUT));
        sources.extend(watched(News::Exit, self.exit.as_ref(), PollFlags::IN));
        sources.extend(watched(News::Request, request, PollFlags::IN));
        let (kinds, mut polled): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        // An interrupted wait has no news.
        let _ = poll_for(&mut polled, self.patience());
        kinds
            .into_iter()
            .zip(polled)
            .filter(|(_, source)| !source.revents().is_empty())
            .map(|(kind, _)| kind)
            .collect()
    }

    /// How long to wait at most.
    fn patience(&self) -> Option<Duration> {
        let due = match (self.ended, self.deadline) {
            (Some((_, since)), _) => Some((since + GRACE, LOOK_EVERY)),
            (None, Some((at, _))) => Some((at, Duration::ZERO)),
            (None, None) => None,
        };
        let until_due =
            due.map(|(at, least)| at.saturating_duration_since(Instant::now()).max(least));
        match self.exit {
            Some(_) => until_due,
            None => Some(until_due.map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY))),
        }
    }

    /// Takes some of what is in the pipe, and says how many bytes.
    fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.output else {
            return 0;
        };
        match pipe.read(&mut self.buffer) {
            Ok(length @ 1..) => {
                self.recorder.write(&self.buffer[..length]);
                return length;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => self.output = None,
        }
        0
    }

    fn feed(&mut self) {
        let Some(input) = &mut self.input else {
            return;
        };
        match input.pipe.write(&input.bytes[input.written..]) {
            Ok(length) => input.written += length,
            Err(error) if is_transient(&error) => {}
            // It does not want to read it all.
            Err(_) => input.written = input.bytes.len(),
        }
        if input.written == input.bytes.len() {
            self.input = None;
        }
    }

    /// Takes what is in the pipe, however long that takes on a busy machine, and what others still write for a moment.
    fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        let mut taken = 0;
        while let Some(pipe) = &self.output {
            let rest = end.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(pipe, PollFlags::IN)];
            match poll_for(&mut polled, Some(rest)) {
                // What the program wrote itself is among the first bytes that fill a pipe.
                Ok(1..) if !rest.is_zero() || taken < PIPE => taken += self.read(),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

fn watched<'fd, Fd: AsFd>(
    kind: News,
    fd: Option<&'fd Fd>,
    flags: PollFlags,
) -> Option<(News, PollFd<'fd>)> {
    fd.map(|fd| (kind, PollFd::new(fd, flags)))
}

fn poll_for(fds: &mut [PollFd<'_>], time: Option<Duration>) -> Result<usize, Errno> {
    // A time that the kernel cannot tell is as good as none.
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    poll(fds, time.as_ref())
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Whether the child has ended; it stays for its status to be read.
fn has_ended(child: &process::Child) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(Pid::from_child(child)), look), Ok(None))
}

/// A program that was started.
struct Spawned {
    child: process::Child,
    guard: Option<ChildGuard>,
    output: Option<PipeReader>,
    input: Option<PipeWriter>,
}

/// Starts the program with one pipe behind stdout and stderr, which alone keeps the order between the two.
fn spawn(command: &Command, name: &str) -> Result<Spawned, String> {
    let mut program = Program::of(command, name)?;
    let (output, input) = furnish(program.command(), command).map_err(|error| error.to_string())?;
    let (child, guard) = program.spawn()?;
    Ok(Spawned {
        child,
        guard,
        output: Some(output),
        input,
    })
}

fn furnish(
    program: &mut process::Command,
    command: &Command,
) -> io::Result<(PipeReader, Option<PipeWriter>)> {
    let (output, writer) = io::pipe()?;
    // A user who has many large pipes already gets the usual size.
    let _ = fcntl_setpipe_size(&output, PIPE);
    program.stdout(writer.try_clone()?).stderr(writer);
    if command.stdin.is_empty() {
        program.stdin(Stdio::null());
        return Ok((output, None));
    }
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&writer, true)?;
    program.stdin(reader);
    Ok((output, Some(writer)))
}

/// Starts the program with the ends of pipes that its owner holds the others of.
fn converse(command: &Command, name: &str, ends: Ends) -> Result<Spawned, String> {
    let mut program = Program::of(command, name)?;
    let streams = program.command();
    streams
        .stdin(ends.stdin)
        .stdout(ends.stdout)
        .stderr(ends.stderr);
    let (child, guard) = program.spawn()?;
    Ok(Spawned {
        child,
        guard,
        output: None,
        input: None,
    })
}

/// A program about to be started: by ourselves, or in its sandbox.
enum Program<'a> {
    Free(process::Command),
    Confined(Prepared<'a>),
}

impl<'a> Program<'a> {
    fn of(command: &'a Command, name: &str) -> Result<Self, String> {
        let mut program = match &command.sandbox {
            None => {
                let mut program = process::Command::new(&command.program);
                program.args(&command.arguments).current_dir(&command.cwd);
                Self::Free(program)
            }
            Some(sandbox) => {
                let (program, arguments) = (command.program.as_os_str(), &command.arguments);
                let prepared = sandbox.prepare(program, arguments, &command.cwd, Terminal::None);
                Self::Confined(prepared.map_err(|error| error.to_string())?)
            }
        };
        let variables = command.environment.iter();
        program
            .command()
            .env_clear()
            .envs(variables.map(|(name, value)| (name, value)))
            .env(MARK, mark(&command.environment, name))
            .process_group(0);
        Ok(program)
    }

    fn command(&mut self) -> &mut process::Command {
        match self {
            Self::Free(program) => program,
            Self::Confined(prepared) => &mut prepared.command,
        }
    }

    fn spawn(self) -> Result<(process::Child, Option<ChildGuard>), String> {
        match self {
            Self::Free(mut program) => {
                let child = program.spawn().map_err(|error| error.to_string())?;
                Ok((child, None))
            }
            Self::Confined(prepared) => {
                let child = prepared.spawn().map_err(|error| error.to_string())?;
                Ok((child.process, Some(child.guard)))
            }
        }
    }
}

/// The child's name behind those of the children that this process itself runs in.
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
