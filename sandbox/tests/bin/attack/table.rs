//! Table of attacks, and the user that can carry them out outside the sandbox.

use std::ffi::{CString, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::Duration;

use ah_sandbox::{
    Access, Allowlist, Confinement, Grant, Invocation, Proxy, Sandbox, Streams, Terminal, Tier,
};
use libc::{c_long, syscall};

use super::allowed::JOBS;
use super::machine;

/// Targets created by the test, in the order of the arguments.
struct Bait {
    /// Home directory with a secret in `.ssh/key`.
    home: PathBuf,
    /// Directory outside the workspace, with a file `data` and a listening socket `socket`.
    outside: PathBuf,
    workspace: PathBuf,
    tcp: u16,
    tcp6: u16,
    udp: u16,
    /// Process ID of a child of the test.
    victim: i32,
    /// File descriptor of the secret.
    fd: i32,
    /// ID of a shared memory segment.
    shared: i32,
    /// Name of an abstract socket.
    name: String,
}

/// User that can carry out an attack outside the sandbox.
#[derive(PartialEq)]
enum By {
    Anyone,
    Root,
}
use By::{Anyone, Root};

type Attack = fn(&Bait) -> io::Result<()>;

const ATTACKS: &[(&str, By, Attack)] = &[
    // Files.
    ("read a secret of the home", Anyone, |b| {
        read(b.home.join(".ssh/key"))
    }),
    ("list a folder of the home", Anyone, |b| {
        fs::read_dir(b.home.join(".ssh")).map(drop)
    }),
    ("ask whether a file is there", Anyone, |b| {
        fs::metadata(b.outside.join("data")).map(drop)
    }),
    ("make a file outside", Anyone, |b| {
        fs::write(b.outside.join("new"), "x")
    }),
    ("append to a file outside", Anyone, |b| {
        append(&b.outside.join("data"))
    }),
    ("truncate a file outside", Anyone, |b| {
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(b.outside.join("data"))
            .map(drop)
    }),
    ("delete a file outside", Anyone, |b| {
        fs::remove_file(b.outside.join("deleted"))
    }),
    ("rename a file outside", Anyone, |b| {
        fs::rename(b.outside.join("renamed"), b.outside.join("other"))
    }),
    ("make a folder outside", Anyone, |b| {
        fs::create_dir(b.outside.join("folder"))
    }),
    ("follow a link to the outside", Anyone, |b| {
        let link = b.workspace.join("link");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(b.home.join(".ssh/key"), &link)?;
        read(link)
    }),
    ("write through a link to the outside", Anyone, |b| {
        let link = b.workspace.join("link-to-write");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(b.outside.join("data"), &link)?;
        append(&link)
    }),
    ("link a file of the outside", Anyone, |b| {
        let link = b.workspace.join("hard-link");
        let _ = fs::remove_file(&link);
        fs::hard_link(b.outside.join("data"), link)
    }),
    ("walk up from the workspace", Anyone, |b| {
        read(b.workspace.join("../home/.ssh/key"))
    }),
    ("change modes outside", Anyone, |b| {
        fs::set_permissions(b.outside.join("data"), fs::Permissions::from_mode(0o600))
    }),
    ("change owners outside", Anyone, |b| {
        std::os::unix::fs::chown(b.outside.join("data"), None, None)
    }),
    ("change times outside", Anyone, |b| {
        let path = path(&b.outside.join("data"));
        // SAFETY: the path ends with a zero; no times mean now.
        done(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), std::ptr::null(), 0) }.into())
    }),
    ("set attributes outside", Anyone, |b| {
        let path = path(&b.outside.join("data"));
        // SAFETY: both texts end with a zero, and the value has the length that is passed.
        done(
            unsafe {
                libc::setxattr(
                    path.as_ptr(),
                    c"user.x".as_ptr(),
                    c"y".as_ptr().cast(),
                    1,
                    0,
                )
            }
            .into(),
        )
    }),
    ("watch a folder outside", Anyone, |b| {
        let path = path(&b.outside);
        // SAFETY: the path ends with a zero.
        unsafe {
            let watch = libc::inotify_init1(0);
            done(libc::inotify_add_watch(watch, path.as_ptr(), libc::IN_ALL_EVENTS).into())
        }
    }),
    ("lock a file outside", Anyone, |b| {
        File::open(b.outside.join("data"))?.lock()
    }),
    ("change into a folder outside", Anyone, |b| {
        std::env::set_current_dir(&b.outside)
    }),
    ("use a descriptor that was left open", Anyone, |b| {
        let mut text = [0_u8; 6];
        // SAFETY: the buffer has the length that is passed.
        done(unsafe { libc::read(b.fd, text.as_mut_ptr().cast(), text.len()) } as i64)?;
        found(&text == b"canary")
    }),
    ("read a secret of the environment", Anyone, |_| {
        found(std::env::var_os("CANARY_KEY").is_some())
    }),
    ("see what in /etc is not for everybody", Root, |_| {
        found(fs::metadata("/etc/shadow")?.len() > 0)
    }),
    // Files that take effect outside later.
    ("write a hook of git", Anyone, |b| {
        fs::write(b.workspace.join(".git/hooks/pre-commit"), "x")
    }),
    ("write the configuration of git", Anyone, |b| {
        append(&b.workspace.join(".git/config"))
    }),
    ("delete the configuration of git", Anyone, |b| {
        let path = b.workspace.join(".git/config");
        fs::remove_file(&path)?;
        fs::write(path, "")
    }),
    (
        "put a configuration of git in the old one's place",
        Anyone,
        |b| {
            let new = b.workspace.join(".git/config.new");
            fs::write(&new, "x")?;
            fs::rename(new, b.workspace.join(".git/config"))
        },
    ),
    ("put other hooks in the place of git's", Anyone, |b| {
        let (hooks, away) = (
            b.workspace.join(".git/hooks"),
            b.workspace.join("hooks-away"),
        );
        fs::rename(&hooks, &away)?;
        fs::rename(away, hooks)
    }),
    ("put another repository in the place of this", Anyone, |b| {
        let (git, away) = (b.workspace.join(".git"), b.workspace.join("git-away"));
        fs::rename(&git, &away)?;
        fs::rename(away, git)
    }),
    ("write settings of this program", Anyone, |b| {
        fs::write(b.workspace.join(".ah/settings.json"), "{}")
    }),
    ("write settings of another agent", Anyone, |b| {
        fs::write(b.workspace.join(".claude/settings.json"), "{}")
    }),
    ("delete settings of another agent", Anyone, |b| {
        fs::remove_file(b.workspace.join(".claude/removed.json"))
    }),
    // Other processes.
    ("read what a process was started with", Anyone, |b| {
        let line = fs::read(format!("/proc/{}/cmdline", b.victim))?;
        found(String::from_utf8_lossy(&line).contains("canary"))
    }),
    ("read the environment of a process", Anyone, |b| {
        let line = fs::read(format!("/proc/{}/environ", b.victim))?;
        found(String::from_utf8_lossy(&line).contains("CANARY_KEY"))
    }),
    ("walk through the root of a process", Anyone, |b| {
        read(
            Path::new(&format!("/proc/{}/root", b.victim))
                .join(b.home.strip_prefix("/").unwrap())
                .join(".ssh/key"),
        )
    }),
    ("walk through the folder of a process", Anyone, |b| {
        read(format!("/proc/{}/cwd/kept", b.victim))
    }),
    ("open the memory of a process", Anyone, |b| {
        File::open(format!("/proc/{}/mem", b.victim)).map(drop)
    }),
    ("send a signal", Anyone, |b| {
        call(libc::SYS_kill, &[b.victim.into(), 0])
    }),
    ("send a signal to a thread", Anyone, |b| {
        call(libc::SYS_tgkill, &[b.victim.into(), b.victim.into(), 0])
    }),
    ("get hold of a process", Anyone, |b| {
        call(libc::SYS_pidfd_open, &[b.victim.into(), 0])
    }),
    ("trace a process", Anyone, |b| {
        call(
            libc::SYS_ptrace,
            &[libc::PTRACE_SEIZE.into(), b.victim.into(), 0, 0],
        )
    }),
    ("ask for the limits of a process", Anyone, |b| {
        let mut old = [0_u64; 2];
        call(
            libc::SYS_prlimit64,
            &[
                b.victim.into(),
                libc::RLIMIT_NOFILE.into(),
                0,
                pointer(&mut old),
            ],
        )
    }),
    ("change on which processor a process runs", Anyone, |b| {
        let mut all = [u64::MAX; 16];
        call(
            libc::SYS_sched_setaffinity,
            &[b.victim.into(), 128, pointer(&mut all)],
        )
    }),
    ("change the priority of a process", Anyone, |b| {
        call(libc::SYS_setpriority, &[0, b.victim.into(), 19])
    }),
    ("attach shared memory of others", Anyone, |b| {
        call(
            libc::SYS_shmat,
            &[b.shared.into(), 0, libc::SHM_RDONLY.into()],
        )
    }),
    // The network.
    ("connect by TCP", Anyone, |b| {
        reach(TcpStream::connect(("127.0.0.1", b.tcp))?)
    }),
    ("connect by TCP over version 6", Anyone, |b| {
        reach(TcpStream::connect(("::1", b.tcp6))?)
    }),
    ("send by UDP", Anyone, |b| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.connect(("127.0.0.1", b.udp))?;
        socket.send(b"x")?;
        socket.recv(&mut [0; 8]).map(drop)
    }),
    ("connect to a socket of the file system", Anyone, |b| {
        reach(UnixStream::connect(b.outside.join("socket"))?)
    }),
    ("connect to an abstract socket", Anyone, |b| {
        reach(UnixStream::connect_addr(&SocketAddr::from_abstract_name(
            &b.name,
        )?)?)
    }),
    ("open a raw socket", Root, |_| {
        socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
    }),
    ("open a raw socket of version 6", Root, |_| {
        socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6)
    }),
    ("open a packet socket", Root, |_| {
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
    }),
    ("open a socket to the host of this machine", Anyone, |_| {
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)
    }),
    ("open a socket to the kernel's ciphers", Anyone, |_| {
        socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)
    }),
    ("open a socket to the kernel's audit", Anyone, |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, 9)
    }),
    ("open a socket to the kernel's devices", Anyone, |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, 15)
    }),
    ("open a socket of several paths", Anyone, |_| {
        socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)
    }),
    ("open a socket past the kernel", Root, |_| {
        socket(libc::AF_XDP, libc::SOCK_RAW, 0)
    }),
    // The kernel.
    ("make a user namespace", Anyone, |_| {
        call(libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()])
    }),
    ("make a child in a user namespace", Anyone, |_| {
        child(|| {
            call_for_child(
                libc::SYS_clone,
                &[i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD), 0, 0, 0, 0],
            )
        })
    }),
    (
        "make a child in a user namespace, the new way",
        Anyone,
        |_| {
            let mut arguments = [0_u64; 11];
            arguments[0] = libc::CLONE_NEWUSER as u64;
            arguments[4] = libc::SIGCHLD as u64;
            let pointer = pointer(&mut arguments);
            child(|| call_for_child(libc::SYS_clone3, &[pointer, 88]))
        },
    ),
    ("join a namespace", Root, |_| {
        let file = File::open("/proc/self/ns/uts")?;
        call(libc::SYS_setns, &[file.as_raw_fd().into(), 0])
    }),
    ("mount", Root, |b| {
        let target = path(&b.workspace.join("mounted"));
        let _ = fs::create_dir(b.workspace.join("mounted"));
        // SAFETY: all texts end with a zero.
        unsafe {
            let kind = c"tmpfs".as_ptr();
            done(libc::mount(kind, target.as_ptr(), kind, 0, std::ptr::null()).into())?;
            done(libc::umount(target.as_ptr()).into())
        }
    }),
    ("mount, the new way", Root, |_| {
        let mut kind = *b"tmpfs\0";
        call(libc::SYS_fsopen, &[kind.as_mut_ptr() as i64, 0])
    }),
    ("copy a mount", Root, |_| {
        let mut path = *b"/\0";
        call(
            libc::SYS_open_tree,
            &[libc::AT_FDCWD.into(), path.as_mut_ptr() as i64, 1],
        )
    }),
    ("change the root", Root, |b| {
        std::os::unix::fs::chroot(&b.workspace)
    }),
    ("name a file by its handle", Anyone, |b| {
        let path = path(&b.workspace);
        let (mut handle, mut mount) = ([128_u32; 40], [0_i32; 1]);
        call(
            libc::SYS_name_to_handle_at,
            &[
                libc::AT_FDCWD.into(),
                path.as_ptr() as i64,
                pointer(&mut handle),
                pointer(&mut mount),
                0,
            ],
        )
    }),
    ("watch whole file systems", Root, |_| {
        call(libc::SYS_fanotify_init, &[0, 0])
    }),
    ("open a ring of calls", Anyone, |_| {
        let mut parameters = [0_u32; 30];
        call(libc::SYS_io_uring_setup, &[4, pointer(&mut parameters)])
    }),
    ("handle page faults", Anyone, |_| {
        call(libc::SYS_userfaultfd, &[1])
    }),
    ("ask for keys", Anyone, |_| {
        call(libc::SYS_keyctl, &[0, -4, 0])
    }),
    ("list mounts by a new call", Anyone, |_| {
        const LISTMOUNT: c_long = 458;
        let (mut request, mut found) = ([24_u64, u64::MAX, 0], [0_u64; 8]);
        call(
            LISTMOUNT,
            &[pointer(&mut request), pointer(&mut found), 8, 0],
        )
    }),
    ("ask for security modules by a new call", Anyone, |_| {
        const LSM_LIST_MODULES: c_long = 461;
        let (mut found, mut size) = ([0_u64; 64], [512_u32]);
        call(
            LSM_LIST_MODULES,
            &[pointer(&mut found), pointer(&mut size), 0],
        )
    }),
    ("make all that is readable executable", Anyone, |_| {
        call(libc::SYS_personality, &[libc::READ_IMPLIES_EXEC.into()])
    }),
    ("load a program into the kernel", Root, |_| {
        // A map with one element.
        let mut attributes = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        call(libc::SYS_bpf, &[0, pointer(&mut attributes), 64])
    }),
    ("count events of the processor", Anyone, |_| {
        let mut attributes = [0_u64; 16];
        attributes[0] = 1 | (128 << 32);
        // Excludes events of the kernel.
        attributes[5] = 1 << 5 | 1 << 6;
        call(
            libc::SYS_perf_event_open,
            &[pointer(&mut attributes), 0, -1, -1, 0],
        )
    }),
    ("compare what processes hold", Anyone, |_| {
        let own = i64::from(std::process::id());
        call(libc::SYS_kcmp, &[own, own, 1, 0, 0])
    }),
    ("read the kernel's log", Root, |_| {
        call(libc::SYS_syslog, &[10, 0, 0])
    }),
    ("open a file that names a program for crashes", Root, |_| {
        OpenOptions::new()
            .write(true)
            .open("/proc/sys/kernel/core_pattern")
            .map(drop)
    }),
    ("set the name of the machine", Root, |_| {
        let mut name = [0_u8; 65];
        // SAFETY: the buffer has the length that is passed.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), 64) };
        let length = name.iter().position(|byte| *byte == 0).unwrap();
        call(
            libc::SYS_sethostname,
            &[name.as_mut_ptr() as i64, length as i64],
        )
    }),
    ("set the time", Root, |_| {
        call(libc::SYS_settimeofday, &[0, 0])
    }),
    ("become another user", Root, |_| {
        call(libc::SYS_setuid, &[65_533])
    }),
    ("join other groups", Root, |_| {
        call(libc::SYS_setgroups, &[0, 0])
    }),
    ("move memory between nodes", Anyone, |_| {
        call(libc::SYS_move_pages, &[0, 0, 0, 0, 0, 0])
    }),
    ("make a file that runs as its owner", Anyone, |b| {
        let path = b.workspace.join("made-so");
        fs::write(&path, "x")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o4755))
    }),
    (
        "make a file that runs as its group from the beginning",
        Anyone,
        |b| {
            let path = b.workspace.join("born-so");
            let _ = fs::remove_file(&path);
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o2755)
                .open(path)
                .map(drop)
        },
    ),
    ("make a device", Root, |b| {
        let place = b.workspace.join("device");
        let _ = fs::remove_file(&place);
        let path = path(&place);
        let device = libc::makedev(1, 3);
        // SAFETY: the path ends with a zero.
        done(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, device) }.into())
    }),
    #[cfg(target_arch = "x86_64")]
    ("call as programs of 32 bits do", Anyone, |_| {
        let mut result: i64 = 20;
        // SAFETY: the call takes no arguments and changes no memory.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        };
        match result {
            1.. => Ok(()),
            error => Err(io::Error::from_raw_os_error(i32::try_from(-error).unwrap())),
        }
    }),
    #[cfg(target_arch = "x86_64")]
    ("reach ports of the processor", Anyone, |_| {
        call(libc::SYS_ioperm, &[0x80, 1, 0])
    }),
    #[cfg(target_arch = "x86_64")]
    ("read the table of segments", Anyone, |_| {
        let mut buffer = [0_u8; 16];
        call(libc::SYS_modify_ldt, &[0, buffer.as_mut_ptr() as i64, 16])
    }),
];

