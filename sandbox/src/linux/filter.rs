//! System call filter (seccomp): denies calls that namespaces and Landlock do not cover, and backs up those that they
//! do.
//!
//! A denied call fails with EPERM; it does not kill the program. The filter is assembled here instead of by a library,
//! because calls in other conventions (32 bits, x32) must fail like any other.

use super::setup::SetupResult;
use crate::access::Tier;

/// BPF instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// Loads a word of `struct seccomp_data`: call number, architecture, or half an argument.
const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const NUMBER: u32 = 0;
const CONVENTION: u32 = 4;
const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
/// Bit set in the numbers of x32 calls.
const X32: u32 = 0x4000_0000;

/// Test of the lower half of an argument; the kernel reads no more of these arguments.
#[derive(Debug, Clone, Copy)]
enum ArgumentTest {
    Equal(u8, u32),
    /// Equal after masking: argument, mask, value.
    Masked(u8, u32, u32),
    Not(u8, u32),
    AnyBit(u8, u32),
}

/// System call that fails if all conditions hold.
struct SyscallRule {
    number: i64,
    conditions: Vec<ArgumentTest>,
    errno: i32,
}

/// Installs the filter for this process and its descendants.
pub(crate) fn apply(tier: Tier) -> SetupResult<()> {
    let instructions = compile(&refusals(tier));
    let program = Program {
        length: u16::try_from(instructions.len()).map_err(|_| "filter: too long".to_owned())?,
        instructions: instructions.as_ptr(),
    };
    // SAFETY: the program points to `length` instructions that live until the call has copied them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(format!("filter: {}", std::io::Error::last_os_error())),
    }
}

fn compile(refusals: &[SyscallRule]) -> Vec<Instruction> {
    let load = |value| Instruction {
        code: LOAD,
        if_true: 0,
        if_false: 0,
        value,
    };
    let jump = |code, if_true, if_false, value| Instruction {
        code,
        if_true,
        if_false,
        value,
    };
    let fail = |errno: i32| Instruction {
        code: RETURN,
        if_true: 0,
        if_false: 0,
        value: FAIL | errno.unsigned_abs(),
    };
    let mut program = vec![
        load(CONVENTION),
        jump(JUMP_IF_EQUAL, 1, 0, NATIVE),
        fail(libc::EPERM),
        load(NUMBER),
        jump(JUMP_IF_AT_LEAST, 0, 1, X32),
        fail(libc::EPERM),
    ];
    for refusal in refusals {
        let mut body = Vec::new();
        // Built from the last to the first, because each test jumps over those after it.
        body.push(fail(refusal.errno));
        for condition in refusal.conditions.iter().rev() {
            // After the body, the number is loaded again for the next rule.
            let over = u8::try_from(body.len()).expect("conditions are few");
            let argument = |at: u8| load(16 + 8 * u32::from(at));
            let test = match *condition {
                ArgumentTest::Equal(at, value) => {
                    vec![argument(at), jump(JUMP_IF_EQUAL, 0, over, value)]
                }
                ArgumentTest::Not(at, value) => {
                    vec![argument(at), jump(JUMP_IF_EQUAL, over, 0, value)]
                }
                ArgumentTest::AnyBit(at, bits) => {
                    vec![argument(at), jump(JUMP_IF_ANY_BIT, 0, over, bits)]
                }
                ArgumentTest::Masked(at, mask, value) => vec![
                    argument(at),
                    jump(AND, 0, 0, mask),
                    jump(JUMP_IF_EQUAL, 0, over, value),
                ],
            };
            body.splice(0..0, test);
        }
        body.push(load(NUMBER));
        let number = u32::try_from(refusal.number).expect("numbers of calls are small");
        let length = u8::try_from(body.len()).expect("conditions are few");
        program.push(jump(JUMP_IF_EQUAL, 0, length, number));
        program.extend(body);
    }
    program.push(Instruction {
        code: RETURN,
        if_true: 0,
        if_false: 0,
        value: ALLOW,
    });
    program
}

