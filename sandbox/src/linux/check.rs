//! Checks whether the sandbox works on this machine: builds one, and tries forbidden operations from inside.
//!
//! The targets are created for the check: files, listeners, an environment variable, an open file. A check holds if the
//! operation failed inside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::landlock;
use super::spawn::Sandbox;
use crate::PROBE;
use crate::access::{Access, Grant, Tier};
use crate::allowlist::Allowlist;
use crate::command::{Invocation, SetupError, Streams, Terminal};
use crate::confinement::Confinement;
use crate::proxy::Proxy;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Forbidden operation.
    pub name: String,
    /// Layers that refuse it.
    pub mechanism: String,
    /// Whether it was refused.
    pub held: bool,
    /// OS error number of the refusal.
    pub errno: Option<i32>,
}

/// Targets of the forbidden operations, created outside the sandbox.
#[derive(Debug, Serialize, Deserialize)]
struct Bait {
    tier: Tier,
    secret: PathBuf,
    outside: PathBuf,
    workspace: PathBuf,
    port: u16,
    socket: PathBuf,
    name: String,
    process: i32,
    fd: i32,
}

/// Builds a sandbox of this tier around a temporary directory and runs all checks in it. `launcher` must be a program
/// that also calls [`probe`] if its first argument is [`PROBE`].
///
/// # Errors
///
/// If a sandbox of this tier cannot be built, with the reason.
pub fn check(tier: Tier, launcher: &Path) -> Result<Vec<Guarantee>, SetupError> {
    let setup_error = |error: io::Error| SetupError::Sandbox(error.to_string());
    let folder = TempDir::with_prefix("ah-check-").map_err(setup_error)?;
    let root = fs::canonicalize(folder.path()).map_err(setup_error)?;
    let [home, outside, workspace] = ["home", "outside", "workspace"].map(|name| root.join(name));
    for path in [&home, &outside, &workspace.join(".git/hooks")] {
        fs::create_dir_all(path).map_err(setup_error)?;
    }
    let secret = home.join("secret");
    fs::write(&secret, "secret").map_err(setup_error)?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(setup_error)?;
    let socket = outside.join("socket");
    let _unix = UnixListener::bind(&socket).map_err(setup_error)?;
    let name = root.to_string_lossy().into_owned();
    let address = SocketAddr::from_abstract_name(&name).map_err(setup_error)?;
    let _abstract = UnixListener::bind_addr(&address).map_err(setup_error)?;
    let open = File::open(&secret).map_err(setup_error)?;
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty())
        .map_err(|errno| setup_error(errno.into()))?;
    let bait = Bait {
        tier,
        secret,
        outside,
        workspace: workspace.clone(),
        port: listener.local_addr().map_err(setup_error)?.port(),
        socket,
        name,
        process: rustix::process::getpid().as_raw_pid(),
        fd: open.as_raw_fd(),
    };
    let program = std::env::current_exe().map_err(setup_error)?;
    let mut confinement = Confinement::new(workspace.clone(), Some(home));
    confinement.tier = tier;
    confinement.grants.push(Grant {
        path: program.clone(),
        access: Access::RUN,
    });
    let sandbox = Sandbox::new(
        confinement,
        Proxy::new(Allowlist::default()),
        launcher.to_owned(),
    );
    let words = serde_json::to_string(&bait).map_err(|error| setup_error(error.into()))?;
    let arguments = [PROBE.into(), words.into()];
    let (mut found, stdout) = io::pipe().map_err(setup_error)?;
    let mut child = sandbox.spawn(Invocation {
        program: program.as_os_str(),
        arguments: &arguments,
        cwd: &workspace,
        environment: Vec::new(),
        streams: Streams {
            stdout: stdout.into(),
            ..Streams::null().map_err(setup_error)?
        },
        terminal: Terminal::None,
        bounds: None,
    })?;
    let mut output = Vec::new();
    found.read_to_end(&mut output).map_err(setup_error)?;
    child.process.wait().map_err(setup_error)?;
    serde_json::from_slice(&output).map_err(|error| {
        SetupError::Sandbox(format!("the probe inside the sandbox failed: {error}"))
    })
}

/// Runs the checks inside the sandbox and prints their results as JSON. Takes the arguments after [`PROBE`].
pub fn probe(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ! {
    let words = arguments.next().unwrap_or_default();
    let Ok(bait) = serde_json::from_slice::<Bait>(words.as_encoded_bytes()) else {
        std::process::exit(super::setup::NO_SANDBOX);
    };
    let found = serde_json::to_vec(&guarantees(&bait)).unwrap_or_default();
    let written = io::stdout().write_all(&found);
    std::process::exit(i32::from(written.is_err()))
}

fn guarantees(bait: &Bait) -> Vec<Guarantee> {
    let mut all = of_files(bait);
    all.extend(of_the_rest(bait));
    all
}

/// Returns the result of an operation that must fail.
fn tried(name: &str, mechanism: &str, attempt: io::Result<()>) -> Guarantee {
    Guarantee {
        name: name.to_owned(),
        mechanism: mechanism.to_owned(),
        held: attempt.is_err(),
        errno: attempt.err().and_then(|error| error.raw_os_error()),
    }
}

fn file_mechanism(tier: Tier) -> &'static str {
    match tier {
        Tier::Full => "mounts, Landlock",
        Tier::Namespaces => "mounts",
        Tier::Landlock => "Landlock",
    }
}