fn read(path: impl AsRef<Path>) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    found(text.contains("canary"))
}

fn append(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(b"\n")
}

pub(super) fn found(is_there: bool) -> io::Result<()> {
    is_there
        .then_some(())
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Listeners send one byte, so that a connection that was never accepted does not count.
fn reach(mut stream: impl Read) -> io::Result<()> {
    stream.read_exact(&mut [0; 1])
}

pub(super) fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

pub(super) fn pointer<T, const N: usize>(array: &mut [T; N]) -> i64 {
    array.as_mut_ptr() as i64
}

pub(super) fn done(result: i64) -> io::Result<()> {
    (result >= 0)
        .then_some(())
        .ok_or_else(io::Error::last_os_error)
}

pub(super) fn call(number: c_long, arguments: &[i64]) -> io::Result<()> {
    done(call_for_child(number, arguments))
}

fn call_for_child(number: c_long, arguments: &[i64]) -> i64 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: each attack gives what its call takes: numbers, and pointers to memory that lives and is large enough.
    unsafe { syscall(number, a, b, c, d, e, f) }
}

/// Runs a system call that returns twice, like fork.
fn child(call: impl FnOnce() -> i64) -> io::Result<()> {
    let result = call();
    if result == 0 {
        // SAFETY: the child has nothing to tidy up.
        unsafe { libc::_exit(0) };
    }
    done(result)
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    done(unsafe { libc::socket(family, kind, protocol) }.into())
}