fn refusals(tier: Tier) -> Vec<SyscallRule> {
    let refuse = |number, conditions| SyscallRule {
        number,
        conditions,
        errno: libc::EPERM,
    };
    let mut refusals: Vec<_> = always()
        .into_iter()
        .map(|number| refuse(number, Vec::new()))
        .collect();
    // Their arguments are in memory, out of the filter's reach. ENOSYS makes programs fall back to older calls.
    for number in [libc::SYS_clone3, libc::SYS_openat2] {
        refusals.push(SyscallRule {
            number,
            conditions: Vec::new(),
            errno: libc::ENOSYS,
        });
    }
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    refusals.push(refuse(
        libc::SYS_clone,
        vec![ArgumentTest::AnyBit(0, namespaces.unsigned_abs())],
    ));
    // Requests that inject input into a terminal or change its line discipline: TIOCSTI, TIOCLINUX, TIOCSETD.
    for request in [0x5412, 0x541c, 0x5423] {
        refusals.push(refuse(
            libc::SYS_ioctl,
            vec![ArgumentTest::Equal(1, request)],
        ));
    }
    refusals.extend(
        sockets(tier)
            .into_iter()
            .map(|(number, conditions)| refuse(number, conditions)),
    );
    refusals.extend(
        set_id_bits()
            .into_iter()
            .map(|(number, conditions)| refuse(number, conditions)),
    );
    if tier == Tier::Landlock {
        refusals.extend(
            landlock_only()
                .into_iter()
                .map(|(number, conditions)| refuse(number, conditions)),
        );
    }
    refusals
}

/// Returns the calls that are always denied.
fn always() -> Vec<i64> {
    let mut numbers = vec![
        // Kernel and machine.
        libc::SYS_acct,
        libc::SYS_adjtimex,
        libc::SYS_bpf,
        libc::SYS_clock_adjtime,
        libc::SYS_clock_settime,
        libc::SYS_delete_module,
        libc::SYS_finit_module,
        libc::SYS_init_module,
        libc::SYS_kexec_file_load,
        libc::SYS_kexec_load,
        libc::SYS_lookup_dcookie,
        libc::SYS_nfsservctl,
        libc::SYS_perf_event_open,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_reboot,
        libc::SYS_setdomainname,
        libc::SYS_sethostname,
        libc::SYS_settimeofday,
        libc::SYS_swapoff,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_vhangup,
        // File systems and namespaces.
        libc::SYS_chroot,
        libc::SYS_fanotify_init,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fsopen,
        libc::SYS_fspick,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_move_mount,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_open_tree,
        libc::SYS_pivot_root,
        libc::SYS_setns,
        libc::SYS_umount2,
        libc::SYS_unshare,
        // Rarely needed, and a frequent source of kernel vulnerabilities.
        libc::SYS_add_key,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
        libc::SYS_kcmp,
        libc::SYS_keyctl,
        libc::SYS_mbind,
        libc::SYS_memfd_secret,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        libc::SYS_pidfd_getfd,
        libc::SYS_request_key,
        libc::SYS_set_mempolicy,
        libc::SYS_userfaultfd,
    ];
    #[cfg(target_arch = "x86_64")]
    numbers.extend([
        libc::SYS__sysctl,
        libc::SYS_ioperm,
        libc::SYS_iopl,
        libc::SYS_modify_ldt,
        libc::SYS_sysfs,
        libc::SYS_uselib,
        libc::SYS_ustat,
    ]);
    numbers
}

