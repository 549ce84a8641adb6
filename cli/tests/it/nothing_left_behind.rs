//! A sandbox leaves nothing behind (process, mount, file in the project), however the program ends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Instant;

use ah_testkit::script::{says, uses};
use ah_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::repositories;
use crate::sandbox::{confined_below, is_missing};
use crate::support::binary::{Ah, HANG, Running, World};
use crate::support::random::{Random, rounds};

/// The mounts of this process and the files of a project.
#[derive(Debug, PartialEq)]
struct State {
    mounts: String,
    files: Vec<String>,
}

impl State {
    fn of(world: &World) -> Self {
        let mut files = Vec::new();
        list(&world.project(), &mut files);
        // A run keeps its session, and the commands create `started`.
        files.retain(|file| !file.contains("/.ah") && !file.contains("/started"));
        files.sort();
        Self {
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap(),
            files,
        }
    }

    /// Fails unless everything is restored and no process of `world` is running.
    fn assert_restored(&self, world: &World, when: &str) {
        wait::until(&format!("the end of all, {when}"), || {
            running(world).is_empty()
        });
        assert_eq!(*self, Self::of(world), "{when}");
    }
}

fn list(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        files.push(format!(
            "{} {:?}",
            entry.path().display(),
            metadata.file_type()
        ));
        if metadata.is_dir() {
            list(&entry.path(), files);
        }
    }
}

/// The processes whose command line contains the world's path: the launcher gets the project's path as an argument,
/// its child is a copy of it, and the commands contain it.
fn running(world: &World) -> Vec<String> {
    let root = world.project().parent().unwrap().display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&root)).collect()
}

/// A command that signals its start and leaves daemons behind in sessions of their own.
fn endless(world: &World) -> String {
    let project = world.project().display().to_string();
    format!(
        "(setsid sh -c 'sleep 1000; : {project}' &) ; (trap '' TERM HUP INT; sleep 1000; : {project}) & touch {project}/started; wait"
    )
}

/// The two ways to run a command in the sandbox.
fn ways(world: &World, command: &str) -> [(&'static str, Ah); 2] {
    let turns = [uses("bash", json!({ "command": command })), says("Done.")];
    let model = world.scenario("s", turns);
    [
        (
            "exec",
            world.ah(["sandbox", "exec", "--", "bash", "-c", command]),
        ),
        ("run", world.ah(["-m", &model, "--sandbox", "go"])),
    ]
}

/// Whether a process is known to be in another namespace than this one.
fn is_apart(pid: Option<&i32>, namespace: &str) -> bool {
    let own = fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap();
    let its = pid.and_then(|pid| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).ok());
    its.is_some_and(|its| its != own)
}

type Moment = fn(&[i32]) -> bool;

/// Moments to kill the program, recognised by the processes below it; or once the command runs, if the moment was
/// missed.
const MOMENTS: [(&str, Moment); 5] = [
    ("the launcher is about to begin", |below| !below.is_empty()),
    ("it has users of its own", |below| {
        is_apart(below.first(), "user")
    }),
    ("the first process inside is there", |below| below.len() > 1),
    ("it builds its file system", |below| {
        is_apart(below.get(1), "mnt")
    }),
    ("the command runs", |_| false),
];

#[test]
fn a_kill_leaves_nothing_at_whatever_moment() {
    if is_missing() {
        return;
    }
    for (name, is_now) in MOMENTS {
        for way in [0, 1] {
            let world = repositories::lay();
            let ways = ways(&world, &endless(&world));
            let before = State::of(&world);
            let (way, ah) = ways.into_iter().nth(way).unwrap();
            let started = ah.start();
            let begun = Instant::now();
            while !is_now(&confined_below(started.pid.as_raw_pid()))
                && !world.file("started").exists()
            {
                assert!(begun.elapsed() < HANG, "{name} never came");
                thread::yield_now();
            }
            started.kill();
            before.assert_restored(&world, &format!("{way}: {name}"));
        }
    }
}

#[test]
fn a_kill_leaves_nothing_at_random() {
    if is_missing() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_KILLS", 20) {
        let world = World::new();
        let [_, (_, ah)] = ways(&world, &endless(&world));
        let before = State::of(&world);
        let started = ah.start();
        let spins = random.below(3000);
        for _ in 0..spins {
            let _ = fs::metadata("/proc/self");
            thread::yield_now();
        }
        started.kill();
        before.assert_restored(&world, &format!("after {spins} spins"));
    }
}

#[test]
fn a_kill_of_those_between_leaves_nothing_either() {
    if is_missing() {
        return;
    }
    for (at, name) in [(0, "the launcher"), (1, "the first process inside")] {
        let world = World::new();
        let [(_, ah), _] = ways(&world, &endless(&world));
        let before = State::of(&world);
        let started = ah.start();
        await_command(&world);
        let below = confined_below(started.pid.as_raw_pid());
        kill_process(Pid::from_raw(below[at]).unwrap(), Signal::KILL).unwrap();
        let ended = started.wait();
        // The command may run before its start is reported.
        let is_unreported = ended.stderr.contains("the launcher exited unexpectedly");
        let expected = if is_unreported { 78 } else { 137 };
        assert_eq!(ended.code, Some(expected), "{name}: {}", ended.stderr);
        before.assert_restored(&world, name);
    }
}

fn await_command(world: &World) {
    wait::until("the command", || world.file("started").exists());
}

#[test]
fn a_kill_ends_what_goes_through_the_proxy() {
    if is_missing() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let world = World::new();
    let project = world.project().display().to_string();
    let command = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {to} HTTP/1.1\\r\\n\\r\\nhello' >&3; cat <&3; : {project}"
    );
    let before = State::of(&world);
    let arguments = [
        "sandbox",
        "exec",
        "--allow-host",
        &to,
        "--",
        "bash",
        "-c",
        &command,
    ];
    let started: Running = world.ah(arguments).start();
    let (mut stream, _) = listener.accept().unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"hello");
    started.kill();
    assert_eq!(stream.read(&mut word).unwrap_or(0), 0);
    let _ = stream.write_all(b"late");
    before.assert_restored(&world, "with an open connection");
}

#[test]
fn nothing_is_put_into_the_project() {
    if is_missing() {
        return;
    }
    for world in [World::new(), repositories::lay()] {
        let before = State::of(&world);
        let end = ["--", "true"];
        for options in [
            &["sandbox", "exec"][..],
            &["sandbox", "exec", "--unveil", "/usr:r"],
            &["sandbox", "exec", "--tier", "landlock"],
        ] {
            let ah = world.ah(options.iter().chain(&end).copied());
            let ended = ah.env("AH_PROTECT_DIRS", "missing:also/missing").run();
            assert!(
                matches!(ended.code, Some(0 | 2)),
                "{options:?}: {}",
                ended.stderr
            );
            before.assert_restored(&world, &format!("{options:?}"));
        }
        let turns = [uses("bash", json!({ "command": "true" })), says("Done.")];
        let model = world.scenario("s", turns);
        let before = State::of(&world);
        world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
        before.assert_restored(&world, "a run");
    }
}
