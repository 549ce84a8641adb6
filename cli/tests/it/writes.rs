//! Failing system calls that change files, injected by `strace`; without `strace` these tests print so and pass.

use std::process::{Command, Stdio};

use ah_testkit::script::says;

use crate::interrupted_again_and_again::Talk;
use crate::support::binary::World;
use crate::support::random::{Random, rounds};

/// The system calls that change files, and about how often a run makes each.
const CALLS: [(&str, u64); 8] = [
    ("pwrite64", 70),
    ("fdatasync", 12),
    ("fsync", 8),
    ("ftruncate", 4),
    ("openat", 120),
    ("rename,renameat,renameat2", 2),
    ("unlink,unlinkat", 3),
    ("mkdir,mkdirat", 3),
];

#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
pub fn has_strace() -> bool {
    let version = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    let is_there = version.is_ok_and(|status| status.success());
    if !is_there {
        println!("not run: there is no strace");
    }
    is_there
}

/// Injects `fault` at a random call.
fn injection(random: &mut Random, fault: &str) -> String {
    let (call, times) = CALLS[usize::try_from(random.below(CALLS.len() as u64)).unwrap()];
    format!("inject={call}:{fault}:when={}", 1 + random.below(times))
}

#[test]
fn a_kill_at_any_write_loses_nothing() {
    if !has_strace() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_WRITES", 20) {
        let mut talk = Talk::with_tools();
        let injection = injection(&mut random, "signal=KILL");
        println!("{injection}");
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &injection];
        let first = talk
            .ah("go")
            .through("strace", strace)
            .run()
            .without_panic();
        talk.note(&first);
        let second = talk.ah("go on").run().expect(0);
        talk.note(&second);
        talk.assert_sound();
    }
}

#[test]
fn a_disk_that_is_full_at_any_write_ends_the_run_and_not_the_session() {
    if !has_strace() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_WRITES", 20) {
        let mut talk = Talk::with_tools();
        let fault = ["error=ENOSPC", "error=EIO"][usize::try_from(random.below(2)).unwrap()];
        // At this call and all later ones.
        let injection = format!(
            "inject=pwrite64,fdatasync,fsync:{fault}:when={}+",
            1 + random.below(70)
        );
        println!("{injection}");
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &injection];
        let first = talk
            .ah("go")
            .through("strace", strace)
            .run()
            .without_panic();
        talk.note(&first);
        if first.code != Some(0) {
            assert_eq!(first.code, Some(1), "{injection}: {first:#?}");
            let path = talk.world.file(".ah");
            assert!(
                first.stderr.contains(&*path.to_string_lossy()),
                "{injection}: {first:#?}"
            );
            let tells_room = !fault.contains("ENOSPC") || first.stderr.contains("bytes free");
            assert!(tells_room, "{injection}: {first:#?}");
        }
        let second = talk.ah("go on").run().expect(0);
        talk.note(&second);
        talk.assert_sound();
    }
}

/// A reader that can write nothing, not even the index of a log, reads a session at rest.
#[test]
fn a_session_is_read_on_a_full_disk() {
    let world = World::new();
    world.scenario("s", [says("Done.")]);
    world.ah(["-m", "script:s.json", "go"]).run().expect(0);
    for arguments in [
        &["scan"][..],
        &["show"],
        &["tree"],
        &["export"],
        &["sessions"],
    ] {
        let usual = world.ah(arguments.iter().copied()).run().expect(0);
        let full = world
            .ah(arguments.iter().copied())
            .with_file_limit(0)
            .run()
            .expect(0);
        assert_eq!(full.stdout, usual.stdout, "{arguments:?}");
    }
}