/// Restricts socket families and types to those of ordinary programs; others reach into kernel subsystems.
fn sockets(tier: Tier) -> Vec<(i64, Vec<ArgumentTest>)> {
    const UNIX: u32 = libc::AF_UNIX.unsigned_abs();
    const INET: u32 = libc::AF_INET.unsigned_abs();
    const INET6: u32 = libc::AF_INET6.unsigned_abs();
    const NETLINK: u32 = libc::AF_NETLINK.unsigned_abs();
    const RAW: u32 = libc::SOCK_RAW.unsigned_abs();
    let pairs = (libc::SYS_socketpair, vec![ArgumentTest::Not(0, UNIX)]);
    if tier == Tier::Landlock {
        return vec![pairs, (libc::SYS_socket, Vec::new())];
    }
    let families = [UNIX, INET, INET6, NETLINK].map(|family| ArgumentTest::Not(0, family));
    let mut refused = vec![
        pairs,
        (libc::SYS_socket, families.to_vec()),
        // Netlink: only routing (protocol 0), which lists interfaces and addresses.
        (
            libc::SYS_socket,
            vec![ArgumentTest::Equal(0, NETLINK), ArgumentTest::Not(2, 0)],
        ),
    ];
    for family in [INET, INET6] {
        refused.push((
            libc::SYS_socket,
            vec![
                ArgumentTest::Equal(0, family),
                ArgumentTest::Masked(1, 0xf, RAW),
            ],
        ));
        for protocol in [libc::IPPROTO_MPTCP, libc::IPPROTO_SCTP] {
            let protocol = protocol.unsigned_abs();
            refused.push((
                libc::SYS_socket,
                vec![
                    ArgumentTest::Equal(0, family),
                    ArgumentTest::Equal(2, protocol),
                ],
            ));
        }
    }
    refused
}

/// Denies set-user-ID and set-group-ID bits: such files would give their owner's rights to anyone who runs them
/// outside.
fn set_id_bits() -> Vec<(i64, Vec<ArgumentTest>)> {
    const BITS: u32 = libc::S_ISUID | libc::S_ISGID;
    const CREATING: u32 = libc::O_CREAT.unsigned_abs();
    // O_TMPFILE includes O_DIRECTORY; only its other bit is tested.
    const TEMPORARY: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs();
    let mut refused = vec![
        (libc::SYS_fchmod, vec![ArgumentTest::AnyBit(1, BITS)]),
        (libc::SYS_fchmodat, vec![ArgumentTest::AnyBit(2, BITS)]),
        (libc::SYS_fchmodat2, vec![ArgumentTest::AnyBit(2, BITS)]),
        (libc::SYS_mknodat, vec![ArgumentTest::AnyBit(2, BITS)]),
        (
            libc::SYS_mkdirat,
            vec![ArgumentTest::AnyBit(2, libc::S_ISUID)],
        ),
        (
            libc::SYS_openat,
            vec![
                ArgumentTest::AnyBit(2, CREATING | TEMPORARY),
                ArgumentTest::AnyBit(3, BITS),
            ],
        ),
    ];
    #[cfg(target_arch = "x86_64")]
    refused.extend([
        (libc::SYS_chmod, vec![ArgumentTest::AnyBit(1, BITS)]),
        (libc::SYS_creat, vec![ArgumentTest::AnyBit(1, BITS)]),
        (libc::SYS_mknod, vec![ArgumentTest::AnyBit(1, BITS)]),
        (
            libc::SYS_mkdir,
            vec![ArgumentTest::AnyBit(1, libc::S_ISUID)],
        ),
        (
            libc::SYS_open,
            vec![
                ArgumentTest::AnyBit(1, CREATING | TEMPORARY),
                ArgumentTest::AnyBit(2, BITS),
            ],
        ),
    ]);
    refused
}

