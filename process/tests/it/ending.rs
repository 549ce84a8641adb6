//! The end of a child and of its descendants.

use std::time::{Duration, Instant};

use ah_process::{Ending, finish_all, finish_orphans};

use crate::shell::{Scratch, eventually, exists, gone, text};

/// Far longer than any of these tests takes.
const SLEEP: &str = "sleep 1000";
/// Time limit of every wait. Only a hang takes this long.
const HANG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_delay_the_end_and_is_ended() {
    for script in [
        format!("{SLEEP} & echo $! >pid; echo started"),
        format!("setsid {SLEEP} & echo $! >pid; echo started"),
        format!(
            "(setsid sh -c 'echo $$ >pid; exec {SLEEP}' &); until [ -s pid ]; do :; done; echo started"
        ),
        "trap '' TERM; (while :; do sleep 0.1; done) & echo $! >pid; echo started".to_owned(),
    ] {
        let scratch = Scratch::new();
        let start = Instant::now();
        let (ending, output) = scratch.run(&script).await;
        assert_eq!(ending, Ending::Exited(0), "{script}");
        assert!(output.contains("started\n"), "{script}");
        assert!(start.elapsed() < HANG, "{script}");
        gone(scratch.pid("pid").await).await;
    }
}

#[tokio::test]
async fn a_grandchild_that_writes_for_ever_does_not_delay_the_end() {
    let scratch = Scratch::new();
    let start = Instant::now();
    let outcome = scratch.command("yes & echo $! >pid").run().await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited(0));
    assert!(start.elapsed() < HANG);
    gone(scratch.pid("pid").await).await;
}

#[tokio::test]
async fn a_daemon_that_closed_all_streams_is_ended() {
    let scratch = Scratch::new();
    let daemon = format!("exec 0<&- 1>&- 2>&-; cd /; echo $$ >\"$OLDPWD/pid\"; exec {SLEEP}");
    let script = format!("(setsid sh -c '{daemon}' &); until [ -s pid ]; do :; done");
    assert_eq!(scratch.run(&script).await.0, Ending::Exited(0));
    gone(scratch.pid("pid").await).await;
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    // All at once: the time is long enough for a busy machine.
    let mut all = tokio::task::JoinSet::new();
    for script in [
        format!("echo $$ >pid; echo before; {SLEEP}"),
        format!("{SLEEP} & echo $! >pid; echo before; wait"),
        format!("(setsid {SLEEP} & echo $! >pid); echo before; {SLEEP}"),
        // These ignore SIGTERM.
        "trap '' TERM; echo $$ >pid; echo before; while :; do sleep 0.1; done".to_owned(),
        "sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 0.1; done' & echo before; wait"
            .to_owned(),
        "echo $$ >pid; echo before; kill -STOP $$".to_owned(),
    ] {
        all.spawn(timed_out(script));
    }
    all.join_all().await;
}

async fn timed_out(script: String) {
    let scratch = Scratch::new();
    let mut command = scratch.command(&script);
    let timeout = Duration::from_secs(3);
    command.deadline = Some(timeout);
    command.note = |ending| matches!(ending, Ending::TimedOut(_)).then(|| "too late".into());
    let start = Instant::now();
    let (ending, output) = text(command.run().await.unwrap());
    assert_eq!(ending, Ending::TimedOut(timeout), "{script}");
    assert_eq!(output, "before\ntoo late", "{script}");
    assert!(start.elapsed() < HANG, "{script}");
    gone(scratch.pid("pid").await).await;
}

#[tokio::test]
async fn output_after_sigterm_is_recorded() {
    let scratch = Scratch::new();
    let mut command = scratch.command("trap 'echo goodbye; exit 7' TERM; while :; do :; done");
    command.deadline = Some(Duration::from_secs(2));
    assert_eq!(text(command.run().await.unwrap()).1, "goodbye\n");
}