fn of_files(bait: &Bait) -> Vec<Guarantee> {
    let files = file_mechanism(bait.tier);
    vec![
        tried(
            "read a file in the home folder",
            files,
            fs::read(&bait.secret).map(drop),
        ),
        tried(
            "write outside the workspace",
            files,
            fs::write(bait.outside.join("new"), "x"),
        ),
        tried(
            "see a file outside",
            "mounts",
            fs::metadata(&bait.secret).map(drop),
        ),
        tried(
            "write a git hook",
            "mounts",
            fs::write(bait.workspace.join(".git/hooks/x"), "x"),
        ),
        tried("rename the .git folder", "mounts", {
            fs::rename(bait.workspace.join(".git"), bait.workspace.join("git"))
        }),
        tried("use a file that was left open", "close on exec", {
            // SAFETY: nothing else in this process knows the number, so nothing of it can be closed meanwhile.
            let fd = unsafe { BorrowedFd::borrow_raw(bait.fd) };
            rustix::fs::fstat(fd).map(drop).map_err(io::Error::from)
        }),
    ]
}

fn of_the_rest(bait: &Bait) -> Vec<Guarantee> {
    let files = file_mechanism(bait.tier);
    let network = match bait.tier {
        Tier::Full | Tier::Namespaces => "network namespace",
        Tier::Landlock => "system call filter",
    };
    let processes = match bait.tier {
        Tier::Full => "process namespace, Landlock",
        Tier::Namespaces => "process namespace",
        Tier::Landlock => "Landlock",
    };
    let filter = "system call filter";
    let socket = |family| {
        let kind = rustix::net::SocketType::RAW;
        rustix::net::socket(family, kind, None)
            .map(drop)
            .map_err(io::Error::from)
    };
    vec![
        tried("reach a listener on this machine", network, {
            TcpStream::connect(("127.0.0.1", bait.port)).map(drop)
        }),
        tried(
            "reach a socket in the file system",
            files,
            UnixStream::connect(&bait.socket).map(drop),
        ),
        tried("reach an abstract socket", network, {
            SocketAddr::from_abstract_name(&bait.name)
                .and_then(|name| UnixStream::connect_addr(&name))
                .map(drop)
        }),
        tried("send a signal to a process outside", processes, {
            let process = Pid::from_raw(bait.process)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH));
            process.and_then(|process| test_kill_process(process).map_err(io::Error::from))
        }),
        tried(
            "open a packet socket",
            filter,
            socket(rustix::net::AddressFamily::PACKET),
        ),
        tried(
            "open a socket to the host of a virtual machine",
            filter,
            socket(rustix::net::AddressFamily::VSOCK),
        ),
        tried("make a user namespace", filter, {
            // SAFETY: this process has one thread, which shares nothing with another.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }
                .map_err(io::Error::from)
        }),
        tried("make a file that runs as its owner", filter, {
            let path = bait.workspace.join("set-id");
            fs::write(&path, "")
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o4755)))
        }),
        tried("change the kernel's settings", "mounts, capabilities", {
            OpenOptions::new()
                .write(true)
                .open("/proc/sys/kernel/core_pattern")
                .map(drop)
        }),
        tried("be user 0 (root)", "user namespace", {
            match rustix::process::geteuid().is_root() {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::EPERM)),
            }
        }),
    ]
}

/// Returns advice for making the full sandbox available.
pub fn remedy() -> String {
    let read =
        |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
    let is_set = |name: &str, value: &str| read(name).trim() == value;
    if is_set("kernel/apparmor_restrict_unprivileged_userns", "1") {
        return "AppArmor forbids user namespaces: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or a \
                profile for this program alone, as docs/sandbox.md has it"
            .to_owned();
    }
    if is_set("kernel/unprivileged_userns_clone", "0") {
        return "this system forbids user namespaces: `sudo sysctl kernel.unprivileged_userns_clone=1`".to_owned();
    }
    if is_set("user/max_user_namespaces", "0") {
        return "user namespaces are not available: on purpose inside another sandbox; elsewhere \
                `sudo sysctl user.max_user_namespaces=15000`"
            .to_owned();
    }
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        return "in a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                --security-opt systempaths=unconfined`"
            .to_owned();
    }
    if !landlock::is_new_enough() {
        return "this kernel has no Landlock, or one older than Linux 6.2: a newer one adds the second layer".to_owned();
    }
    "Linux 6.2 or newer with Landlock and user namespaces is needed; `--sandbox=landlock` needs no namespaces".to_owned()
}
