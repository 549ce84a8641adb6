//! Machines that refuse what a sandbox is built with, simulated by a system call filter.

use libc::{c_long, sock_filter};

/// What a machine refuses.
#[derive(Clone, Copy, PartialEq)]
enum Lack {
    /// To make or join any namespace, as the system call filter of Docker does.
    Namespaces,
    /// Everything that needs a capability in a namespace of the user's own, as AppArmor does on Ubuntu 24.04.
    Capabilities,
    /// Landlock, as older kernels do.
    Landlock,
}

/// Machines by name.
const MACHINES: [(&str, &[Lack]); 5] = [
    ("this", &[]),
    ("docker", &[Lack::Namespaces]),
    ("ubuntu-24.04", &[Lack::Capabilities]),
    ("debian-12", &[Lack::Landlock]),
    ("neither", &[Lack::Namespaces, Lack::Landlock]),
];

/// Flags of namespaces in `clone` and `unshare`, except the user namespace.
const OTHERS: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const ALL: u32 = OTHERS | libc::CLONE_NEWUSER as u32;

/// Continues this process and its descendants on the named machine.
pub fn enter(name: &str) {
    let (_, lacks) = MACHINES.iter().find(|(known, _)| *known == name).unwrap();
    let mut refused: Vec<(c_long, Option<u32>, i32)> = Vec::new();
    for lack in *lacks {
        let mounts = [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
        ]
        .map(|number| (number, None, libc::EPERM));
        match lack {
            Lack::Namespaces => refused.extend([
                (libc::SYS_unshare, Some(ALL), libc::EPERM),
                (libc::SYS_clone, Some(ALL), libc::EPERM),
                (libc::SYS_clone3, None, libc::ENOSYS),
                (libc::SYS_setns, None, libc::EPERM),
            ]),
            Lack::Capabilities => refused.extend([
                (libc::SYS_unshare, Some(OTHERS), libc::EPERM),
                (libc::SYS_clone, Some(OTHERS), libc::EPERM),
            ]),
            Lack::Landlock => {
                refused.extend([(libc::SYS_landlock_create_ruleset, None, libc::EOPNOTSUPP)]);
            }
        }
        if *lack != Lack::Landlock {
            refused.extend(mounts);
        }
    }
    if !refused.is_empty() {
        install(&refused);
    }
}

/// Installs a filter that lets these calls fail: by number, and by bits of the first argument.
fn install(refused: &[(c_long, Option<u32>, i32)]) {
    let instruction = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let mut program = Vec::new();
    for (number, bits, errno) in refused {
        let jump = |code, skipped, value| {
            instruction(libc::BPF_JMP | code | libc::BPF_K, 0, skipped, value)
        };
        program.extend([
            load(0),
            jump(libc::BPF_JEQ, 3, u32::try_from(*number).unwrap()),
        ]);
        program.extend([load(16), jump(libc::BPF_JSET, 1, bits.unwrap_or(u32::MAX))]);
        if bits.is_none() {
            // Whatever the argument is.
            let at = program.len() - 1;
            program[at].jf = 0;
        }
        let fail = libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
        program.push(instruction(libc::BPF_RET, 0, 0, fail));
    }
    program.push(instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap(),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter points to a program of its length, which lives until the calls have copied it.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter,
            )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
