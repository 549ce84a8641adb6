//! How a command ends: with its status, with nothing left of it, and with nothing for the next one to find.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::ready::{Project, children, is_missing, wait_for};

/// Starts loops that ignore signals, in sessions of their own, and ends when each has written.
const LEAVE_LOOPS: &str = "\
    for name in a b c d; do \
        setsid sh -c 'trap \"\" TERM HUP INT; while :; do echo x >> $0; done' $name & \
    done; \
    for name in a b c d; do until [ -s $name ]; do :; done; done";

fn null() -> File {
    File::create("/dev/null").unwrap()
}

/// Returns how much the loops have written; `None` if one has yet to begin.
fn written(project: &Path) -> Option<u64> {
    let length = |name| Some(fs::metadata(project.join(name)).ok()?.len());
    ["a", "b", "c", "d"].into_iter().map(length).sum()
}

fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn the_status_is_told_before_the_launcher_ends_and_is_the_same() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    for (command, code, signal) in [
        ("true", Some(0), None),
        ("exit 3", Some(3), None),
        ("kill -KILL $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
        ("exec sh -c 'exit 255'", Some(255), None),
    ] {
        for is_ready in [false, true] {
            if is_ready {
                project.until_ready();
            }
            let mut child = project.start(command, null()).unwrap();
            let told = child.guard.status().unwrap();
            assert_eq!((told.code(), told.signal()), (code, signal), "{command}");
            assert_eq!(child.process.wait().unwrap(), told, "{command}");
        }
    }
}

#[test]
fn nothing_is_left_when_the_end_is_told() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let mut child = project.start(LEAVE_LOOPS, null()).unwrap();
    assert_eq!(child.guard.status().unwrap().code(), Some(0));
    let at_end = written(&project.at);
    // By then the kernel has ended all of them in any case.
    child.process.wait().unwrap();
    assert_eq!(written(&project.at), at_end, "something went on writing");
}

/// Whether a process has ended; whoever has to reap it may not have done so.
fn is_dead(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

#[test]
fn nothing_is_left_when_a_process_of_the_sandbox_is_killed() {
    if is_missing() {
        return;
    }
    for is_launcher in [true, false] {
        let project = Project::new();
        let mut child = project
            .start(&format!("{LEAVE_LOOPS}; while :; do :; done"), null())
            .unwrap();
        let launcher = child.process.id().to_string();
        let inside = wait_for("no process inside", || children(&launcher).pop());
        wait_for("the loops do not begin", || written(&project.at));
        kill(if is_launcher { &launcher } else { &inside });
        assert_eq!(child.guard.status(), None);
        assert_eq!(child.process.wait().unwrap().signal(), Some(9));
        wait_for("the process inside lives", || {
            is_dead(&inside).then_some(())
        });
        let at_end = written(&project.at);
        // Only the first process of the session could have ended them.
        project.run("true");
        assert_eq!(written(&project.at), at_end, "something went on writing");
    }
}

/// The kernel ends what is left when the first process of a session is gone, which takes a while: only then the end is told.
#[test]
fn nothing_is_left_when_the_session_ends_by_itself() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let many = format!("for _ in $(seq 300); do sleep 1000 & done; {LEAVE_LOOPS}; wait");
    let mut child = project.start(&many, null()).unwrap();
    let command = child.process.id().to_string();
    wait_for("the loops do not begin", || written(&project.at));
    for launcher in project.launchers() {
        if launcher != command {
            // It may end with another one.
            let pid = Pid::from_raw(launcher.parse().unwrap()).unwrap();
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    assert_eq!(child.guard.status(), None);
    let at_end = written(&project.at);
    child.process.wait().unwrap();
    assert_eq!(written(&project.at), at_end, "something went on writing");
}

#[test]
fn a_command_runs_though_what_was_ready_for_it_was_killed() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    for which in 0..3 {
        project.run("true");
        let ready = project.until_ready();
        kill(&ready[which]);
        // Each ends with the others; the launcher is a zombie until it is replaced.
        let are_dead = || ready.iter().all(|pid| is_dead(pid)).then_some(());
        wait_for("what was ready lives", are_dead);
        assert_eq!(project.run("echo done"), "done\n", "{which}");
    }
}

/// Says all that a shell finds.
const FIND: &str = "\
    echo \"$0\" \"$-\" $# \"$PWD\" $(umask) $(ulimit -n) $(hostname); \
    set | grep -v -E '^(_|OPTIND|PPID)='; trap; alias; \
    ls -A /dev/shm /proc/self/fd; cat /proc/self/oom_score_adj; cat /proc/[0-9]*/cmdline 2> /dev/null | grep -a -c '[s]leep'";

/// Changes all that a shell may change, and leaves processes.
const DISTURB: &str = "\
    export LEFT=1; cd /; umask 077; ulimit -n 20; trap 'echo left' EXIT; alias left=true; set -f; \
    exec 9> /dev/shm/left; sleep 1000 & \
    echo 900 > /proc/self/oom_score_adj; sh -c 'exec sleep 1000' & true";

#[test]
fn a_command_finds_nothing_of_the_one_before() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let first = project.run(FIND);
    let at = project.at.display();
    let begins = first.starts_with(&format!("sh  0 {at} "));
    assert!(begins, "an ordinary shell: {first}");
    for is_ready in [true, false] {
        project.run(DISTURB);
        if is_ready {
            project.until_ready();
        }
        assert_eq!(project.run(FIND), first, "ready: {is_ready}");
    }
}
