//! Ordinary operations that must work inside the sandbox, although they use calls that the filter inspects or are
//! easily broken by a sandbox.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::ptr::null_mut;

use super::table::{call, done, found, path, pointer};

type Job = fn() -> io::Result<()>;

pub const JOBS: &[(&str, Job)] = &[
    ("trace an own child", || {
        let child = fork(|| {
            let traced = call(libc::SYS_ptrace, &[libc::PTRACE_TRACEME.into(), 0, 0, 0]);
            // SAFETY: takes numbers only.
            unsafe { libc::raise(libc::SIGSTOP) };
            i32::from(traced.is_err())
        })?;
        found(libc::WIFSTOPPED(wait(child)?))?;
        let mut registers = [0_u64; 64];
        let mut whole = [registers.as_mut_ptr() as u64, 512];
        let (read, general, go_on) = (0x4204, 1, libc::PTRACE_CONT.into());
        call(
            libc::SYS_ptrace,
            &[read, child.into(), general, pointer(&mut whole)],
        )?;
        call(libc::SYS_ptrace, &[go_on, child.into(), 0, 0])?;
        found(wait(child)? == 0)
    }),
    ("read the memory of an own child", || {
        let word = *b"canary";
        let forked = fork(|| {
            // SAFETY: waits until it is killed.
            unsafe { libc::pause() }
        })?;
        let mut seen = [0_u8; 6];
        let [mut to, mut from] = [seen.as_mut_ptr() as u64, word.as_ptr() as u64].map(|at| [at, 6]);
        let (to, from) = (pointer(&mut to), pointer(&mut from));
        let read = call(
            libc::SYS_process_vm_readv,
            &[forked.into(), to, 1, from, 1, 0],
        );
        call(libc::SYS_kill, &[forked.into(), libc::SIGKILL.into()])?;
        wait(forked)?;
        read?;
        found(seen == word)
    }),
    ("get hold of an own child and wait for it", || {
        let child = fork(|| 0)?;
        // SAFETY: takes numbers only.
        let hold = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
        done(hold)?;
        let mut info = [0_u8; 128];
        let (by_hold, ended) = (3, libc::WEXITED.into());
        call(
            libc::SYS_waitid,
            &[by_hold, hold, pointer(&mut info), ended, 0],
        )
    }),
    ("talk over a socket of the file system", || {
        let place = "talk";
        let _ = fs::remove_file(place);
        let listener = UnixListener::bind(place)?;
        UnixStream::connect(place)?.write_all(b"x")?;
        listener.accept()?.0.read_exact(&mut [0])
    }),
    ("talk over an abstract socket of its own", || {
        let name = SocketAddr::from_abstract_name("talk")?;
        let listener = UnixListener::bind_addr(&name)?;
        UnixStream::connect_addr(&name)?.write_all(b"x")?;
        listener.accept()?.0.read_exact(&mut [0])
    }),
    ("talk by TCP with itself", || talk("127.0.0.1:0")),
    ("talk by TCP over version 6 with itself", || talk("[::1]:0")),
    ("talk by UDP with itself", || {
        let [one, other] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        one.send_to(b"x", other.local_addr()?)?;
        other.recv(&mut [0]).map(drop)
    }),
    ("list the interfaces of the network", || {
        let mut list = null_mut();
        // SAFETY: the pointer outlives the call, and what it gave is given back once.
        unsafe {
            done(libc::getifaddrs(&raw mut list).into())?;
            let is_any = !list.is_null();
            libc::freeifaddrs(list);
            found(is_any)
        }
    }),
    ("open a terminal of its own", || {
        let (mut person, mut program) = (0, 0);
        let none = null_mut();
        let (one, other) = (&raw mut person, &raw mut program);
        // SAFETY: both numbers outlive the call; nothing else is asked for.
        let opened = unsafe { libc::openpty(one, other, none, null_mut(), null_mut()) };
        done(opened.into())?;
        let mut size = [25_u16, 80, 0, 0];
        call(
            libc::SYS_ioctl,
            &[
                person.into(),
                libc::TIOCSWINSZ.cast_signed(),
                pointer(&mut size),
            ],
        )
    }),
    ("start a hundred threads", || {
        let threads = (0..100).map(|number| std::thread::spawn(move || number));
        let threads: Vec<_> = threads.collect();
        let sum: i32 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        found(sum == 4950)
    }),
    ("start a program with pipes", || {
        let mut cat = Command::new("cat")
            .env_remove("LD_DEBUG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        cat.stdin.take().unwrap().write_all(b"x")?;
        found(cat.wait_with_output()?.stdout == b"x")
    }),
    ("run what it has made in memory", || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let all = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new page that nothing else uses.
        unsafe {
            let page = libc::mmap(null_mut(), 4096, all, flags, -1, 0);
            found(page != libc::MAP_FAILED)?;
            done(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC).into())
        }
    }),
    ("make a file that is in memory only", || {
        // SAFETY: the name ends with a zero.
        done(unsafe { libc::memfd_create(c"x".as_ptr(), 0) }.into())
    }),
    ("make a file without a name", || {
        let place = path(".".as_ref());
        // SAFETY: the path ends with a zero.
        done(unsafe { libc::open(place.as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600) }.into())
    }),
    ("share memory by name", || {
        // SAFETY: the name ends with a zero.
        done(unsafe { libc::shm_open(c"/x".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600) }.into())
    }),
    ("share memory of the old kind", || {
        call(libc::SYS_shmget, &[libc::IPC_PRIVATE.into(), 4096, 0o600])
    }),
    ("watch a folder", || {
        // SAFETY: the path ends with a zero.
        unsafe {
            let watch = libc::inotify_init1(0);
            done(libc::inotify_add_watch(watch, c".".as_ptr(), libc::IN_ALL_EVENTS).into())
        }
    }),
    ("lock a file", || File::create("lock")?.lock()),
    ("make a pipe with a name", || {
        let _ = fs::remove_file("pipe");
        // SAFETY: the path ends with a zero.
        done(unsafe { libc::mkfifo(c"pipe".as_ptr(), 0o600) }.into())
    }),
    ("exchange two files", || {
        fs::write("one", "1")?;
        fs::write("other", "2")?;
        let [one, other] = [c"one", c"other"].map(|name| name.as_ptr() as i64);
        let here = libc::AT_FDCWD.into();
        call(
            libc::SYS_renameat2,
            &[here, one, here, other, libc::RENAME_EXCHANGE.into()],
        )?;
        found(fs::read("one")? == b"2")
    }),
    ("copy, link, chmod and set times", || {
        fs::write("source", "x")?;
        fs::copy("source", "copy")?;
        let _ = fs::remove_file("link");
        fs::hard_link("copy", "link")?;
        let file = File::open("copy")?;
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)?;
        // SAFETY: takes numbers only.
        done(unsafe { libc::fchmod(file.as_raw_fd(), 0o1755) }.into())
    }),
    ("set an attribute of a file", || {
        fs::write("attributes", "x")?;
        let texts = [c"attributes", c"user.x", c"y"].map(|text| text.as_ptr() as i64);
        match call(libc::SYS_setxattr, &[texts[0], texts[1], texts[2], 1, 0]) {
            // Not supported by this file system.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            set => set,
        }
    }),
    ("choose processors and priority for itself", || {
        let mut all = [u64::MAX; 16];
        call(libc::SYS_sched_setaffinity, &[0, 128, pointer(&mut all)])?;
        // Raising the value to its maximum is allowed even if this process is already niced.
        call(libc::SYS_setpriority, &[0, 0, 19])
    }),
    ("wait for signals, times and events by descriptor", || {
        let mut none = [0_u64; 1];
        call(libc::SYS_signalfd4, &[-1, pointer(&mut none), 8, 0])?;
        call(libc::SYS_timerfd_create, &[libc::CLOCK_MONOTONIC.into(), 0])?;
        call(libc::SYS_eventfd2, &[0, 0])?;
        call(libc::SYS_epoll_create1, &[0])
    }),
    ("read what /proc says of itself", || {
        for name in [
            "self/status",
            "self/maps",
            "self/mountinfo",
            "cpuinfo",
            "meminfo",
            "loadavg",
            "stat",
            "sys/kernel/random/uuid",
        ] {
            found(!fs::read(format!("/proc/{name}"))?.is_empty())?;
        }
        Ok(())
    }),
];

fn talk(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    TcpStream::connect(listener.local_addr()?)?.write_all(b"x")?;
    listener.accept()?.0.read_exact(&mut [0])
}

/// Forks a child that runs `child` and exits with its result.
fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: this process has one thread, and the child leaves without tidying up.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            child => done(child.into()).map(|()| child),
        }
    }
}

fn wait(child: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    done(unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) }.into())?;
    Ok(status)
}
