//! A PostgreSQL server for tests, on a temporary folder and a Unix socket in it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod network;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use network::{Proxy, Secured};

/// User that runs the server if the tests run as root, which it refuses: `nobody`.
const NOBODY: u32 = 65534;

/// A server, stopped when it is dropped.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    process: Option<Child>,
    databases: AtomicU32,
    /// Settings, each `name=value`.
    options: Vec<String>,
    /// Port, which names the socket as well.
    port: u16,
}

/// Returns a command, of a user that the server's programs accept.
fn as_nobody(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Returns the folder of the server's programs, if they are installed.
pub fn programs() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<_> = installed
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    versions.sort();
    versions.pop()
}

impl Server {
    /// Starts a server; `None` if there is none to start.
    pub fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut server = Self {
            folder,
            programs,
            process: None,
            databases: AtomicU32::new(0),
            options: vec!["listen_addresses=".to_owned()],
            port: 5432,
        };
        let data = server.home().join("data");
        let mut initdb = server.command("initdb");
        initdb.args([
            "-A",
            "trust",
            "-U",
            "ah_owner",
            "-E",
            "UTF8",
            "--no-sync",
            "-D",
        ]);
        let made = initdb.arg(data).stdout(Stdio::null()).status().unwrap();
        assert!(made.success());
        server.run();
        Some(server)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = as_nobody(self.programs.join(program));
        command.env("LC_ALL", "C.UTF-8").current_dir(self.home());
        command.env("PGPORT", self.port.to_string());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts the server again, and waits until it answers.
    pub fn run(&mut self) {
        let home = self.home();
        let mut postgres = self.command("postgres");
        postgres
            .arg("-D")
            .arg(home.join("data"))
            .arg("-k")
            .arg(&home);
        postgres.args(["-c", "max_connections=200"]);
        for option in &self.options {
            postgres.args(["-c", option]);
        }
        self.process = Some(postgres.stdout(Stdio::null()).spawn().unwrap());
        let began = Instant::now();
        while !self.answers() {
            assert!(began.elapsed() < Duration::from_secs(60), "no server");
            std::thread::yield_now();
        }
    }

    fn answers(&self) -> bool {
        let mut ask = self.command("pg_isready");
        let asked = ask.args(["-q", "-h"]).arg(self.home()).status();
        asked.unwrap().success()
    }

    /// Ends the server at once, as a failure of its machine does to its memory.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // An immediate shutdown: nothing is written any more, and the log is replayed at the next start.
            let pid = rustix::process::Pid::from_child(&process);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            process.wait().unwrap();
        }
    }

    /// Makes an empty database; returns its address.
    pub fn database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let mut create = self.command("createdb");
        create.args(["-U", "ah_owner", "-h"]).arg(self.home());
        assert!(create.arg(&name).status().unwrap().success());
        self.url("ah_owner", &name)
    }

    /// Returns the address of a database for a role.
    pub fn url(&self, role: &str, database: &str) -> String {
        let host = self.home().display().to_string().replace('/', "%2F");
        format!("postgresql://{role}@{host}/{database}")
    }

    /// Runs statements as the owner or another role; returns what they print, or the error.
    pub fn psql(&self, url: &str, statements: &str) -> Result<String, String> {
        let mut psql = self.command("psql");
        psql.args([url, "-XqAtv", "ON_ERROR_STOP=1", "-c", statements]);
        let output = psql.stderr(Stdio::piped()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }
}

impl Server {
    /// Makes a backup of the schema `ah` of a database and restores it into a new one; returns its address.
    pub fn restored(&self, url: &str) -> String {
        let mut dump = self.command("pg_dump");
        let backup = dump.args(["-n", "ah", url]).output().unwrap();
        assert!(backup.status.success());
        let copy = self.database();
        let mut psql = self.command("psql");
        psql.args([&copy, "-Xqv", "ON_ERROR_STOP=1"]);
        let mut restore = psql
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = restore.stdin.take().unwrap();
        input.write_all(&backup.stdout).unwrap();
        drop(input);
        assert!(restore.wait().unwrap().success());
        copy
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the server that the tests of this process share, and its runtime's.
pub fn shared() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    // A static is not dropped: the server ends with the process that it belongs to.
    SERVER
        .get_or_init(|| Server::start().inspect(Server::ends_with_us))
        .as_ref()
}

impl Server {
    /// Starts a watcher that ends the server when this process is gone, and removes its folder.
    #[expect(
        clippy::zombie_processes,
        reason = "it is there to outlive this process"
    )]
    fn ends_with_us(&self) {
        let Some(process) = &self.process else { return };
        let script = "while kill -0 $1 2>/dev/null; do sleep 0.2; done; kill -QUIT $2; sleep 1; rm -rf \"$3\"";
        let folder: &Path = self.folder.path();
        let mut watch = Command::new("sh");
        watch.args(["-c", script, "watch"]);
        watch.arg(std::process::id().to_string());
        watch.arg(process.id().to_string()).arg(folder);
        watch
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        watch.process_group(0).spawn().unwrap();
    }
}