impl Bait {
    fn parse(words: &[String]) -> Self {
        let [
            home,
            outside,
            workspace,
            tcp,
            tcp6,
            udp,
            victim,
            fd,
            shared,
            name,
        ] = words
        else {
            panic!("ten words are expected, not {words:?}");
        };
        Self {
            home: home.into(),
            outside: outside.into(),
            workspace: workspace.into(),
            tcp: tcp.parse().unwrap(),
            tcp6: tcp6.parse().unwrap(),
            udp: udp.parse().unwrap(),
            victim: victim.parse().unwrap(),
            fd: fd.parse().unwrap(),
            shared: shared.parse().unwrap(),
            name: name.clone(),
        }
    }
}

pub fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments
        .next_if(|first| first == ah_sandbox::LAUNCHER)
        .is_some()
    {
        ah_sandbox::launcher();
    }
    if arguments
        .next_if(|first| first == ah_sandbox::PROBE)
        .is_some()
    {
        ah_sandbox::probe(arguments);
    }
    let words: Vec<String> = arguments.map(|word| word.into_string().unwrap()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    match words[..] {
        ["one", name, ref bait @ ..] => one(name, &Bait::parse(&owned(bait))),
        ["all", ref bait @ ..] => all(&owned(bait)),
        ["as", user, ref rest @ ..] => become_user(user.parse().unwrap(), rest),
        ["allowed"] => allowed(),
        ["on", machine, ref rest @ ..] => {
            machine::enter(machine);
            again(rest);
        }
        ["tiers"] => tiers(),
        ["commands", tier, workspace, home, ref lines @ ..] => {
            commands(named(tier), workspace, home, lines);
        }
        ["confined", tier, what, ref bait @ ..] => confined(named(tier), what, &owned(bait)),
        _ => panic!("what is {words:?}?"),
    }
}

