//! Runs every attack outside, where it must succeed, and in the sandbox, where it must fail: as an ordinary user, and
//! as root if the tests run as root.
//!
//! All targets are created by the test: directories, files, listeners, a process. Nothing else on the machine is
//! touched.

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

/// An unprivileged user.
const NOBODY: u32 = 65_534;
/// Errors of a kernel or machine that lacks the attacked feature.
const UNKNOWN: [&str; 5] = [
    "blocked 38",
    "blocked 93",
    "blocked 95",
    "blocked 97",
    "blocked 2",
];

/// Targets of the attacks, and the arguments that describe them.
pub struct Bait {
    root: TempDir,
    victim: Child,
    fd: File,
    words: Vec<String>,
    shared: i32,
}

impl Bait {
    /// Creates the targets for this user.
    pub fn lay(user: u32) -> Self {
        let root = TempDir::with_prefix("ah-attacks-").unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let [home, outside, workspace] =
            ["home", "outside", "workspace"].map(|name| root.path().join(name));
        for folder in [
            "home/.ssh",
            "outside",
            "workspace/.git/hooks",
            "workspace/.git/objects",
            "workspace/.ah",
            "workspace/.claude",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(home.join(".ssh/key"), "canary").unwrap();
        for name in ["data", "deleted", "kept", "renamed"] {
            fs::write(outside.join(name), "canary").unwrap();
        }
        fs::write(workspace.join(".git/config"), "[core]\n").unwrap();
        fs::write(workspace.join(".claude/removed.json"), "{}").unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        // Not by this process: a child of another test could have it open for writing when it is executed.
        let copied = Command::new("cp")
            .args([env!("CARGO_BIN_EXE_attack"), "bin/attack"])
            .current_dir(root.path())
            .status()
            .unwrap();
        assert!(copied.success());
        let name = root
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let [tcp, tcp6] = ["127.0.0.1:0", "[::1]:0"].map(greet_tcp);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp_port = udp.local_addr().unwrap().port();
        thread::spawn(move || {
            while let Ok((_, from)) = udp.recv_from(&mut [0; 8]) {
                let _ = udp.send_to(b"x", from);
            }
        });
        greet_unix(UnixListener::bind(outside.join("socket")).unwrap());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        greet_unix(UnixListener::bind_addr(&abstract_name).unwrap());
        let fd = File::open(home.join(".ssh/key")).unwrap();
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
        // SAFETY: takes numbers only.
        let shared = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o666) };
        give(root.path(), user);
        let victim = as_user(user)
            .args(["sh", "-c", "read _ # canary"])
            .current_dir(&outside)
            .env("CANARY_KEY", "canary")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = victim.id();
        let words = [home, outside, workspace].map(|path| path.to_str().unwrap().to_owned());
        let numbers = [
            i64::from(tcp),
            tcp6.into(),
            udp_port.into(),
            pid.into(),
            fd.as_raw_fd().into(),
            shared.into(),
        ];
        let words = words
            .into_iter()
            .chain(numbers.map(|number| number.to_string()))
            .chain([name])
            .collect();
        Self {
            root,
            victim,
            fd,
            words,
            shared,
        }
    }

    /// Returns the project.
    pub fn workspace(&self) -> &Path {
        Path::new(&self.words[2])
    }

    /// Returns the folder of the journal of commands.
    pub fn journal(&self) -> PathBuf {
        self.root.path().join("journal")
    }

    /// Puts a file into the project.
    pub fn lay_file(&self, user: u32, name: &str, text: &str) {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        give(self.workspace(), user);
    }

    /// Runs shell commands in a sandbox of this tier, one after the other. Returns what was moved aside; `None` if there
    /// is no such sandbox.
    pub fn command(&self, user: u32, tier: &str, lines: &[&str]) -> Option<Vec<String>> {
        let mut program = self.program(user);
        let output = program.args(self.job(tier, lines)).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if output.status.code() == Some(78) {
            assert!(
                std::env::var_os("CI").is_none(),
                "no sandbox, though CI is set: {said}"
            );
            return None;
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complaint}");
        Some(said.lines().map(str::to_owned).collect())
    }

    /// Returns the arguments for shell commands in a sandbox of this tier.
    pub fn job<'a>(&'a self, tier: &'a str, lines: &[&'a str]) -> Vec<&'a str> {
        let first = ["commands", tier, &self.words[2], &self.words[0]].into_iter();
        first.chain(lines.iter().copied()).collect()
    }

    /// Returns the program of the attacks, which runs as this user.
    pub fn program(&self, user: u32) -> Command {
        let mut command = Command::new(self.root.path().join("bin/attack"));
        if user == NOBODY && rustix::process::geteuid().is_root() {
            command.args(["as", &NOBODY.to_string()]);
        }
        command
    }

    /// Runs the attacks. Returns, for each, its name, whether this user could do it outside, and the result. Empty if
    /// the sandbox is not available.
    #[expect(clippy::print_stderr, reason = "what is left out is named")]
    pub fn attack(&self, user: u32, mode: &[&str]) -> Vec<(String, bool, String)> {
        let output = self
            .program(user)
            .args(mode)
            .args(&self.words)
            .env("CANARY_KEY", "canary")
            .env("HOME", &self.words[0])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if output.status.code() == Some(78) {
            assert!(
                std::env::var_os("CI").is_none(),
                "no sandbox, though CI is set: {said}"
            );
            eprintln!("left out, since there is no sandbox here: {said}");
            return Vec::new();
        }
        assert!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines =
            said.lines()
                .filter_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
                    [name, who, said] => Some((name.to_owned(), who == "can", said.to_owned())),
                    _ => None,
                });
        lines.collect()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = (self.victim.kill(), self.victim.wait(), &self.fd);
        // SAFETY: takes numbers only.
        unsafe { libc::shmctl(self.shared, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Returns a command that runs as `user`. The victim must belong to the attacker, or it would be safe without a
/// sandbox.
fn as_user(user: u32) -> Command {
    let is_root = rustix::process::geteuid().is_root();
    if is_root && user == NOBODY {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command
    } else {
        Command::new("env")
    }
}

fn give(path: &Path, user: u32) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                give(&entry.unwrap().path(), user);
            }
        }
    }
}

