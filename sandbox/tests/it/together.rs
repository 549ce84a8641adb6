//! What commands of one session are to each other: they see and end each other's processes, and no more than that.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;

use ah_sandbox::{Bounds, Child, Tier, Withheld};
use rustix::process::{Pid, Signal, kill_process};

use crate::ready::{Project, is_missing, wait_for};

/// Finds processes by their words, without programs that not every machine has.
const FIND: &str = r#"
    find() {
        for process in /proc/[0-9]*; do
            words=$(tr '\0' ' ' < $process/cmdline 2> /dev/null)
            case "$words" in "$1"*) echo ${process#/proc/};; esac
        done
    }
"#;

const TIERS: [Tier; 2] = [Tier::Full, Tier::Namespaces];

/// Starts a command that runs until it is ended, and waits until it does.
fn start_sleep(project: &Project) -> Child {
    let command = "echo > begun; exec sleep 3977";
    let child = project.start(command, File::create("/dev/null").unwrap());
    let child = child.unwrap();
    wait_for("the command does not begin", || {
        fs::remove_file(project.at.join("begun")).ok()
    });
    // The shell has written; its program is the next.
    wait_for("the program does not begin", || {
        let found = project.run(&format!("{FIND} find 'sleep 3977'"));
        (!found.is_empty()).then_some(())
    });
    child
}

#[test]
fn a_command_ends_an_earlier_one_by_its_words() {
    if is_missing() {
        return;
    }
    for tier in TIERS {
        let project = Project::of(tier);
        let mut child = start_sleep(&project);
        let said = project.run(&format!("{FIND} kill $(find 'sleep 3977') && echo ended"));
        assert_eq!(said, "ended\n", "{tier:?}");
        let status = child.guard.status().unwrap();
        assert_eq!(status.signal(), Some(15), "{tier:?}");
        child.process.wait().unwrap();
    }
}

#[test]
fn a_command_meets_nothing_of_the_agent() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    // Twice, so that one was ready beforehand.
    for _ in 0..2 {
        let words = project.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/comm | tr -d '\\0\\n'");
        for of_agent in ["__confine", "attack", project.at.to_str().unwrap()] {
            assert!(!words.contains(of_agent), "{of_agent}: {words}");
        }
        project.until_ready();
    }
}

/// What a process that may trace another one can look into, and what it may change through it.
const LOOKS: [&str; 9] = [
    "cat /proc/$1/environ",
    "cat /proc/$1/maps",
    "cat /proc/$1/cwd/.vscode/settings.json",
    "ls /proc/$1/root/",
    "echo evil > /proc/$1/root/tmp/evil",
    "readlink /proc/$1/exe",
    "readlink /proc/$1/fd/1",
    "exec 3<> /proc/$1/mem",
    "cat /proc/$1/syscall",
];

#[test]
fn a_command_looks_into_no_process_of_another() {
    if is_missing() {
        return;
    }
    for tier in TIERS {
        let project = Project::of(tier);
        let child = start_sleep(&project);
        for look in LOOKS {
            let on = |process: &str| {
                let tried = format!("{FIND} {process}; ( {look} ) 2>&1 && echo reached");
                project.run(&tried).ends_with("reached\n")
            };
            assert!(on("sleep 1000 & set -- $!"), "{tier:?}: its own: {look}");
            assert!(!on("set -- $(find 'sleep 3977')"), "{tier:?}: {look}");
            // The first processes of the session and of the command itself.
            assert!(!on("set -- 1"), "{tier:?}: {look}");
            assert!(!on("set -- $PPID"), "{tier:?}: {look}");
        }
        drop(child);
    }
}

#[test]
fn a_command_that_only_reads_ends_no_other() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let mut child = start_sleep(&project);
    let output = project.at.join("output");
    let end = format!("{FIND} kill -9 $(find 'sleep 3977') || echo refused");
    let reading = Some(Bounds::default());
    let tried = project.start_within(&end, File::create(&output).unwrap(), reading);
    tried.unwrap().process.wait().unwrap();
    let said = fs::read_to_string(&output).unwrap();
    assert!(said.ends_with("refused\n"), "{said}");
    assert!(child.process.try_wait().unwrap().is_none());
}