/// Tries one attack.
fn one(name: &str, bait: &Bait) {
    let (_, _, attack) = ATTACKS.iter().find(|(known, ..)| *known == name).unwrap();
    let said = match attack(bait) {
        Ok(()) => "escaped".to_owned(),
        Err(error) => format!("blocked {}", error.raw_os_error().unwrap_or_default()),
    };
    println!("{said}");
}

/// Tries all attacks, each in its own process, and prints a line for each.
fn all(bait: &[String]) {
    let is_root = rustix::process::geteuid().is_root();
    for (name, by, _) in ATTACKS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["one", name])
            .args(bait)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said = if said.is_empty() {
            format!("died: {}", output.status)
        } else {
            said.trim_end().to_owned()
        };
        let who = if *by == Anyone || is_root {
            "can"
        } else {
            "cannot"
        };
        println!("{name}\t{who}\t{said}");
    }
}

/// Runs all ordinary operations, each in its own process, and prints a line for each.
fn allowed() {
    for (name, job) in JOBS {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            match job() {
                Ok(()) => println!("{name}\tcan\tdone"),
                Err(error) => println!("{name}\tcan\tfailed: {error}"),
            }
            exit(0);
        }
        // SAFETY: nothing is asked for but that it has ended.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

/// Continues as another user.
fn become_user(user: u32, rest: &[&str]) {
    // SAFETY: takes numbers only, before there are threads.
    let result = unsafe {
        libc::setgroups(0, std::ptr::null())
            | libc::setresgid(user, user, user)
            | libc::setresuid(user, user, user)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    again(rest);
}

/// Runs this program with other arguments, and ends as it does.
fn again(arguments: &[&str]) -> ! {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .status()
        .unwrap();
    exit(status.code().unwrap_or(99));
}

fn named(tier: &str) -> Tier {
    let mut tiers = Tier::ALL.into_iter();
    tiers.find(|known| known.as_str() == tier).unwrap()
}

/// Prints for each tier whether it can be built, or why not.
fn tiers() {
    let program = std::env::current_exe().unwrap();
    for tier in Tier::ALL {
        match ah_sandbox::check(tier, &program) {
            Ok(_) => println!("{}\tcan\tbuilt", tier.as_str()),
            Err(error) => println!("{}\tcan\t{error}", tier.as_str()),
        }
    }
}

/// Names of settings of other programs, as a caller gives them.
const SETTINGS: [&str; 8] = [
    ".ah",
    ".claude",
    ".codex",
    ".envrc",
    ".githooks",
    ".husky",
    ".mcp.json",
    ".vscode",
];

/// Files of the project that settings guard, and hide.
const GUARDED: &str = "sub/deep/guard";
const HIDDEN: [&str; 2] = ["sub/deep/secret", "vault"];

/// Runs shell commands one after the other in one sandbox of this tier, and prints what is moved aside after each. Their
/// journal is beside the home.
fn commands(tier: Tier, workspace: &str, home: &str, lines: &[&str]) {
    let program = std::env::current_exe().unwrap();
    let mut confinement = Confinement::new(workspace.into(), Some(home.into()));
    confinement.tier = tier;
    confinement.protect_names(SETTINGS, workspace.as_ref());
    confinement.protected.push(GUARDED.into());
    let hidden = HIDDEN.map(|name| fs::canonicalize(Path::new(workspace).join(name)));
    confinement.hidden.extend(hidden.into_iter().flatten());
    let sandbox = Sandbox::new(confinement, Proxy::new(Allowlist::default()), program);
    let sandbox = sandbox.with_journal(Path::new(home).with_file_name("journal"));
    for line in lines {
        let started = sandbox.spawn(Invocation {
            program: "sh".as_ref(),
            arguments: &["-c".into(), line.into()],
            cwd: workspace.as_ref(),
            environment: ah_sandbox::variables(std::env::vars(), &[], sandbox.proxy_port()),
            streams: Streams::null().unwrap(),
            terminal: Terminal::None,
            bounds: None,
        });
        let mut child = started.unwrap_or_else(|error| {
            println!("{error}");
            exit(78)
        });
        child.process.wait().unwrap();
        for path in child.guard.quarantine() {
            println!("{}", path.display());
        }
    }
}

/// Runs all attacks or all ordinary operations in a sandbox of this tier.
fn confined(tier: Tier, what: &str, bait: &[String]) {
    let laid = Bait::parse(bait);
    let program = std::env::current_exe().unwrap();
    let mut confinement = Confinement::new(laid.workspace.clone(), Some(laid.home));
    confinement.tier = tier;
    confinement.protect_names(SETTINGS, &laid.workspace);
    confinement.grants.push(Grant {
        path: program.parent().unwrap().to_owned(),
        access: Access::RUN,
    });
    let sandbox = Sandbox::new(
        confinement,
        Proxy::new(Allowlist::default()),
        program.clone(),
    );
    let bait = bait.iter().filter(|_| what == "all").map(OsString::from);
    let arguments: Vec<OsString> = [what.into()].into_iter().chain(bait).collect();
    let mut environment = ah_sandbox::variables(std::env::vars(), &[], sandbox.proxy_port());
    if what == "allowed" {
        // The loader of a program running outside would write there.
        let debug = laid.outside.join("loaded").display().to_string();
        environment.push(("LD_DEBUG".to_owned(), "statistics".to_owned()));
        environment.push(("LD_DEBUG_OUTPUT".to_owned(), debug));
    }
    let started = sandbox.spawn(Invocation {
        program: program.as_os_str(),
        arguments: &arguments,
        cwd: &laid.workspace,
        environment,
        streams: Streams::inherited().unwrap(),
        terminal: Terminal::Detached,
        bounds: None,
    });
    match started {
        Ok(mut child) => {
            let status = child.process.wait().unwrap();
            for path in child.guard.quarantine() {
                println!("quarantined\t{}", path.display());
            }
            exit(status.code().unwrap_or(99))
        }
        Err(error) => {
            println!("{error}");
            exit(78)
        }
    }
}
