//! System call filter (seccomp): allows the calls that programs need, and restricts those that namespaces and Landlock
//! do not cover.
//!
//! It is a list of what is allowed. A call that is refused fails; it does not kill the program. The filter is assembled
//! here instead of by a library, because calls in other conventions (32 bits, x32) must fail like any other. It is a
//! function of the architecture and the tier, so that tests can run the filters of every architecture.

mod calls;
mod rules;

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::OnceLock;

pub(super) use self::calls::{Architecture, number};
use self::calls::{GROUPS, Verdict, number_of};
pub(super) use self::rules::ArgumentTest;
use self::rules::{attributes, rules};
use super::changes::watched;
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
/// Stops the call until the listener has answered.
const STOP: u32 = 0x7fc0_0000;
/// Bit set in the numbers of x32 calls.
const X32: u32 = 0x4000_0000;

/// Installs the filter for this process and its descendants. Returns the listener for calls that may change files if
/// that `is_recorded`; `None` if the kernel or the sandbox around this one has no listeners.
pub(crate) fn apply(
    tier: Tier,
    is_recorded: bool,
    refused: &[&str],
) -> SetupResult<Option<OwnedFd>> {
    let program = |is_recorded| program_with(Architecture::NATIVE, tier, is_recorded, refused);
    if is_recorded {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;
        if let Ok(listener) = install(&program(true), flags) {
            // SAFETY: the kernel has just opened it for this process.
            return Ok(Some(unsafe { OwnedFd::from_raw_fd(listener) }));
        }
    }
    install(&program(false), 0)?;
    Ok(None)
}

/// Once a call was received by the listener, only a deadly signal interrupts it. Known since Linux 5.19.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// A filter that can be installed without allocating.
pub(super) struct Filter {
    instructions: Vec<Instruction>,
}

/// Returns the filter for a command within bounds: that of a command without namespaces, which also changes no attributes of
/// files unless it may.
pub(super) fn bounded(changes_attributes: bool) -> &'static Filter {
    static CHANGING: OnceLock<Filter> = OnceLock::new();
    static LOOKING: OnceLock<Filter> = OnceLock::new();
    let (made, refused) = match changes_attributes {
        true => (&CHANGING, &[][..]),
        false => (&LOOKING, &attributes()[..]),
    };
    made.get_or_init(|| Filter {
        instructions: program_with(Architecture::NATIVE, Tier::Landlock, false, refused),
    })
}

impl Filter {
    /// Installs the filter for this process and its descendants.
    pub(super) fn install(&self) -> io::Result<()> {
        install_raw(&self.instructions, 0).map(drop)
    }
}

fn install(instructions: &[Instruction], flags: libc::c_ulong) -> SetupResult<i32> {
    install_raw(instructions, flags).map_err(|error| format!("filter: {error}"))
}

fn install_raw(instructions: &[Instruction], flags: libc::c_ulong) -> io::Result<i32> {
    let program = Program {
        length: u16::try_from(instructions.len())
            .map_err(|_| io::ErrorKind::ArgumentListTooLong)?,
        instructions: instructions.as_ptr(),
    };
    // SAFETY: the program points to `length` instructions that live until the call has copied them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    i32::try_from(result)
        .ok()
        .filter(|result| *result >= 0)
        .ok_or_else(io::Error::last_os_error)
}

/// Returns the filter: the calling convention, then the rules, then the calls that are stopped if changes are recorded,
/// then the table of calls.
#[cfg(test)]
fn program(architecture: Architecture, tier: Tier, is_recorded: bool) -> Vec<Instruction> {
    program_with(architecture, tier, is_recorded, &[])
}

