//! Runs the binary in an isolated world: a project, a home, and none of the tester's environment variables.
//!
//! Every wait has a time limit: a run that hangs is killed, and the test fails with its output so far.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ah_cli::args::{Action, KnownNames, parse};
use ah_conversation::Interface;
use ah_provider::script::format::Turn;
use ah_testkit::program::found;
use ah_testkit::script::scenario;
use ah_testkit::server::Server;
pub use ah_testkit::wait::HANG;
use ah_testkit::wait::until;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// The environment variable that marks all processes started by a world.
const MARK: &str = "AH_TEST_WORLD";

/// Arguments for a model that asks before each action, with nothing confined.
pub const ASKS_UNCONFINED: [&str; 5] = [
    "-m",
    "sonnet",
    "--no-sandbox",
    "--permission-mode",
    "default",
];

/// An empty project folder and an empty home.
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

    /// The project folder: the working directory of the runs.
    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// The home directory of the runs.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The path of a project file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    /// The content of a project file; empty if it does not exist.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Writes a project file and returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a scenario into the project and returns the name of its model.
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

    /// The database of the only session.
    pub fn database(&self) -> PathBuf {
        let mut databases = self.databases();
        assert_eq!(databases.len(), 1, "{databases:?}");
        databases.remove(0)
    }

    /// The binary with these arguments, in the project. Unless the arguments choose otherwise, it bypasses
    /// permissions and the sandbox, so that it runs on every machine.
    pub fn ah<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        self.program(Path::new(env!("CARGO_BIN_EXE_ah")), arguments)
    }

    /// Like [`World::ah`], for a copy of the binary.
    pub fn program<'a>(&self, path: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let free = match leaves_all_open(&arguments) {
            true => &["--no-sandbox", "--dangerously-skip-permissions"][..],
            false => &[],
        };
        self.typed(path, free.iter().copied().chain(arguments))
    }

    /// The binary with exactly these arguments.
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
            .env("LANG", "C.UTF-8")
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

    /// Like [`World::ah`], with requests going to `server`.
    pub fn asking<'a>(&self, server: &Server, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        Self::to(server, self.ah(arguments))
    }

    /// Like [`World::as_typed`], with requests going to `server`.
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

    /// The processes that runs of this world left behind, by id and command line.
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
            // Ended in the meantime.
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

    /// Fails if a process started by this world is still alive.
    pub fn assert_nothing_runs(&self) {
        let left: Vec<_> = self.processes();
        assert!(left.is_empty(), "processes are left: {left:?}");
    }
}