#[test]
fn what_a_command_leaves_ends_though_it_has_killed_the_process_that_ends_it() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let command = "\
        setsid sh -c 'while :; do echo x >> left; done' & \
        until [ -s left ]; do :; done; kill -9 $PPID; while :; do :; done";
    let mut child = project
        .start(command, File::create("/dev/null").unwrap())
        .unwrap();
    assert_eq!(child.guard.status(), None);
    let length = || fs::metadata(project.at.join("left")).unwrap().len();
    let at_end = length();
    project.run("true");
    assert_eq!(length(), at_end, "something went on writing");
    assert_eq!(child.process.wait().unwrap().signal(), Some(9));
}

#[test]
fn commands_run_though_one_stops_or_kills_all_others() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    for signal in ["STOP", "KILL"] {
        project.run("true");
        project.until_ready();
        let mut child = project
            .start("sleep 1000", File::create("/dev/null").unwrap())
            .unwrap();
        // It may have no end of its own.
        let _ = project.try_to_run(&format!("kill -{signal} -1"));
        for _ in 0..2 {
            assert_eq!(project.run("echo done"), "done\n", "{signal}");
        }
        kill_process(Pid::from_child(&child.process), Signal::KILL).unwrap();
        assert_eq!(child.guard.status(), None, "{signal}");
        child.process.wait().unwrap();
    }
}

#[test]
fn the_next_command_has_a_session_though_the_last_one_was_ended() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let mut child = start_sleep(&project);
    for launcher in project.launchers() {
        let is_command = launcher == child.process.id().to_string();
        if !is_command {
            let pid = Pid::from_raw(launcher.parse().unwrap()).unwrap();
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    assert_eq!(child.guard.status(), None);
    assert_eq!(child.process.wait().unwrap().signal(), Some(9));
    wait_for("its launchers live", || {
        project.launchers().is_empty().then_some(())
    });
    assert_eq!(project.run("echo done"), "done\n");
}

/// Where nothing can be mounted: a server that runs could move a hidden file into any folder that was made meanwhile.
#[test]
fn what_is_made_beside_a_hidden_file_the_next_command_reads_also_while_a_server_runs() {
    if is_missing() {
        return;
    }
    for is_hidden in [false, true] {
        let project = Project::of(Tier::Landlock);
        fs::write(project.at.join("sub/secret"), "hidden").unwrap();
        let bounds = || {
            let reading = is_hidden.then(|| project.at.join("sub/secret"));
            Some(Bounds {
                anything_else: true,
                withheld: Withheld {
                    reading: Vec::from_iter(reading),
                    ..Withheld::default()
                },
                ..Bounds::default()
            })
        };
        let run = |line: &str| {
            let output = project.at.with_file_name("output");
            let started = project.start_within(line, File::create(&output).unwrap(), bounds());
            let mut child = started.unwrap();
            child.process.wait().unwrap();
            child.guard.quarantine();
            fs::read_to_string(output).unwrap()
        };
        let server = "echo > begun; until mv sub/secret made/; do :; done 2> /dev/null; echo > moved; \
            while :; do [ ! -e sub/secret ] || mv sub/secret made/; done";
        let null = File::create("/dev/null").unwrap();
        let mut server = project.start_within(server, null, bounds()).unwrap();
        wait_for("the server does not begin", || {
            fs::metadata(project.at.join("begun")).ok()
        });
        run("mkdir -p made/in; echo text > made/in/file; echo text > sub/beside");
        wait_for("the server moves nothing", || {
            fs::metadata(project.at.join("moved")).ok()
        });
        let said = run(
            "until [ -e made/secret ]; do :; done; cat made/in/file sub/beside made/secret 2>&1",
        );
        assert!(said.starts_with("text\ntext\n"), "{said}");
        assert_eq!(said.contains("hidden"), !is_hidden, "{said}");
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        server.guard.quarantine();
    }
}
