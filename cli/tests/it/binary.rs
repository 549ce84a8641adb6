//! Runs the binary in a world of its own: a project, a home, and no variable of whoever runs the tests.
//!
//! Whatever is waited for has an end: a run that hangs is killed, and the test says what it had printed.

use ah_conversation::Interface;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ah_cli::args::{Action, KnownNames, parse};
use ah_provider::script::format::Turn;
use ah_testkit::script::scenario;
use ah_testkit::server::Server;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// Only a hang takes so long.
pub const HANG: Duration = Duration::from_secs(60);
/// Marks every process that a world has started, and all that they start.
const MARK: &str = "AH_TEST_WORLD";

/// A project folder and a home, both empty.
pub struct World {
    root: TempDir,
}

impl World {
    pub fn new() -> Self {
        let root = TempDir::with_prefix("ah-it-").unwrap();
        for folder in ["project", "home"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    /// The folder in which the runs work.
    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// The home directory of who runs it.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// A file of the project.
    pub fn file(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    /// What a file of the project says; nothing, if it is not there.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Writes a file of the project.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a scenario into the project; gives the name of its model.
    pub fn scenario(&self, name: &str, turns: impl IntoIterator<Item = Turn>) -> String {
        let scenario = serde_json::to_string(&scenario(turns)).unwrap();
        self.write(&format!("{name}.json"), scenario);
        format!("script:{name}.json")
    }

    /// The databases of the project's sessions, oldest first.
    pub fn databases(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.file(".ah")) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".db") && !name.ends_with(".queue.db")
        });
        paths.sort();
        paths
    }

    /// The database of the one session that there is.
    pub fn database(&self) -> PathBuf {
        let mut databases = self.databases();
        assert_eq!(databases.len(), 1, "{databases:?}");
        databases.remove(0)
    }

    /// The binary with these arguments, ready to be run in the project. Where they say nothing of it, its tools run
    /// unasked and unconfined, as they can on every machine.
    pub fn ah<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        self.program(Path::new(env!("CARGO_BIN_EXE_ah")), arguments)
    }

    /// A copy of the binary, likewise.
    pub fn program<'a>(&self, path: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let free = match leaves_all_open(&arguments) {
            true => &["--no-sandbox", "--dangerously-skip-permissions"][..],
            false => &[],
        };
        self.typed(path, free.iter().copied().chain(arguments))
    }

    /// The binary with just these arguments.
    pub fn as_typed<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        self.typed(Path::new(env!("CARGO_BIN_EXE_ah")), arguments)
    }

    fn typed<'a>(&self, path: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        let mut command = Command::new(path);
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", std::env::temp_dir())
            // Tests may run as root.
            .env("IS_SANDBOX", "1")
            // What the screens show of limits and prices stays when a model is released.
            .env("ANTHROPIC_DEFAULT_OPUS_MODEL", "claude-opus-4-6")
            .env(
                "ANTHROPIC_DEFAULT_SONNET_MODEL",
                "claude-sonnet-4-5-20250929",
            )
            .env(MARK, self.root.path());
        Ah {
            command,
            stdin: Vec::new(),
            keeps_stdin_open: false,
            is_read: true,
            is_at_terminal: false,
        }
    }

    /// The binary with these arguments, asking `server`.
    pub fn asking<'a>(&self, server: &Server, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        Self::to(server, self.ah(arguments))
    }

    /// The binary with just these arguments, asking `server`.
    pub fn asking_as_typed<'a>(
        &self,
        server: &Server,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Ah {
        Self::to(server, self.as_typed(arguments))
    }

    fn to(server: &Server, ah: Ah) -> Ah {
        ah.env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "key-of-a-test")
    }

    /// The processes that runs of this world have left behind, by number and command line.
    pub fn processes(&self) -> Vec<(Pid, String)> {
        let mark = format!("{MARK}={}", self.root.path().display());
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let number: Option<i32> = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else {
                continue;
            };
            // One that ends meanwhile is none.
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment
                .split(|byte| *byte == 0)
                .any(|line| line == mark.as_bytes())
            {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    /// Fails if anything that the runs of this world have started is still alive.
    pub fn assert_nothing_runs(&self) {
        let left: Vec<_> = self.processes();
        assert!(left.is_empty(), "processes are left: {left:?}");
    }
}

/// Whether it depends on the machine what a run by these arguments does unasked.
fn leaves_all_open(arguments: &[&str]) -> bool {
    let words = arguments.iter().map(Into::into).collect();
    let names = KnownNames {
        is_tool: &|_| false,
        is_session: &|_| false,
    };
    parse(words, &names).is_ok_and(|invocation| {
        let (safety, sandbox) = (&invocation.options.safety, &invocation.options.sandbox);
        matches!(invocation.action, Action::Run(_))
            && invocation.interface == Interface::Native
            && safety.permission_mode.is_none()
            && !safety.dangerously_skip_permissions
            && sandbox.sandbox.is_none()
            && !sandbox.no_sandbox
    })
}

impl Drop for World {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The binary and its arguments.
pub struct Ah {
    command: Command,
    stdin: Vec<u8>,
    keeps_stdin_open: bool,
    is_read: bool,
    is_at_terminal: bool,
}

impl Ah {
    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument, which need not be text.
    pub fn argument(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Works in this folder.
    pub fn within(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Gives it something to read.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Its standard input gives what [`Running::say`] says, and does not end by itself.
    pub fn with_silent_stdin(mut self) -> Self {
        self.keeps_stdin_open = true;
        self
    }

    /// Nobody reads its standard output, and its end of the pipe is closed from the beginning.
    pub fn without_reader(mut self) -> Self {
        self.is_read = false;
        self
    }

    /// Somebody sits at a terminal, which is its standard input and error; what is given to read is typed there. What
    /// it writes to standard error stands in what ended with what was typed.
    pub fn at_terminal(mut self) -> Self {
        self.is_at_terminal = true;
        self
    }

    /// No file that it writes may grow past so many blocks, as on a disk that is full.
    pub fn with_file_limit(self, blocks: u32) -> Self {
        // Without the trap the kernel would end the program.
        let limit = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        self.through("sh", ["-c", &limit])
    }

    /// Has `program` run it, which gets it and its arguments behind its own.
    pub fn through<'a>(
        mut self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut outer = Command::new(program);
        outer.args(arguments).arg(self.command.get_program());
        outer.args(self.command.get_args()).env_clear();
        for (name, value) in self.command.get_envs() {
            outer.env(name, value.unwrap_or_default());
        }
        outer.current_dir(self.command.get_current_dir().unwrap());
        self.command = outer;
        self
    }

    /// The command, for who talks to it while it runs.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs it to its end.
    pub fn run(self) -> Ended {
        self.start().wait()
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let input = match self.stdin.is_empty() && !self.keeps_stdin_open {
            true => Stdio::null(),
            false => Stdio::piped(),
        };
        let command = self.command.stdin(input);
        let (reader, writer) = io::pipe().unwrap();
        let out = match self.is_read {
            true => Stream::of(reader),
            false => Stream::of(io::empty()),
        };
        let command = command.stdout(writer).stderr(Stdio::piped());
        let mut terminal = None;
        if self.is_at_terminal {
            let (mut person, side) = open_terminal();
            person.write_all(&self.stdin).unwrap();
            command.stdin(side.try_clone().unwrap()).stderr(side);
            terminal = Some(person);
        }
        let mut child = spawn(command);
        let mut silent = None;
        if self.keeps_stdin_open {
            silent = child.stdin.take();
        } else if let Some(mut pipe) = child.stdin.take() {
            let bytes = self.stdin;
            // It need not read it all.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let pid = Pid::from_child(&child);
        // It holds our end of the pipe.
        drop(self.command);
        let err = match terminal {
            Some(terminal) => Stream::of(terminal),
            None => Stream::of(child.stderr.take().unwrap()),
        };
        let (sender, end) = mpsc::channel();
        thread::spawn(move || await_end(child, &sender));
        Running {
            pid,
            out,
            err,
            end,
            input: silent,
            is_over: false,
        }
    }
}

/// Starts a program that may have been written a moment ago: what another test forks meanwhile holds the file open
/// until it becomes another program.
pub fn spawn(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
            child => return child.unwrap(),
        }
    }
}

/// A terminal: the side of who sits there, and that of the program.
pub fn open_terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    (person.into(), program.into())
}

fn await_end(mut child: Child, sender: &mpsc::Sender<io::Result<ExitStatus>>) {
    // Nobody listens where the test has failed.
    let _ = sender.send(child.wait());
}

/// The binary while it runs; killed when dropped.
pub struct Running {
    pub pid: Pid,
    out: Stream,
    err: Stream,
    end: Receiver<io::Result<ExitStatus>>,
    /// Open for as long as the program runs, or until it is told that nothing more comes.
    input: Option<ChildStdin>,
    is_over: bool,
}

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Gives it a line to read.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its standard input is open");
        writeln!(input, "{line}").unwrap();
    }

    /// Gives it nothing more to read.
    pub fn say_no_more(&mut self) {
        self.input = None;
    }

    /// Waits until its standard output holds `text`.
    pub fn wait_for_output(&self, text: &str) {
        self.out.wait_for(text);
    }

    /// What its standard output has given so far.
    pub fn output_so_far(&self) -> String {
        self.out.so_far()
    }

    /// Waits until its standard error holds `text`.
    pub fn wait_for_notice(&self, text: &str) {
        self.err.wait_for(text);
    }

    /// Waits for its end.
    pub fn wait(self) -> Ended {
        self.wait_for_end(HANG).unwrap_or_else(|running| {
            running.signal(Signal::KILL);
            let (out, err) = (running.out.so_far(), running.err.so_far());
            panic!("it hangs; stdout:\n{out}\nstderr:\n{err}")
        })
    }

    /// Waits for its end for a while.
    pub fn wait_for_end(mut self, time: Duration) -> Result<Ended, Self> {
        let status = match self.end.recv_timeout(time) {
            Ok(status) => status.unwrap(),
            Err(RecvTimeoutError::Timeout) => return Err(self),
            Err(RecvTimeoutError::Disconnected) => panic!("nobody waits for the child"),
        };
        self.is_over = true;
        Ok(Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: self.out.whole(),
            stderr: self.err.whole(),
        })
    }

    /// Ends it as `kill -9` does.
    pub fn kill(self) -> Ended {
        self.signal(Signal::KILL);
        self.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Fails unless the exit code is `code`, or if the program panicked.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self.without_panic()
    }

    /// Fails if the program panicked.
    #[track_caller]
    pub fn without_panic(self) -> Self {
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}