/// Returns the filter in which the calls with these names are refused as well.
fn program_with(
    architecture: Architecture,
    tier: Tier,
    is_recorded: bool,
    refused: &[&str],
) -> Vec<Instruction> {
    let mut program = vec![
        load(CONVENTION),
        jump(JUMP_IF_EQUAL, 1, 0, architecture.convention()),
        fail(libc::EPERM),
        load(NUMBER),
        jump(JUMP_IF_AT_LEAST, 0, 1, X32),
        fail(libc::EPERM),
    ];
    for rule in rules(architecture, tier) {
        program.extend(verdict(rule.number, &rule.conditions, fail(rule.errno)));
    }
    let refused = refused.iter().filter_map(|name| number(architecture, name));
    for number in refused {
        program.extend(verdict(number, &[], fail(libc::EPERM)));
    }
    if is_recorded {
        for (number, conditions) in watched(architecture) {
            program.extend(verdict(number, &conditions, result(STOP)));
        }
    }
    program.extend(table(architecture));
    program
}

/// Returns the instructions for a call under conditions, which end where the next ones begin.
fn verdict(number: u32, conditions: &[ArgumentTest], then: Instruction) -> Vec<Instruction> {
    // Built from the last to the first, because each test jumps over those after it.
    let mut body = vec![then];
    for condition in conditions.iter().rev() {
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
            ArgumentTest::AtLeast(at, value) => {
                vec![argument(at), jump(JUMP_IF_AT_LEAST, 0, over, value)]
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
    let length = u8::try_from(body.len()).expect("conditions are few");
    body.insert(0, jump(JUMP_IF_EQUAL, 0, length, number));
    body
}

/// Returns the instructions that decide by the number alone. Numbers in a row with the same verdict take one test.
fn table(architecture: Architecture) -> Vec<Instruction> {
    let mut verdicts: Vec<(u32, Verdict)> = GROUPS
        .iter()
        .flat_map(|group| group.calls.iter().map(|call| (call, group.verdict)))
        .filter_map(|(call, verdict)| Some((number_of(architecture, call)?, verdict)))
        .collect();
    verdicts.sort_by_key(|(number, _)| *number);
    // The first number of each row.
    let mut rows = vec![(0, Verdict::Unknown)];
    let mut next = 0;
    for (number, verdict) in verdicts {
        if number > next {
            rows.push((next, Verdict::Unknown));
        }
        rows.push((number, verdict));
        next = number + 1;
    }
    rows.push((next, Verdict::Unknown));
    rows.dedup_by(|later, earlier| {
        let is_empty = later.0 == earlier.0;
        if is_empty {
            earlier.1 = later.1;
        }
        is_empty || later.1 == earlier.1
    });
    let mut program = Vec::with_capacity(2 * rows.len());
    for (at, (_, verdict)) in rows.iter().enumerate() {
        if let Some((first_of_next, _)) = rows.get(at + 1) {
            program.push(jump(JUMP_IF_AT_LEAST, 1, 0, *first_of_next));
        }
        program.push(match verdict {
            Verdict::Allow => result(ALLOW),
            Verdict::Refuse => fail(libc::EPERM),
            Verdict::Unknown => fail(libc::ENOSYS),
        });
    }
    program
}

fn load(value: u32) -> Instruction {
    jump(LOAD, 0, 0, value)
}

fn jump(code: u16, if_true: u8, if_false: u8, value: u32) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        value,
    }
}

fn result(value: u32) -> Instruction {
    jump(RETURN, 0, 0, value)
}