/// Additional denials for the Landlock tier, where other processes are visible and some calls escape Landlock.
fn landlock_only() -> Vec<(i64, Vec<ArgumentTest>)> {
    let mut refused: Vec<(i64, Vec<ArgumentTest>)> = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_inotify_add_watch,
        libc::SYS_fchownat,
    ]
    .map(|number| (number, Vec::new()))
    .to_vec();
    #[cfg(target_arch = "x86_64")]
    refused.extend([libc::SYS_chown, libc::SYS_lchown].map(|number| (number, Vec::new())));
    // Allowed for the calling process only.
    for (number, at) in [
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_prlimit64, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
    ] {
        refused.push((number, vec![ArgumentTest::Not(at, 0)]));
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdict that the kernel would give.
    fn verdict(tier: Tier, convention: u32, number: i64, arguments: [u64; 6]) -> u32 {
        let program = compile(&refusals(tier));
        let word = |offset: u32| match offset {
            NUMBER => number as u32,
            CONVENTION => convention,
            _ => arguments[(offset as usize - 16) / 8] as u32,
        };
        let (mut at, mut value) = (0, 0_u32);
        loop {
            let instruction = program[at];
            at += 1;
            let holds = match instruction.code {
                LOAD => {
                    value = word(instruction.value);
                    continue;
                }
                AND => {
                    value &= instruction.value;
                    continue;
                }
                RETURN => return instruction.value,
                JUMP_IF_EQUAL => value == instruction.value,
                JUMP_IF_AT_LEAST => value >= instruction.value,
                JUMP_IF_ANY_BIT => value & instruction.value != 0,
                other => panic!("{other}"),
            };
            at += usize::from(if holds {
                instruction.if_true
            } else {
                instruction.if_false
            });
        }
    }

    #[test]
    fn calls_are_allowed_or_fail_as_the_table_says() {
        const EPERM: u32 = FAIL | 1;
        const ENOSYS: u32 = FAIL | 38;
        let (full, landlock) = (Tier::Full, Tier::Landlock);
        for (tier, number, arguments, expected) in [
            (full, libc::SYS_read, [0; 6], ALLOW),
            (full, libc::SYS_mount, [0; 6], EPERM),
            (full, libc::SYS_clone3, [0; 6], ENOSYS),
            (full, libc::SYS_clone, [0x11, 0, 0, 0, 0, 0], ALLOW),
            (full, libc::SYS_clone, [0x1000_0011, 0, 0, 0, 0, 0], EPERM),
            (full, libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0], ALLOW),
            (full, libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], EPERM),
            // The kernel looks at the lower half only, and so do we.
            (
                full,
                libc::SYS_ioctl,
                [0, 0xffff_ffff_0000_5412, 0, 0, 0, 0],
                EPERM,
            ),
            (full, libc::SYS_socket, [1, 1, 0, 0, 0, 0], ALLOW),
            (
                full,
                libc::SYS_socket,
                [2, 1 | 0o2000000, 6, 0, 0, 0],
                ALLOW,
            ),
            (full, libc::SYS_socket, [2, 3, 0, 0, 0, 0], EPERM),
            (
                full,
                libc::SYS_socket,
                [2, 3 | 0o2000000, 0, 0, 0, 0],
                EPERM,
            ),
            (full, libc::SYS_socket, [2, 1, 262, 0, 0, 0], EPERM),
            (full, libc::SYS_socket, [16, 3, 0, 0, 0, 0], ALLOW),
            (full, libc::SYS_socket, [16, 3, 12, 0, 0, 0], EPERM),
            (full, libc::SYS_socket, [17, 3, 0, 0, 0, 0], EPERM),
            (full, libc::SYS_socket, [38, 5, 0, 0, 0, 0], EPERM),
            (full, libc::SYS_ptrace, [0; 6], ALLOW),
            (full, libc::SYS_fchmodat, [0, 0, 0o755, 0, 0, 0], ALLOW),
            (full, libc::SYS_fchmodat, [0, 0, 0o4755, 0, 0, 0], EPERM),
            (full, libc::SYS_openat, [0, 0, 0, 0o4755, 0, 0], ALLOW),
            (full, libc::SYS_openat, [0, 0, 0o101, 0o4755, 0, 0], EPERM),
            (full, libc::SYS_openat, [0, 0, 0o101, 0o644, 0, 0], ALLOW),
            (
                full,
                libc::SYS_openat,
                [0, 0, 0o200000, 0o4755, 0, 0],
                ALLOW,
            ),
            (landlock, libc::SYS_socket, [1, 1, 0, 0, 0, 0], EPERM),
            (landlock, libc::SYS_socketpair, [1, 1, 0, 0, 0, 0], ALLOW),
            (landlock, libc::SYS_ptrace, [0; 6], EPERM),
            (landlock, libc::SYS_prlimit64, [0; 6], ALLOW),
            (landlock, libc::SYS_prlimit64, [7, 0, 0, 0, 0, 0], EPERM),
        ] {
            let verdict = verdict(tier, NATIVE, number, arguments);
            assert_eq!(verdict, expected, "{tier:?} {number} {arguments:x?}");
        }
        assert_eq!(
            verdict(full, 0x4000_0003, libc::SYS_read, [0; 6]),
            EPERM,
            "32 bits"
        );
        assert_eq!(
            verdict(full, NATIVE, libc::SYS_read | i64::from(X32), [0; 6]),
            EPERM,
            "x32"
        );
    }
}
