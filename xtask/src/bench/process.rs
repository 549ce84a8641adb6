//! Runs of the agent, with their time, CPU and memory.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::pty::{Winsize, openpty};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tempfile::TempDir;

use super::server::{Exchange, Script, Server};
use super::typing::{self, Typed};

/// The measured binary, its model server, and the folder of its runs.
pub struct Agent {
    pub binary: PathBuf,
    server: Server,
    place: TempDir,
    runs: Cell<usize>,
}

/// The agent, and a bare loop that takes the same command line.
pub struct Pair {
    pub agent: Agent,
    pub floor: Agent,
}

impl Pair {
    /// Measures both.
    pub fn each<T>(&self, measure: impl Fn(&Agent) -> Result<T>) -> Result<(T, T)> {
        Ok((measure(&self.agent)?, measure(&self.floor)?))
    }
}

/// Measurements of one run.
pub struct Run {
    pub started: Instant,
    pub wall: Duration,
    /// User and system time, its commands included.
    pub cpu: Duration,
    /// The most it had.
    pub memory: Memory,
    pub exchanges: Vec<Exchange>,
}

impl Run {
    /// Returns the time from its start to its first request.
    pub fn to_first_request(&self) -> Duration {
        self.exchanges[0].asked - self.started
    }

    /// Returns the time from the end of the answer to a request (0-based) to the next request.
    pub fn gap_after(&self, index: usize) -> Duration {
        self.exchanges[index + 1]
            .asked
            .saturating_duration_since(self.exchanges[index].answered)
    }
}

/// Adds the options that turn the sandbox off; its cost is a row of its own.
pub fn free<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [
        &["--no-sandbox", "--dangerously-skip-permissions"],
        arguments,
    ]
    .concat()
}

impl Agent {
    pub fn new(binary: &Path, server: Server) -> Result<Self> {
        ensure!(binary.is_file(), "no binary {}", binary.display());
        let place = TempDir::with_prefix("ah-bench-").context("making a folder for the runs")?;
        Ok(Self {
            binary: binary.to_path_buf(),
            server,
            place,
            runs: Cell::new(0),
        })
    }