/// What a stream of a child has given so far.
#[derive(Clone)]
struct Stream(Arc<(Mutex<Received>, Condvar)>);

#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Stream {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let stream = Self(Arc::default());
        let received = stream.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = received.0.0.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..count]);
                state.is_over = count == 0;
                received.0.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        stream
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().unwrap().bytes).into_owned()
    }

    /// All of it, once its writer has closed it. A process left behind may hold it for ever, which is not waited for.
    fn whole(&self) -> String {
        let state = self.0.0.lock().unwrap();
        let patience = Duration::from_secs(2);
        let (state, _) = self
            .0
            .1
            .wait_timeout_while(state, patience, |state| !state.is_over)
            .unwrap();
        String::from_utf8_lossy(&state.bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        let has_it = |state: &Received| {
            state
                .bytes
                .windows(text.len().max(1))
                .any(|piece| piece == text.as_bytes())
        };
        let state = self.0.0.lock().unwrap();
        let (state, _) = self
            .0
            .1
            .wait_timeout_while(state, HANG, |state| !has_it(state) && !state.is_over)
            .unwrap();
        let so_far = String::from_utf8_lossy(&state.bytes);
        assert!(has_it(&state), "waited for {text:?} in vain:\n{so_far}");
    }
}

/// Waits until `path` is there and not empty, as a sign from a tool.
pub fn wait_for_file(path: &Path) -> String {
    let since = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(since.elapsed() < HANG, "{} never came", path.display()),
        }
        // A file gives no sign of itself that can be waited for on every system.
        thread::sleep(Duration::from_millis(2));
    }
}