/// Whether the default permissions and sandbox would apply, which depend on the machine.
fn leaves_all_open(arguments: &[&str]) -> bool {
    let words = arguments.iter().map(Into::into).collect();
    let names = KnownNames {
        is_tool: &|_| false,
        is_session: &|_| true,
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

/// Variable that names a folder to keep the sessions of the tests in, as trajectories.
const EXPORTS: &str = "AH_TEST_EXPORTS";

impl World {
    /// Exports the sessions of the project into `folder`.
    fn export(&self, folder: &Path) {
        let listed = self.as_typed(["sessions", "--json"]).run().stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let name = self.root.path().file_name().unwrap().to_string_lossy();
        for id in { listed.as_array().into_iter().flatten() }.filter_map(|it| it["id"].as_str()) {
            let arguments = ["-r", id, "export", "--format", "atif"];
            let exported = self.as_typed(arguments).run();
            if exported.code == Some(0) {
                let _ = fs::write(folder.join(format!("{name}-{id}.json")), exported.stdout);
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(folder) = std::env::var_os(EXPORTS).filter(|_| !std::thread::panicking()) {
            self.export(Path::new(&folder));
        }
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
    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument, which need not be UTF-8.
    pub fn argument(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Sets the working directory.
    pub fn within(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets its standard input.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Keeps standard input open; [`Running::say`] writes to it.
    pub fn with_silent_stdin(mut self) -> Self {
        self.keeps_stdin_open = true;
        self
    }

    /// Closes the reading end of its standard output before it starts.
    pub fn without_reader(mut self) -> Self {
        self.is_read = false;
        self
    }

    /// Makes a terminal its standard input and standard error; each line of [`Ah::stdin`] is typed there once it asks
    /// something. What it writes to standard error appears in the result together with the echo of the input.
    pub fn at_terminal(mut self) -> Self {
        self.is_at_terminal = true;
        self
    }

    /// Limits the size of the files it writes to this number of blocks, like a full disk.
    pub fn with_file_limit(self, blocks: u32) -> Self {
        // Without the trap, SIGXFSZ would end the program.
        let limit = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        self.through("sh", ["-c", &limit])
    }

    /// Runs it through `program`, which gets the binary and its arguments after its own.
    pub fn through<'a>(
        mut self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut outer = Command::new(found(program));
        outer.args(arguments).arg(self.command.get_program());
        outer.args(self.command.get_args()).env_clear();
        for (name, value) in self.command.get_envs() {
            outer.env(name, value.unwrap_or_default());
        }
        outer.current_dir(self.command.get_current_dir().unwrap());
        self.command = outer;
        self
    }

    /// The command, for a caller that starts it itself.
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
        let (mut terminal, mut typed) = (None, Vec::new());
        if self.is_at_terminal {
            typed = std::mem::take(&mut self.stdin);
            let (person, side) = open_terminal();
            command.stdin(side.try_clone().unwrap()).stderr(side);
            terminal = Some(person);
        }
        let mut child = spawn(command);
        let mut silent = None;
        if self.keeps_stdin_open {
            silent = child.stdin.take();
        } else if let Some(mut pipe) = child.stdin.take() {
            let bytes = self.stdin;
            // It need not read all of it.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let pid = Pid::from_child(&child);
        // The command holds our end of the pipe.
        drop(self.command);
        let err = match terminal {
            Some(mut terminal) => {
                let shown = Stream::of(terminal.try_clone().unwrap());
                let seen = shown.clone();
                thread::spawn(move || {
                    let mut before = 0;
                    for line in typed.split_inclusive(|byte| *byte == b'\n') {
                        let Some(shown) = seen.wait_for_question(before) else {
                            return;
                        };
                        before = shown;
                        terminal.write_all(line).unwrap();
                    }
                });
                shown
            }
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

/// Spawns a program that may have just been written: a child forked by another test keeps the file open for writing
/// until its `exec`, so "text file busy" is retried.
pub fn spawn(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
            child => return child.unwrap(),
        }
    }
}

/// Opens a pseudo-terminal and returns its controlling side and the program's side.
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
    // The receiver is gone if the test has failed.
    let _ = sender.send(child.wait());
}

/// A running binary; killed when dropped.
pub struct Running {
    pub pid: Pid,
    out: Stream,
    err: Stream,
    end: Receiver<io::Result<ExitStatus>>,
    /// Open until the program ends or [`Running::say_no_more`] closes it.
    input: Option<ChildStdin>,
    is_over: bool,
}

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its standard input is open");
        writeln!(input, "{line}").unwrap();
    }

    /// Closes its standard input.
    pub fn say_no_more(&mut self) {
        self.input = None;
    }

    /// Waits until its standard output contains `text`.
    pub fn wait_for_output(&self, text: &str) {
        self.out.wait_for(text);
    }

    /// Its standard output so far.
    pub fn output_so_far(&self) -> String {
        self.out.so_far()
    }

    /// Waits until its standard error contains `text`.
    pub fn wait_for_notice(&self, text: &str) {
        self.err.wait_for(text);
    }

    /// Its standard error so far.
    pub fn notices_so_far(&self) -> String {
        self.err.so_far()
    }

    /// Waits for its end.
    pub fn wait(self) -> Ended {
        self.wait_for_end(HANG).unwrap_or_else(|running| {
            running.signal(Signal::KILL);
            let (out, err) = (running.out.so_far(), running.err.so_far());
            panic!("it hangs; stdout:\n{out}\nstderr:\n{err}")
        })
    }

    /// Waits for its end for at most `time`.
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

    /// Kills it with SIGKILL.
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

/// The output and the exit code of a finished run.
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

/// The output so far of one stream of a child.
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
                let mut state = received.0.0.lock();
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

    /// Waits until the cursor stands behind a question, later than after `before` bytes; returns the number of bytes.
    fn wait_for_question(&self, before: usize) -> Option<usize> {
        let is_asking =
            |state: &Received| state.bytes.len() > before && state.bytes.ends_with(b" ");
        let state = self.wait_while(HANG, |state| !is_asking(state) && !state.is_over);
        is_asking(&state).then(|| state.bytes.len())
    }

    /// Waits for so long at most while a condition holds.
    fn wait_while(
        &self,
        patience: Duration,
        mut condition: impl FnMut(&Received) -> bool,
    ) -> MutexGuard<'_, Received> {
        let (received, changed) = &*self.0;
        let mut state = received.lock();
        changed.wait_while_for(&mut state, |state| condition(state), patience);
        state
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().bytes).into_owned()
    }

    /// All output, once the writer has closed the stream. A process left behind may keep it open forever, so this
    /// does not wait for it.
    fn whole(&self) -> String {
        let state = self.wait_while(Duration::from_secs(2), |state| !state.is_over);
        String::from_utf8_lossy(&state.bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        let has_it = |state: &Received| {
            state
                .bytes
                .windows(text.len().max(1))
                .any(|piece| piece == text.as_bytes())
        };
        let state = self.wait_while(HANG, |state| !has_it(state) && !state.is_over);
        let so_far = String::from_utf8_lossy(&state.bytes);
        assert!(has_it(&state), "waited for {text:?} in vain:\n{so_far}");
    }
}

/// Waits until `path` exists and is not empty: a signal from a tool. Returns its content.
pub fn wait_for_file(path: &Path) -> String {
    let mut text = String::new();
    until(&path.display().to_string(), || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text
}
