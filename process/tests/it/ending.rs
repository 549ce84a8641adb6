//! A child ends when it must, and nothing that it started outlives it.

use std::time::{Duration, Instant};

use ah_process::{Ending, finish_all, finish_orphans};

use crate::shell::{Place, exists, gone, text};

/// Far longer than any of these tests may take.
const SLEEP: &str = "sleep 1000";
/// Only a hang takes so long.
const HANG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_keeps_nobody_waiting_and_dies() {
    for script in [
        format!("{SLEEP} & echo $! >pid; echo started"),
        format!("setsid {SLEEP} & echo $! >pid; echo started"),
        format!(
            "(setsid sh -c 'echo $$ >pid; exec {SLEEP}' &); until [ -s pid ]; do :; done; echo started"
        ),
        "trap '' TERM; (while :; do sleep 0.1; done) & echo $! >pid; echo started".to_owned(),
    ] {
        let place = Place::new();
        let start = Instant::now();
        let (ending, output) = place.run(&script).await;
        assert_eq!(ending, Ending::Exited(0), "{script}");
        assert!(output.contains("started\n"), "{script}");
        assert!(start.elapsed() < HANG, "{script}");
        gone(place.pid("pid").await).await;
    }
}

#[tokio::test]
async fn a_grandchild_that_writes_for_ever_keeps_nobody_waiting() {
    let place = Place::new();
    let start = Instant::now();
    let outcome = place.command("yes & echo $! >pid").run().await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited(0));
    assert!(start.elapsed() < HANG);
    gone(place.pid("pid").await).await;
}

#[tokio::test]
async fn a_daemon_that_closed_everything_dies_too() {
    let place = Place::new();
    let daemon = format!("exec 0<&- 1>&- 2>&-; cd /; echo $$ >\"$OLDPWD/pid\"; exec {SLEEP}");
    let script = format!("(setsid sh -c '{daemon}' &); until [ -s pid ]; do :; done");
    assert_eq!(place.run(&script).await.0, Ending::Exited(0));
    gone(place.pid("pid").await).await;
}

/// C# 8: a command's time limit ends its grandchildren too.
#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    for script in [
        format!("echo $$ >pid; echo before; {SLEEP}"),
        format!("{SLEEP} & echo $! >pid; echo before; wait"),
        format!("(setsid {SLEEP} & echo $! >pid); echo before; {SLEEP}"),
        // These do not want to go.
        "trap '' TERM; echo $$ >pid; echo before; while :; do sleep 0.1; done".to_owned(),
        "sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 0.1; done' & echo before; wait"
            .to_owned(),
        "echo $$ >pid; echo before; kill -STOP $$".to_owned(),
    ] {
        let place = Place::new();
        let mut command = place.command(&script);
        let timeout = Duration::from_millis(300);
        command.deadline = Some(timeout);
        command.note = |ending| matches!(ending, Ending::TimedOut(_)).then(|| "too late".into());
        let start = Instant::now();
        let (ending, output) = text(command.run().await.unwrap());
        assert_eq!(ending, Ending::TimedOut(timeout), "{script}");
        assert_eq!(output, "before\ntoo late", "{script}");
        assert!(start.elapsed() < HANG, "{script}");
        gone(place.pid("pid").await).await;
    }
}

#[tokio::test]
async fn last_words_after_term_are_kept() {
    let place = Place::new();
    let mut command = place.command("trap 'echo goodbye; exit 7' TERM; while :; do :; done");
    command.deadline = Some(Duration::from_millis(200));
    assert_eq!(text(command.run().await.unwrap()).1, "goodbye\n");
}

#[tokio::test]
async fn dropping_the_future_ends_the_whole_tree() {
    for script in [
        format!("{SLEEP} & echo $! >pid; wait"),
        format!("(setsid {SLEEP} & echo $! >pid); {SLEEP}"),
        "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done".to_owned(),
    ] {
        let place = Place::new();
        let running = tokio::spawn(place.command(&script).run());
        let pid = place.pid("pid").await;
        assert!(exists(pid));
        running.abort();
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_child_is_stopped_when_asked_to() {
    let place = Place::new();
    let child = place
        .command(&format!("echo $$ >pid; {SLEEP}"))
        .start()
        .await
        .unwrap();
    let pid = place.pid("pid").await;
    assert_eq!(child.outcome(), None);
    child.stop();
    assert_eq!(child.wait().await.ending, Ending::Stopped);
    assert_eq!(child.outcome().unwrap().ending, Ending::Stopped);
    gone(pid).await;
}

#[tokio::test]
async fn the_neighbours_children_stay() {
    let place = Place::new();
    let script = format!("(setsid {SLEEP} & echo $! >pid); {SLEEP}");
    let child = place.command(&script).start().await.unwrap();
    let pid = place.pid("pid").await;
    for _ in 0..3 {
        place.run("(true &); sleep 0 & true").await;
    }
    assert!(exists(pid));
    drop(child);
    gone(pid).await;
}

#[tokio::test]
async fn orphans_leave_no_zombies() {
    let place = Place::new();
    // The orphan is dead before its parent's parent, in its own session and in none.
    let script = "(setsid sh -c 'echo $$ >session' &); (sh -c 'echo $$ >group' &); \
                  until [ -s session ] && [ -s group ]; do :; done";
    place.run(script).await;
    gone(place.pid("session").await).await;
    gone(place.pid("group").await).await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let place = Place::new();
    let mut command = place.command("true");
    command.program = "/no/such/shell".into();
    let cwd = place.folder.path().display();
    assert_eq!(
        command.clone().run().await.unwrap_err().to_string(),
        format!("cannot start `/no/such/shell` in `{cwd}`: No such file or directory (os error 2)")
    );
    command.cwd = "/no/such/folder".into();
    assert_eq!(
        command.start().await.unwrap_err().to_string(),
        "cannot start `/no/such/shell` in `/no/such/folder`: no such directory"
    );
}

/// A mark that says that a process of this number has started it.
fn marked(owner: u32, script: &str) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .env("AH_CALL", format!("outer-1-1:{owner:x}-1-1"))
        .process_group(0)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn what_a_killed_program_has_left_is_ended_by_its_successor() {
    let place = Place::new();
    // No process has such a number.
    let dead = u32::MAX;
    let pid = place.path("pid");
    let script = format!(
        "trap '' TERM; setsid env -i {SLEEP} & echo $! >{}; while :; do sleep 0.1; done",
        pid.display()
    );
    let mut left = marked(dead, &script);
    let mut neighbour = marked(std::process::id(), &format!("exec {SLEEP}"));
    let grandchild = place.pid("pid").await;
    finish_orphans(dead);
    finish_orphans(std::process::id());
    assert!(!left.wait().unwrap().success());
    // This process may have adopted it, and reaps only what is its own.
    let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    assert!(neighbour.try_wait().unwrap().is_none());
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
}

/// The program leaves while children run: this test is a process of its own, for it ends all children there are.
#[test]
fn leaving_ends_all_children() {
    let test = "ending::leaving_ends_all_children";
    if std::env::var_os("LEAVING").is_some() {
        leave();
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env("LEAVING", "1")
        .status()
        .unwrap();
    assert!(status.success());
}

fn leave() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let script = "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done";
    let (pid, _kept) = runtime.block_on(async {
        let kept = place
            .command(&format!("{SLEEP} & wait"))
            .start()
            .await
            .unwrap();
        tokio::spawn(place.command(script).run());
        (place.pid("pid").await, kept)
    });
    drop(runtime);
    finish_all();
    assert!(!exists(pid));
}