#[tokio::test]
async fn dropping_the_future_ends_the_whole_tree() {
    for script in [
        format!("{SLEEP} & echo $! >pid; wait"),
        format!("(setsid {SLEEP} & echo $! >pid); {SLEEP}"),
        "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done".to_owned(),
    ] {
        let scratch = Scratch::new();
        let running = tokio::spawn(scratch.command(&script).run());
        let pid = scratch.pid("pid").await;
        assert!(exists(pid));
        running.abort();
        gone(pid).await;
    }
}

#[tokio::test]
async fn stop_ends_a_child() {
    let scratch = Scratch::new();
    let child = scratch
        .command(&format!("echo $$ >pid; {SLEEP}"))
        .start()
        .await
        .unwrap();
    let pid = scratch.pid("pid").await;
    assert_eq!(child.outcome(), None);
    child.stop();
    assert_eq!(child.wait().await.ending, Ending::Stopped);
    assert_eq!(child.outcome().unwrap().ending, Ending::Stopped);
    gone(pid).await;
}

#[tokio::test]
async fn ending_one_child_leaves_the_descendants_of_others() {
    let scratch = Scratch::new();
    let script = format!("(setsid {SLEEP} & echo $! >pid); {SLEEP}");
    let child = scratch.command(&script).start().await.unwrap();
    let pid = scratch.pid("pid").await;
    for _ in 0..3 {
        scratch.run("(true &); sleep 0 & true").await;
    }
    assert!(exists(pid));
    drop(child);
    gone(pid).await;
}

#[tokio::test]
async fn orphans_leave_no_zombies() {
    let scratch = Scratch::new();
    // The orphans die before their grandparent, one in a session of its own and one without.
    let script = "(setsid sh -c 'echo $$ >session' &); (sh -c 'echo $$ >group' &); \
                  until [ -s session ] && [ -s group ]; do :; done";
    scratch.run(script).await;
    gone(scratch.pid("session").await).await;
    gone(scratch.pid("group").await).await;
}

#[tokio::test]
async fn a_failed_start_reports_program_directory_and_reason() {
    let scratch = Scratch::new();
    let mut command = scratch.command("true");
    command.program = "/no/such/shell".into();
    let cwd = scratch.folder.path().display();
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

/// Starts a script with the mark of a child of the process `owner`.
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
async fn orphans_of_a_killed_process_are_ended() {
    let scratch = Scratch::new();
    // No process has this pid.
    let dead = u32::MAX;
    let pid = scratch.path("pid");
    let script = format!(
        "trap '' TERM; setsid env -i {SLEEP} & echo $! >{}; while :; do sleep 0.1; done",
        pid.display()
    );
    let mut orphan = marked(dead, &script);
    let mut neighbour = Ended(marked(std::process::id(), &format!("exec {SLEEP}")));
    let grandchild = scratch.pid("pid").await;
    finish_orphans(dead);
    finish_orphans(std::process::id());
    assert!(!orphan.wait().unwrap().success());
    // This process may have adopted the grandchild, and only reaps its own children.
    eventually("end of the grandchild", || {
        let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    })
    .await;
    assert!(neighbour.0.try_wait().unwrap().is_none());
}

/// A process that is ended with the test, however that ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs itself in a process of its own, since it ends all children of the process.
#[test]
fn finish_all_ends_all_children() {
    let test = "ending::finish_all_ends_all_children";
    if std::env::var_os("FINISHING").is_some() {
        finish();
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env("FINISHING", "1")
        .status()
        .unwrap();
    assert!(status.success());
}

fn finish() {
    let scratch = Scratch::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let script = "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done";
    let (pid, _kept) = runtime.block_on(async {
        let kept = scratch
            .command(&format!("{SLEEP} & wait"))
            .start()
            .await
            .unwrap();
        tokio::spawn(scratch.command(script).run());
        (scratch.pid("pid").await, kept)
    });
    drop(runtime);
    finish_all();
    assert!(!exists(pid));
}