fn fail(errno: i32) -> Instruction {
    result(FAIL | errno.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPERM: u32 = FAIL | 1;
    const EINVAL: u32 = FAIL | 22;
    const ENOSYS: u32 = FAIL | 38;
    const ARCHITECTURES: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];

    /// Returns the verdict that the kernel would give.
    fn run(program: &[Instruction], convention: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => number,
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

    /// Returns all calls of an architecture that the reference knows, by name and number.
    fn reference(architecture: Architecture) -> Vec<(&'static str, u32)> {
        let number = |number: usize| u32::try_from(number).unwrap();
        match architecture {
            Architecture::X86_64 => syscalls::x86_64::Sysno::iter()
                .map(|call| (call.name(), number(call.id() as usize)))
                .collect(),
            // The kernel has the calls with longer times for 32 bits only.
            Architecture::Aarch64 => syscalls::aarch64::Sysno::iter()
                .filter(|call| !call.name().ends_with("64") || call.id() < 403)
                .map(|call| (call.name(), number(call.id() as usize)))
                .map(|(name, number)| match name {
                    "fstatat" => ("newfstatat", number),
                    name => (name, number),
                })
                .collect(),
        }
    }

    #[test]
    fn every_call_of_an_architecture_is_decided_about() {
        for architecture in ARCHITECTURES {
            let known: Vec<_> = GROUPS.iter().flat_map(|group| group.calls).collect();
            for (name, expected) in reference(architecture) {
                let call = known.iter().find(|call| call.0 == name);
                let Some(call) = call else {
                    panic!(
                        "`{name}` ({expected}) of {architecture:?} is in no group: look at it, then add it"
                    );
                };
                assert_eq!(number_of(architecture, call), Some(expected), "{name}");
            }
            let mut numbers: Vec<_> = { known.iter() }
                .filter_map(|call| number_of(architecture, call))
                .collect();
            numbers.sort_unstable();
            assert!(numbers.is_sorted_by(|a, b| a < b), "a number occurs twice");
        }
        assert!(GROUPS.iter().all(|group| group.purpose.ends_with('.')));
    }

    #[test]
    fn the_filter_gives_the_verdict_of_the_table_and_new_calls_do_not_exist() {
        for (architecture, tier) in ARCHITECTURES
            .into_iter()
            .flat_map(|architecture| Tier::ALL.map(|tier| (architecture, tier)))
        {
            let program = program(architecture, tier, false);
            let limited: Vec<_> = rules(architecture, tier)
                .iter()
                .map(|rule| rule.number)
                .collect();
            for number in (0..2048).filter(|number| !limited.contains(number)) {
                let group = GROUPS.iter().find(|group| {
                    let mut calls = group.calls.iter();
                    calls.any(|call| number_of(architecture, call) == Some(number))
                });
                let expected = match group.map_or(Verdict::Unknown, |group| group.verdict) {
                    Verdict::Allow => ALLOW,
                    Verdict::Refuse => EPERM,
                    Verdict::Unknown => ENOSYS,
                };
                let verdict = run(&program, architecture.convention(), number, [u64::MAX; 6]);
                assert_eq!(verdict, expected, "{architecture:?} {tier:?} {number}");
                for (convention, number) in [
                    (0x4000_0003, number),
                    (0x4000_0028, number),
                    (architecture.convention(), number | X32),
                ] {
                    assert_eq!(run(&program, convention, number, [0; 6]), EPERM);
                }
            }
        }
    }

    #[test]
    fn only_calls_that_are_allowed_have_rules() {
        for tier in Tier::ALL {
            for rule in rules(Architecture::X86_64, tier) {
                let group = GROUPS.iter().find(|group| {
                    let mut calls = group.calls.iter();
                    calls.any(|call| number_of(Architecture::X86_64, call) == Some(rule.number))
                });
                assert_eq!(group.unwrap().verdict, Verdict::Allow, "{}", rule.number);
            }
        }
    }

    #[test]
    fn calls_are_allowed_or_fail_by_their_arguments() {
        let (full, landlock) = (Tier::Full, Tier::Landlock);
        for (tier, name, arguments, expected) in [
            (full, "mount", [0, 0, 0, 0, 0, 0], EPERM),
            (full, "clone3", [0, 0, 0, 0, 0, 0], ENOSYS),
            (full, "clone", [0x11, 0, 0, 0, 0, 0], ALLOW),
            (full, "clone", [0x1000_0011, 0, 0, 0, 0, 0], EPERM),
            (full, "ioctl", [0, 0x5401, 0, 0, 0, 0], ALLOW),
            (full, "ioctl", [0, 0x5412, 0, 0, 0, 0], EPERM),
            // The kernel looks at the lower half only, and so do we.
            (full, "ioctl", [0, 0xffff_ffff_0000_5412, 0, 0, 0, 0], EPERM),
            (full, "socket", [1, 1, 0, 0, 0, 0], ALLOW),
            (full, "socket", [2, 0o2000001, 6, 0, 0, 0], ALLOW),
            (full, "socket", [2, 3, 0, 0, 0, 0], EPERM),
            (full, "socket", [2, 0o2000003, 0, 0, 0, 0], EPERM),
            (full, "socket", [2, 1, 262, 0, 0, 0], EPERM),
            (full, "socket", [16, 3, 0, 0, 0, 0], ALLOW),
            (full, "socket", [16, 3, 12, 0, 0, 0], EPERM),
            (full, "socket", [17, 3, 0, 0, 0, 0], EPERM),
            (full, "socket", [38, 5, 0, 0, 0, 0], EPERM),
            (full, "ptrace", [0, 0, 0, 0, 0, 0], ALLOW),
            (full, "chmod", [0, 0o4755, 0, 0, 0, 0], EPERM),
            (full, "fchmodat", [0, 0, 0o755, 0, 0, 0], ALLOW),
            (full, "fchmodat", [0, 0, 0o4755, 0, 0, 0], EPERM),
            (full, "fchmodat2", [0, 0, 0o2755, 0, 0, 0], EPERM),
            (full, "mkdirat", [0, 0, 0o2755, 0, 0, 0], ALLOW),
            (full, "mknodat", [0, 0, 0o010644, 0, 0, 0], ALLOW),
            (full, "mknodat", [0, 0, 0o020644, 0, 0, 0], EPERM),
            (full, "mknodat", [0, 0, 0o060644, 0, 0, 0], EPERM),
            (full, "openat", [0, 0, 0, 0o4755, 0, 0], ALLOW),
            (full, "openat", [0, 0, 0o101, 0o4755, 0, 0], EPERM),
            (full, "openat", [0, 0, 0o101, 0o644, 0, 0], ALLOW),
            (full, "openat", [0, 0, 0o200000, 0o4755, 0, 0], ALLOW),
            (full, "open", [0, 0o101, 0o2755, 0, 0, 0], EPERM),
            (full, "personality", [0xffff_ffff, 0, 0, 0, 0, 0], ALLOW),
            (full, "personality", [0x004_0000, 0, 0, 0, 0, 0], ALLOW),
            (full, "personality", [0x040_0000, 0, 0, 0, 0, 0], EPERM),
            (full, "prctl", [4, 0, 0, 0, 0, 0], ALLOW),
            (full, "prctl", [0x5961_6d61, 0, 0, 0, 0, 0], ALLOW),
            (full, "prctl", [79, 0, 0, 0, 0, 0], EINVAL),
            (full, "shmat", [0, 0, 0, 0, 0, 0], ALLOW),
            (landlock, "shmat", [0, 0, 0, 0, 0, 0], EPERM),
            (landlock, "socket", [1, 1, 0, 0, 0, 0], EPERM),
            (landlock, "socketpair", [1, 1, 0, 0, 0, 0], ALLOW),
            (landlock, "ptrace", [0, 0, 0, 0, 0, 0], EPERM),
            (landlock, "prlimit64", [0, 0, 0, 0, 0, 0], ALLOW),
            (landlock, "prlimit64", [7, 0, 0, 0, 0, 0], EPERM),
        ] {
            for architecture in ARCHITECTURES {
                let Some(number) = calls::number(architecture, name) else {
                    continue;
                };
                let program = program(architecture, tier, false);
                let verdict = run(&program, architecture.convention(), number, arguments);
                assert_eq!(
                    verdict, expected,
                    "{architecture:?} {tier:?} {name} {arguments:x?}"
                );
            }
        }
    }
}
