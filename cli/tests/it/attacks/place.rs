//! The targets of the attacks: a project, a home, files outside of both, servers, another process, memory shared by
//! processes. Everything belongs to the user that attacks, or it would be safe without a sandbox.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use ah_conversation::steering_names;
use ah_testkit::program::found;

use crate::support::binary::{Ah, World, open_terminal, spawn};

/// An unprivileged user.
pub const NOBODY: u32 = 65_534;
/// Content of every secret.
pub const CANARY: &str = "CANARY-5d1f";
/// Variables that hold secrets.
const VARIABLES: [&str; 13] = [
    "ANTHROPIC_API_KEY",
    "API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DJANGO_SECRET_KEY",
    "GH_PAT",
    "GITHUB_TOKEN",
    "MYSQL_PWD",
    "OPENAI_API_KEY",
    "PGPASSWORD",
    "SLACK_WEBHOOK_URL",
    "STRIPE_SECRET_KEY",
    "TOKEN",
];

/// Targets of the attacks of one user.
pub struct Place {
    pub world: World,
    user: u32,
    /// The program, where this user can run it.
    program: PathBuf,
    victim: Child,
    /// Both sides of a terminal of the user.
    _terminal: (File, File),
    /// What stands for what in the tables.
    values: Vec<(&'static str, String)>,
    /// Shared memory, semaphores and a queue of messages, as arguments of `ipcrm`.
    shared: Vec<String>,
}

impl Place {
    /// Lays the targets for this user; `files` are those that [`laid`] returns.
    pub fn lay(user: u32, program: &Path, files: &Path) -> Self {
        let world = World::new();
        let root = world.project().parent().unwrap().to_owned();
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir(world.project()).unwrap();
        for folder in ["live/empty", "saved"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/attacks");
        for name in ["prelude.sh", "restore.pl"] {
            fs::copy(scripts.join(name), root.join(name)).unwrap();
        }
        for name in ["open", "input"] {
            fs::write(root.join("live").join(name), CANARY).unwrap();
        }
        let live = root.join("live");
        let mark = root.file_name().unwrap().to_string_lossy().into_owned();
        let [tcp, tcp6] = ["127.0.0.1:0", "[::1]:0"].map(greet_tcp);
        let udp = greet_udp();
        for name in ["socket", "agent"] {
            greet_unix(UnixListener::bind(live.join(name)).unwrap());
        }
        let name = SocketAddr::from_abstract_name(&mark).unwrap();
        greet_unix(UnixListener::bind_addr(&name).unwrap());
        fs::write(Path::new("/dev/shm").join(&mark), CANARY).unwrap();
        give(&root, user);
        give(&Path::new("/dev/shm").join(&mark), user);
        let victim = as_user(
            user,
            "perl",
            &["-e", "sleep 1000", "of-the-victim-CANARY-5d1f"],
        )
        .current_dir(&live)
        .env("AH_TEST_WORLD", &root)
        .env("ANTHROPIC_API_KEY", format!("{CANARY}-of-the-victim"))
        .stdin(File::open(live.join("input")).unwrap())
        .spawn()
        .unwrap();
        let terminal = open_terminal();
        let terminal_path =
            fs::read_link(format!("/proc/self/fd/{}", terminal.1.as_raw_fd())).unwrap();
        give(&terminal_path, user);
        let made = ["-M4096", "-S1", "-Q"].map(|kind| make_shared(user, kind));
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let values = vec![
            ("{project}", text(world.project())),
            ("{home}", text(world.home())),
            ("{out}", text(root.join("outside"))),
            ("{live}", text(live)),
            ("{tcp}", tcp.to_string()),
            ("{tcp6}", tcp6.to_string()),
            ("{udp}", udp.to_string()),
            ("{victim}", victim.id().to_string()),
            ("{mark}", mark),
            ("{terminal}", text(terminal_path)),
            ("{fd}", "9".to_owned()),
            ("{folder}", "8".to_owned()),
            ("{shared}", made[0].clone()),
            ("{semaphores}", made[1].clone()),
            ("{messages}", made[2].clone()),
            ("{ah}", text(program.to_owned())),
            ("{names}", steering_names().collect::<Vec<_>>().join(" ")),
        ];
        let shared = ["-m", "-s", "-q"].iter().zip(&made);
        let place = Self {
            user,
            program: program.to_owned(),
            victim,
            _terminal: terminal,
            values,
            shared: shared
                .filter(|(_, id)| !id.is_empty())
                .map(|(kind, id)| format!("{kind}{id}"))
                .collect(),
            world,
        };
        place.bash(&format!(
            "cp -a '{}/.' saved; cp -a saved/. .",
            files.display()
        ));
        place
    }

    /// The folder of all targets.
    pub fn root(&self) -> PathBuf {
        self.world.home().parent().unwrap().to_owned()
    }

    /// Replaces what stands in braces. `agent` is how the agent's process is called.
    pub fn fill(&self, text: &str, number: usize, agent: &str) -> String {
        let hit = format!("touch {}/hit{{n}}; true", self.world.project().display());
        let text = text.replace("{hit}", &hit);
        let filled = self.values.iter().fold(text, |text, (name, value)| {
            if text.contains(name) {
                text.replace(name, value)
            } else {
                text
            }
        });
        // The tables of two users are tried at once, and some names are in folders that all share.
        filled
            .replace("{agent}", agent)
            .replace("{n}", &format!("{}-{number:03}", self.user))
    }

    /// The process ID of the victim.
    pub fn victim(&self) -> String {
        self.victim.id().to_string()
    }

    /// Whether the attacker is root.
    pub fn is_of_root(&self) -> bool {
        rustix::process::geteuid().is_root() && !is_other(self.user)
    }

    /// Restores the files.
    pub fn restore(&self) {
        self.bash("cd project && perl ../restore.pl");
    }

    /// Restores the project, in which commands find the words of the tables, too.
    pub fn restore_project(&self) {
        self.bash("cd project && perl ../restore.pl project && cp ../prelude.sh .");
    }

    /// Runs a script as the user in the folder of all targets, and returns its output.
    pub fn bash(&self, script: &str) -> String {
        let mut command = as_user(self.user, "bash", &["-c", HOLD, "bash", "-c", script]);
        command.current_dir(self.root()).stdin(Stdio::null());
        for (name, value) in self.environment() {
            command.env(&name, &value);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn environment(&self) -> Vec<(String, String)> {
        let own = [
            ("HOME", self.world.home().display().to_string()),
            (
                "SSH_AUTH_SOCK",
                self.root().join("live/agent").display().to_string(),
            ),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x".to_owned()),
            ("DOCKER_HOST", "tcp://127.0.0.1:1".to_owned()),
            ("DATABASE_URL", "postgres://x".to_owned()),
            ("SENTRY_DSN", "https://x".to_owned()),
            ("AH_TEST_WORLD", self.root().display().to_string()),
        ];
        let secret = |name: &str| (name.to_owned(), format!("{CANARY}-of-{name}"));
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let author = author().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = own.into_iter().chain(author);
        variables.chain(VARIABLES.map(secret)).collect()
    }

    /// The program with these arguments, run by the user with open files, in the project.
    pub fn ah<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        let ah = self.world.program(&self.program, arguments);
        let ah =
            { self.environment().into_iter() }.fold(ah, |ah, (name, value)| ah.env(&name, value));
        let ah = ah.through("bash", ["-c", HOLD]);
        match is_other(self.user) {
            true => ah.through("setpriv", SETPRIV),
            false => ah,
        }
    }

    /// Writes a file beside the project that the user can read.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::write(&path, text).unwrap();
        give(&path, self.user);
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = (self.victim.kill(), self.victim.wait());
        let _ = Command::new("ipcrm").args(&self.shared).output();
        let mark = self.root().file_name().unwrap().to_owned();
        let _ = fs::remove_file(Path::new("/dev/shm").join(mark));
    }
}

/// Opens a file and a folder outside, and runs the rest with them.
const HOLD: &str =
    "exec 8< \"$AH_TEST_WORLD/outside\" 9< \"$AH_TEST_WORLD/outside/data\"; exec \"$0\" \"$@\"";
const SETPRIV: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Lays the files that are attacked in a folder below this one, of which each place has a copy. Returns that folder.
pub fn laid(user: u32, below: &Path) -> PathBuf {
    fs::set_permissions(below, Permissions::from_mode(0o755)).unwrap();
    let files = below.join("laid");
    fs::create_dir(&files).unwrap();
    give(&files, user);
    let mut lay = as_user(user, "bash", &["-c", include_str!("lay.sh")]);
    let laid = lay.current_dir(&files).envs(author()).output().unwrap();
    assert!(laid.status.success(), "{laid:?}");
    files
}

/// The author of the user's commits, for git.
fn author() -> [(&'static str, &'static str); 5] {
    [
        ("GIT_AUTHOR_EMAIL", "u@example.com"),
        ("GIT_AUTHOR_NAME", "u"),
        ("GIT_COMMITTER_EMAIL", "u@example.com"),
        ("GIT_COMMITTER_NAME", "u"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
}

fn is_other(user: u32) -> bool {
    user == NOBODY && rustix::process::geteuid().is_root()
}

/// A command that runs as `user`, with none of the tester's variables.
pub fn as_user(user: u32, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(found(if is_other(user) { "setpriv" } else { program }));
    if is_other(user) {
        command.args(SETPRIV).arg(program);
    }
    command.args(arguments).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn give(path: &Path, user: u32) {
    if is_other(user) {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
        for entry in fs::read_dir(path).into_iter().flatten() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// The ID of a new object shared by processes; empty if there is no program to make it.
fn make_shared(user: u32, kind: &str) -> String {
    let output = as_user(user, "ipcmk", &[kind, "-p0600"]).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    said.rsplit(' ')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The program where `user` can run it: a copy if it cannot be reached where it is.
pub fn reachable(user: u32, folder: &Path) -> PathBuf {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_ah"));
    let is_there = as_user(user, "test", &["-x", own.to_str().unwrap()]).status();
    if is_there.is_ok_and(|status| status.success()) {
        return own;
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("ah");
    // Not by this process: a child of another test could have it open for writing when it is executed.
    let mut copying = Command::new("cp");
    assert!(spawn(copying.arg(own).arg(&copy)).wait().unwrap().success());
    copy
}

fn greet(mut stream: impl Read + Write) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{CANARY}\n",
        CANARY.len() + 1
    );
    let _ = stream.write_all(answer.as_bytes());
}

fn greet_tcp(address: &str) -> u16 {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                greet(&stream);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // Closed with unread bytes, the connection would be reset before the answer is read.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    port
}

fn greet_udp() -> u16 {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((_, from)) = udp.recv_from(&mut [0; 99]) {
            let _ = udp.send_to(format!("{CANARY}\n").as_bytes(), from);
        }
    });
    port
}

fn greet_unix(listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            greet(&stream);
        }
    });
}