fn greet_tcp(address: &str) -> u16 {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"x");
        }
    });
    port
}

fn greet_unix(listener: UnixListener) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"x");
        }
    });
}

#[expect(clippy::print_stderr, reason = "what is left out is named")]
fn check(user: u32) {
    let bare = Bait::lay(user).attack(user, &["all"]);
    let bait = Bait::lay(user);
    let confined = bait.attack(user, &["confined", "full", "all"]);
    assert!(bare.len() >= 60, "{}", bare.len());
    if confined.is_empty() {
        return;
    }
    assert_eq!(bare.len(), confined.len());
    let mut faults = Vec::new();
    for ((name, can, outside), (_, _, inside)) in bare.iter().zip(&confined) {
        match outside.as_str() {
            "escaped" => {}
            _ if !can => {}
            unknown if UNKNOWN.contains(&unknown) => eprintln!("left out: {name} ({unknown})"),
            other => faults.push(format!("outside, {name}: {other}")),
        }
        if !inside.starts_with("blocked ") {
            faults.push(format!("inside, {name}: {inside}"));
        }
    }
    assert!(faults.is_empty(), "as {user}:\n{}", faults.join("\n"));
    assert_eq!(
        fs::read_to_string(bait.root.path().join("home/.ssh/key")).unwrap(),
        "canary"
    );
    assert_eq!(
        fs::read_to_string(bait.root.path().join("outside/data")).unwrap(),
        "canary"
    );
}

/// Returns a user other than root.
pub fn ordinary_user() -> u32 {
    match rustix::process::geteuid().as_raw() {
        0 => NOBODY,
        own => own,
    }
}

#[test]
fn an_ordinary_user_cannot_escape() {
    check(ordinary_user());
}

#[test]
fn ordinary_operations_work() {
    for user in [ordinary_user(), rustix::process::geteuid().as_raw()] {
        let bait = Bait::lay(user);
        let came = bait.attack(user, &["confined", "full", "allowed"]);
        let faults: Vec<_> = came.iter().filter(|(_, _, said)| said != "done").collect();
        assert!(faults.is_empty(), "as {user}: {faults:#?}");
        assert!(came.is_empty() || came.len() >= 25, "{}", came.len());
        let outside = fs::read_dir(bait.root.path().join("outside")).unwrap();
        let names: Vec<_> = outside.map(|entry| entry.unwrap().file_name()).collect();
        let is_debug = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("loaded");
        assert!(!names.iter().any(is_debug), "as {user}: {names:?}");
    }
}

#[test]
fn root_cannot_escape() {
    if rustix::process::geteuid().is_root() {
        check(0);
    }
}
