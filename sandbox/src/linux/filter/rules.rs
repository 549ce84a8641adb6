//! System calls that are refused for their arguments, or in the Landlock tier.

use super::calls::{Architecture, number};
use crate::access::Tier;

/// Test of the lower half of an argument; the kernel reads no more of these arguments.
#[derive(Debug, Clone, Copy)]
pub(in crate::linux) enum ArgumentTest {
    Equal(u8, u32),
    /// Equal after masking: argument, mask, value.
    Masked(u8, u32, u32),
    Not(u8, u32),
    AnyBit(u8, u32),
    AtLeast(u8, u32),
}

/// System call that fails if all conditions hold.
pub(super) struct Rule {
    pub number: u32,
    pub conditions: Vec<ArgumentTest>,
    pub errno: i32,
}

/// A call by its name, and the conditions under which it fails.
type Refusal = (&'static str, Vec<ArgumentTest>);

/// Returns the rules of a tier. Rules of calls that the architecture lacks are left out.
pub(super) fn rules(architecture: Architecture, tier: Tier) -> Vec<Rule> {
    let mut refused = processes();
    refused.extend(terminals());
    refused.extend(sockets(tier));
    refused.extend(set_id_bits());
    refused.extend(devices());
    if !tier.has_namespaces() {
        refused.extend(without_namespaces());
    }
    let rule = |(name, conditions), errno| {
        Some(Rule {
            number: number(architecture, name)?,
            conditions,
            errno,
        })
    };
    refused
        .into_iter()
        .filter_map(|refusal| rule(refusal, libc::EPERM))
        // An unknown option fails like this on every kernel.
        .chain(rule(new_options(), libc::EINVAL))
        .collect()
}

/// No namespaces, in which a process would have capabilities, and no personality that weakens the protection of memory.
fn processes() -> Vec<Refusal> {
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    // A debugger switches off random addresses; builds for 32 bits, and for old programs, name another machine.
    const LINUX_32: i32 = 8;
    // Not every C library names it.
    const LINUX_2_6: i32 = 0x0002_0000;
    let personalities = LINUX_32 | libc::ADDR_NO_RANDOMIZE | LINUX_2_6;
    const QUERY: u32 = u32::MAX;
    vec![
        (
            "clone",
            vec![ArgumentTest::AnyBit(0, namespaces.unsigned_abs())],
        ),
        (
            "personality",
            vec![
                ArgumentTest::Not(0, QUERY),
                ArgumentTest::AnyBit(0, !personalities.unsigned_abs()),
            ],
        ),
    ]
}

/// Options of `prctl` that this table does not know yet.
fn new_options() -> Refusal {
    const NEWEST: u32 = 78;
    // Options that are letters instead of numbers in order: PR_SET_PTRACER, PR_SET_VMA, PR_GET_AUXV.
    let spelled = [0x5961_6d61, 0x5356_4d41, 0x4155_5856];
    let mut conditions = vec![ArgumentTest::AtLeast(0, NEWEST + 1)];
    conditions.extend(spelled.map(|option| ArgumentTest::Not(0, option)));
    ("prctl", conditions)
}

/// Requests that inject input into a terminal or change its line discipline: TIOCSTI, TIOCLINUX, TIOCSETD.
fn terminals() -> Vec<Refusal> {
    [0x5412, 0x541c, 0x5423]
        .map(|request| ("ioctl", vec![ArgumentTest::Equal(1, request)]))
        .to_vec()
}

/// Restricts socket families and types to those of ordinary programs; others reach into kernel subsystems.
fn sockets(tier: Tier) -> Vec<Refusal> {
    const UNIX: u32 = libc::AF_UNIX.unsigned_abs();
    const INET: u32 = libc::AF_INET.unsigned_abs();
    const INET6: u32 = libc::AF_INET6.unsigned_abs();
    const NETLINK: u32 = libc::AF_NETLINK.unsigned_abs();
    const RAW: u32 = libc::SOCK_RAW.unsigned_abs();
    let pairs = ("socketpair", vec![ArgumentTest::Not(0, UNIX)]);
    if !tier.has_namespaces() {
        return vec![pairs, ("socket", Vec::new())];
    }
    let families = [UNIX, INET, INET6, NETLINK].map(|family| ArgumentTest::Not(0, family));
    let mut refused = vec![
        pairs,
        ("socket", families.to_vec()),
        // Netlink: only routing (protocol 0), which lists interfaces and addresses.
        (
            "socket",
            vec![ArgumentTest::Equal(0, NETLINK), ArgumentTest::Not(2, 0)],
        ),
    ];
    for family in [INET, INET6] {
        let family = ArgumentTest::Equal(0, family);
        refused.push(("socket", vec![family, ArgumentTest::Masked(1, 0xf, RAW)]));
        for protocol in [
            libc::IPPROTO_MPTCP,
            libc::IPPROTO_SCTP,
            libc::IPPROTO_UDPLITE,
        ] {
            let protocol = ArgumentTest::Equal(2, protocol.unsigned_abs());
            refused.push(("socket", vec![family, protocol]));
        }
    }
    refused
}

/// Refuses set-user-ID and set-group-ID bits: such files would give their owner's rights to anyone who runs them
/// outside.
fn set_id_bits() -> Vec<Refusal> {
    const BITS: u32 = libc::S_ISUID | libc::S_ISGID;
    // A new folder inherits the group bit where its parent has it; only the user bit means anything else there.
    const OF_FOLDERS: u32 = libc::S_ISUID;
    const CREATING: u32 = libc::O_CREAT.unsigned_abs();
    // O_TMPFILE includes O_DIRECTORY; only its other bit is tested.
    const TEMPORARY: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs();
    let mode = |at, bits| vec![ArgumentTest::AnyBit(at, bits)];
    let opened = |at| {
        vec![
            ArgumentTest::AnyBit(at, CREATING | TEMPORARY),
            ArgumentTest::AnyBit(at + 1, BITS),
        ]
    };
    vec![
        ("chmod", mode(1, BITS)),
        ("fchmod", mode(1, BITS)),
        ("fchmodat", mode(2, BITS)),
        ("fchmodat2", mode(2, BITS)),
        ("mknod", mode(1, BITS)),
        ("mknodat", mode(2, BITS)),
        ("mkdir", mode(1, OF_FOLDERS)),
        ("mkdirat", mode(2, OF_FOLDERS)),
        ("creat", mode(1, BITS)),
        ("open", opened(1)),
        ("openat", opened(2)),
    ]
}

/// Refuses devices: who may make one reaches the hardware.
fn devices() -> Vec<Refusal> {
    let kinds = [libc::S_IFCHR, libc::S_IFBLK];
    kinds
        .into_iter()
        .flat_map(|kind| [("mknod", 1, kind), ("mknodat", 2, kind)])
        .map(|(name, at, kind)| (name, vec![ArgumentTest::Masked(at, libc::S_IFMT, kind)]))
        .collect()
}

/// Calls that change attributes of files, which Landlock does not govern.
pub(super) fn attributes() -> [&'static str; 11] {
    [
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fchown",
        "fsetxattr",
        "fremovexattr",
        "utime",
        "utimes",
        "futimesat",
        "utimensat",
    ]
}

/// Further refusals where other processes are visible, and where some calls escape Landlock.
fn without_namespaces() -> Vec<Refusal> {
    let mut refused: Vec<Refusal> = [
        // Other processes.
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
        "pidfd_open",
        // Names and attributes of files, which Landlock does not restrict.
        "setxattr",
        "lsetxattr",
        "removexattr",
        "lremovexattr",
        "inotify_add_watch",
        "chown",
        "lchown",
        "fchownat",
        // Memory and queues that all processes of the user share.
        "shmget",
        "shmat",
        "shmctl",
        "semget",
        "semop",
        "semtimedop",
        "semctl",
        "msgget",
        "msgsnd",
        "msgrcv",
        "msgctl",
        "mq_open",
        "mq_unlink",
    ]
    .map(|name| (name, Vec::new()))
    .to_vec();
    // Allowed for the calling process only.
    for (name, at) in [
        ("sched_setaffinity", 0),
        ("sched_setscheduler", 0),
        ("sched_setparam", 0),
        ("sched_setattr", 0),
        ("prlimit64", 0),
        ("setpriority", 1),
        ("getpriority", 1),
        ("ioprio_set", 1),
    ] {
        refused.push((name, vec![ArgumentTest::Not(at, 0)]));
    }
    refused
}