    /// Creates an empty folder to run in.
    pub fn folder(&self) -> Result<PathBuf> {
        let folder = self.place.path().join(format!("run-{}", self.count()));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Returns the binary's command with a home and an environment of its own: no settings, no key but the given one.
    pub fn command(&self, folder: &Path, key: &str, arguments: &[&str]) -> Result<Command> {
        let home = folder.with_extension("home");
        fs::create_dir_all(&home)?;
        let address = format!("http://{}", self.server.address);
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("LANG", "C.UTF-8")
            .envs(["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"].map(|name| (name, &address)))
            .envs(["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].map(|name| (name, key)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("stderr"))?);
        Ok(command)
    }

    /// Runs a new session, which must make exactly this many requests and succeed.
    pub fn run(&self, folder: &Path, requests: usize, script: Script) -> Result<Run> {
        self.go(folder, &free(&["-n", "go"]), requests, script)
    }

    /// Runs a new session on a terminal.
    pub fn run_drawn(&self, folder: &Path, requests: usize, script: Script) -> Result<Run> {
        let key = format!("bench-{}", self.count());
        let (command, mut screen) = self.at_terminal(folder, &key, &["-n", "go"])?;
        // Its end is reported as an error.
        let reader = thread::spawn(move || io::copy(&mut screen, &mut io::sink()).is_ok());
        let run = self.watch(command, folder, &key, requests, script);
        let _ = reader.join();
        run
    }

    /// Runs a conversation on a terminal: one prompt, which takes so many requests, and typing until the end of its run.
    pub fn converse(&self, folder: &Path, requests: usize, script: Script) -> Result<(Run, Typed)> {
        let key = format!("bench-{}", self.count());
        let (command, screen) = self.at_terminal(folder, &key, &["-n"])?;
        let typing = thread::spawn(move || typing::type_along(&screen));
        let run = self.watch(command, folder, &key, requests, script)?;
        let typed = typing
            .join()
            .map_err(|_| anyhow!("the typing thread panicked"))?;
        Ok((run, typed?))
    }

    /// Returns the binary's command on a terminal of 80 columns and 24 lines, and the terminal's other side.
    fn at_terminal(&self, folder: &Path, key: &str, arguments: &[&str]) -> Result<(Command, File)> {
        let mut command = self.command(folder, key, &free(arguments))?;
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let terminal = openpty(&size, None)?;
        command
            .env("TERM", "xterm-256color")
            .stdin(terminal.slave.try_clone()?)
            .stdout(terminal.slave.try_clone()?)
            .stderr(terminal.slave);
        Ok((command, File::from(terminal.master)))
    }

    /// Runs a new session with its commands in the sandbox.
    pub fn run_confined(&self, folder: &Path, requests: usize, script: Script) -> Result<Run> {
        self.go(folder, &["--sandbox", "-n", "go"], requests, script)
    }

    /// Runs a new session with its commands in the sandbox of the tier without namespaces.
    pub fn run_in_landlock(&self, folder: &Path, requests: usize, script: Script) -> Result<Run> {
        let arguments = ["--sandbox=landlock", "-n", "go"];
        self.go(folder, &arguments, requests, script)
    }

    /// Runs a new session without the sandbox, in which commands that only read run unasked, within their bounds.
    pub fn run_bounded(&self, folder: &Path, requests: usize, script: Script) -> Result<Run> {
        self.go(folder, &["--no-sandbox", "-n", "go"], requests, script)
    }

    /// Runs a new session with another model.
    pub fn run_with_model(
        &self,
        model: &str,
        folder: &Path,
        requests: usize,
        script: Script,
    ) -> Result<Run> {
        self.go(
            folder,
            &free(&["--model", model, "-n", "go"]),
            requests,
            script,
        )
    }

    /// Resumes the newest session of the folder, or the one that `choice` chooses.
    pub fn go_on(
        &self,
        folder: &Path,
        choice: &[&str],
        requests: usize,
        script: Script,
    ) -> Result<Run> {
        let arguments = [choice, &["go on"]].concat();
        self.go(folder, &free(&arguments), requests, script)
    }

    /// Runs the session of the folder with settings; returns the bodies of its requests.
    pub fn requests(
        &self,
        folder: &Path,
        settings: &str,
        arguments: &[&str],
        requests: usize,
        script: Script,
    ) -> Result<Vec<Vec<u8>>> {
        let key = format!("bench-{}", self.count());
        let arguments = [&["--settings", settings], arguments].concat();
        self.server.open_keeping(&key, script);
        let status = self.command(folder, &key, &free(&arguments))?.status()?;
        let bodies = self.server.close_kept(&key);
        ensure!(
            status.success() && bodies.len() == requests,
            "a run ended with {status} after {} of {requests} requests: {}",
            bodies.len(),
            fs::read_to_string(folder.join("stderr")).unwrap_or_default()
        );
        Ok(bodies)
    }

    /// Like [`Agent::run`], with these settings.
    pub fn run_set(
        &self,
        folder: &Path,
        settings: &str,
        requests: usize,
        script: Script,
    ) -> Result<Run> {
        let arguments = free(&["--settings", settings, "-n", "go"]);
        self.go(folder, &arguments, requests, script)
    }

    fn go(
        &self,
        folder: &Path,
        arguments: &[&str],
        requests: usize,
        script: Script,
    ) -> Result<Run> {
        let key = format!("bench-{}", self.count());
        let command = self.command(folder, &key, arguments)?;
        self.watch(command, folder, &key, requests, script)
    }

    fn watch(
        &self,
        mut command: Command,
        folder: &Path,
        key: &str,
        requests: usize,
        script: Script,
    ) -> Result<Run> {
        self.server.open(key, script);
        let cpu_before = cpu_of_children()?;
        let started = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        // It holds our end of the child's output.
        drop(command);
        let id = child.id();
        let look = || Memory::of(id).unwrap_or_default();
        let (status, memory) = watching(Duration::from_millis(1), look, || child.wait());
        let wall = started.elapsed();
        let status = status?;
        let exchanges = self.server.close(key);
        if !status.success() || exchanges.len() != requests {
            let errors = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
            let tail: Vec<&str> = errors.lines().rev().take(5).collect();
            bail!(
                "a run ended with {status} after {} of {requests} requests; end of its stderr: {}",
                exchanges.len(),
                tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
            );
        }
        Ok(Run {
            started,
            wall,
            cpu: cpu_of_children()?.saturating_sub(cpu_before),
            memory,
            exchanges,
        })
    }

    /// Runs `count` new sessions at once, each in a folder of its own. Returns the time until the last has ended, and their
    /// peak memory together, shared pages counted once.
    pub fn run_together(
        &self,
        count: usize,
        requests: usize,
        script: &Script,
    ) -> Result<(Duration, u64)> {
        let keys: Vec<String> = (0..count)
            .map(|_| format!("bench-{}", self.count()))
            .collect();
        let mut commands = Vec::new();
        for key in &keys {
            self.server.open(key, script.clone());
            commands.push(self.command(&self.folder()?, key, &free(&["-n", "go"]))?);
        }
        let started = Instant::now();
        let mut children = commands
            .iter_mut()
            .map(Command::spawn)
            .collect::<Result<Vec<Child>, _>>()?;
        let ids: Vec<u32> = children.iter().map(Child::id).collect();
        let wait = || {
            children
                .iter_mut()
                .map(|child| child.wait())
                .collect::<Result<Vec<_>, _>>()
        };
        let look = || Memory {
            own: ids.iter().filter_map(|id| proportional_memory(*id)).sum(),
            ..Memory::default()
        };
        let (statuses, memory) = watching(Duration::from_millis(100), look, wait);
        let wall = started.elapsed();
        let failed = statuses?.iter().filter(|status| !status.success()).count();
        ensure!(failed == 0, "{failed} of {count} runs failed");
        for key in &keys {
            let made = self.server.close(key).len();
            ensure!(made == requests, "a run made {made} of {requests} requests");
        }
        Ok((wall, memory.own))
    }

    /// Opens a session of the model server for a process that the caller starts; returns its key.
    pub fn open(&self, script: Script) -> String {
        let key = format!("bench-{}", self.count());
        self.server.open(&key, script);
        key
    }

    /// Returns the number of requests of a session that have been answered.
    pub fn requests_made(&self, key: &str) -> usize {
        self.server.answered(key)
    }

    /// Ends a session of the model server; returns its exchanges.
    pub fn close(&self, key: &str) -> Vec<Exchange> {
        self.server.close(key)
    }

    fn count(&self) -> usize {
        self.runs.replace(self.runs.get() + 1)
    }
}

/// Returns the time a command takes.
pub fn time(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(started.elapsed())
}

/// Memory in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Memory {
    /// Pages that no other process can have: what it allocated, and what it changed.
    pub own: u64,
    /// All pages in its tables. Most are of the binary, which the system keeps once for all processes.
    pub mapped: u64,
}

impl Memory {
    /// Returns what a process has now, and the most it had mapped; `None` if it has ended.
    pub fn of(id: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        Some(Self {
            own: kilobytes(&status, "RssAnon:")?,
            mapped: kilobytes(&status, "VmHWM:")?,
        })
    }

    /// Returns the greater of each.
    pub fn most(self, other: Self) -> Self {
        Self {
            own: self.own.max(other.own),
            mapped: self.mapped.max(other.mapped),
        }
    }
}

/// Runs `act` while looking at memory again and again; returns its result and the most that was seen.
pub fn watching<T>(
    every: Duration,
    look: impl Fn() -> Memory + Sync,
    act: impl FnOnce() -> T,
) -> (T, Memory) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = Memory::default();
            while !is_over.load(Ordering::Relaxed) {
                most = most.most(look());
                thread::park_timeout(every);
            }
            most
        });
        let result = act();
        is_over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        (result, watcher.join().unwrap_or_default())
    })
}

/// Returns the proportional set size of a process: pages of several processes count in parts.
fn proportional_memory(id: u32) -> Option<u64> {
    kilobytes(
        &fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?,
        "Pss:",
    )
}

/// Returns the bytes in a line like `VmHWM:     5124 kB`.
pub fn kilobytes(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    let number: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(number * 1024)
}

/// Returns the total size of the files below a folder.
pub fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() {
            size_of(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(size)
}

/// Returns the CPU time of all child processes that have ended.
pub fn cpu_of_children() -> Result<Duration> {
    cpu_of(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the CPU time of this process.
pub fn cpu_of_self() -> Result<Duration> {
    cpu_of(UsageWho::RUSAGE_SELF)
}

fn cpu_of(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who)?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(microseconds.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_files() {
        assert_eq!(
            kilobytes("VmPeak:\t 9 kB\nVmHWM:\t    5124 kB\n", "VmHWM:"),
            Some(5124 * 1024)
        );
        assert_eq!(kilobytes("", "VmHWM:"), None);
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(
            memory.own > 50_000 && memory.mapped > memory.own,
            "{memory:?}"
        );
    }
}
