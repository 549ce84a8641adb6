//! A failing disk: the run ends with an error that names the file, sends no more requests, and the session can be
//! resumed.

use rustix::process::Signal;

use crate::interrupted_again_and_again::Talk;

/// An upper bound of the conversation's commits.
const MANY: u32 = 200;

#[test]
fn a_commit_that_fails_ends_the_run_before_anything_more_is_asked() {
    for side in ["before", "after"] {
        let mut commit = 1;
        while fail_at(side, commit) {
            commit += 1;
            assert!(commit < MANY, "there are more than {MANY} commits");
        }
        assert!(commit > 10, "there are only {commit} commits");
    }
}

/// Makes one commit fail and resumes; returns whether there was such a commit.
fn fail_at(side: &str, commit: u32) -> bool {
    let killed = Talk::with_tools();
    let fault = format!("{side}:{commit}");
    let ended = killed.ah("go").env("AH_FAULT", &fault).run();
    if ended.signal != Some(Signal::KILL.as_raw()) {
        ended.expect(0);
        return false;
    }
    let talk = Talk::with_tools();
    let fault = format!("{side}:{commit}:error");
    let first = talk.ah("go").env("AH_FAULT", &fault).run().expect(1);
    // Of a session that could not begin, nothing is left.
    let words = match talk.world.databases().as_slice() {
        [] => format!("error: cannot write `{}/", talk.world.file(".ah").display()),
        [database] => format!("error: cannot write `{}`: ", database.display()),
        more => panic!("{fault}: {more:?}"),
    };
    assert!(first.stderr.contains(&words), "{fault}: {first:#?}");
    // A process killed at the same place sends no more requests, so neither may this one.
    let asked = killed.server.requests().len();
    assert_eq!(talk.server.requests().len(), asked, "{fault}: {first:#?}");
    talk.world.assert_nothing_runs();
    talk.ah("go on").run().expect(0);
    talk.assert_sound();
    true
}

#[test]
fn a_disk_that_takes_no_more_ends_the_run_and_not_the_session() {
    // From too little for the program to start, to more than the conversation needs.
    for blocks in [0, 20, 60, 90, 113, 120, 150, 200, 300, 500, 5_000] {
        let mut talk = Talk::with_tools();
        let first = talk.ah("go").with_file_limit(blocks).run().without_panic();
        talk.note(&first);
        if first.code != Some(0) {
            assert_eq!(first.code, Some(1), "{blocks}: {first:#?}");
            let folder = talk.world.file(".ah");
            let names_it = first.stderr.lines().any(|line| {
                line.starts_with("error: ") && line.contains(&*folder.to_string_lossy())
            });
            assert!(names_it, "{blocks}: {first:#?}");
        }
        talk.ah("go on").run().expect(0);
        talk.assert_sound();
    }
}
