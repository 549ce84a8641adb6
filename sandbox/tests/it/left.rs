//! What commands leave for programs outside, and hide.

use std::fs;
use std::path::{Path, PathBuf};

use crate::attacks::{Bait, ordinary_user};
use crate::ready::{is_missing, wait_for};

/// What a command hides, its commands, and what must not be there afterwards.
type Hidden = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Makes a repository in which git would run a program.
const REPOSITORY: &str = "mkdir -p r/.git/objects r/.git/refs && echo 'ref: refs/heads/x' > r/.git/HEAD && \
    printf '[core]\n\tfsmonitor = evil\n' > r/.git/config";

const HIDDEN: &[Hidden] = &[
    (
        "settings in a folder that cannot be listed",
        &["mkdir -p sub/.vscode sub/.claude && chmod 0311 sub"],
        &["sub/.vscode", "sub/.claude"],
    ),
    (
        "settings in one that was there",
        &["mkdir sub", "mkdir sub/.vscode && chmod 0311 sub"],
        &["sub/.vscode"],
    ),
    (
        "settings below one that cannot be searched",
        &[
            "mkdir -p sub/deep/.claude && chmod 0600 sub",
            "chmod 0700 sub",
        ],
        &["sub/deep/.claude"],
    ),
    (
        "settings below the top, which cannot be listed",
        &["mkdir -p sub/.vscode .vscode && chmod 0311 ."],
        &["sub/.vscode", ".vscode"],
    ),
    (
        "a repository in one that cannot be listed",
        &["REPOSITORY && mkdir sub && mv r sub && chmod 0311 sub"],
        &["sub/r/.git"],
    ),
    (
        "a repository that cannot be searched",
        &["REPOSITORY && chmod 0600 r/.git", "chmod 0700 r/.git"],
        &["r/.git"],
    ),
    (
        "hooks that cannot be listed",
        &[
            "REPOSITORY && rm r/.git/config && mkdir r/.git/hooks && touch r/.git/hooks/pre-commit && chmod 0311 r/.git/hooks",
        ],
        &["r/.git"],
    ),
    (
        "attributes that cannot be reached",
        &[
            "REPOSITORY && rm r/.git/config && mkdir r/.git/info && touch r/.git/info/attributes && chmod 0600 r/.git/info",
        ],
        &["r/.git"],
    ),
    (
        "attributes of a repository that was there",
        &[
            "mkdir .git/info && touch .git/info/attributes && chmod 0600 .git/info",
            "chmod 0700 .git/info",
        ],
        &[".git/info/attributes"],
    ),
    (
        "a submodule's repository",
        &[
            "REPOSITORY && mkdir .git/modules && mv r/.git .git/modules/m && chmod 0311 .git/modules",
        ],
        &[".git/modules/m"],
    ),
    (
        "a submodule's repository that cannot be searched",
        &[
            "REPOSITORY && mkdir .git/modules && mv r/.git .git/modules/m && chmod 0600 .git/modules/m",
            "chmod 0700 .git/modules/m",
        ],
        &[".git/modules/m"],
    ),
    (
        "a worktree",
        &[
            "mkdir -p .git/worktrees/w && touch .git/worktrees/w/config.worktree && chmod 0600 .git/worktrees/w",
            "chmod 0700 .git/worktrees/w",
        ],
        &[".git/worktrees/w"],
    ),
    (
        "settings behind a name that is too long",
        &["n=$(printf '%0250d' 0); set -e; mkdir a; cd a; \
             for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do mkdir $n; cd -P $n; done; mkdir .claude"],
        &["a/LONG"],
    ),
    (
        "settings behind many folders",
        &[
            "i=0; while [ $i -lt 1200 ]; do mkdir -p p/$i; i=$((i+1)); done; mkdir -p p/y/deep/.claude",
        ],
        &["p/y/deep/.claude"],
    ),
];

#[test]
fn what_a_command_hides_is_found() {
    let user = ordinary_user();
    let mut faults = Vec::new();
    for (what, lines, gone) in HIDDEN {
        let bait = Bait::lay(user);
        let lines: Vec<_> = { lines.iter() }
            .map(|line| line.replace("REPOSITORY", REPOSITORY))
            .collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let Some(moved) = bait.command(user, "full", &lines) else {
            return;
        };
        for name in *gone {
            let name = name.replace("LONG", &format!("{:0250}/", 0).repeat(17));
            let path = bait.workspace().join(name);
            let path = Path::new(path.to_str().unwrap().trim_end_matches('/'));
            let is_named = moved.iter().any(|moved| {
                let old = moved.rsplit_once(".quarantined");
                old.is_some_and(|(old, _)| path.to_str().unwrap().starts_with(old))
            });
            if fs::symlink_metadata(path).is_ok() || !is_named {
                faults.push(format!("{what}: {moved:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_folder_that_is_closed_and_opened_protects_what_is_in_it() {
    let user = ordinary_user();
    for (tier, folders) in [
        ("full", "0600 .git sub"),
        ("full", "0311 .git sub"),
        ("full", "0000 .git sub"),
        ("landlock", "0600 .git sub"),
    ] {
        let bait = Bait::lay(user);
        let (config, settings) = (".git/config", "sub/.claude/settings.json");
        bait.lay_file(user, settings, "{}");
        let close = format!("chmod {folders}");
        let open = format!(
            "chmod 0755 .git sub; echo evil > {config}; echo evil > {settings}; touch made"
        );
        if bait.command(user, tier, &[&close, &open]).is_none() {
            return;
        }
        assert!(bait.workspace().join("made").exists());
        for (name, text) in [(config, "[core]\n"), (settings, "{}")] {
            let now = fs::read_to_string(bait.workspace().join(name)).unwrap();
            assert_eq!(now, text, "{name} after {close} in {tier}");
        }
    }
}

/// When something is moved aside.
#[derive(PartialEq, Eq)]
enum When {
    /// Also while the command runs.
    Running,
    /// When the process that watches it was killed.
    Killed,
    Never,
}

/// What a command leaves, and when a start of this program moves it aside.
const LEFT: &[(&str, When)] = &[
    (".vscode", When::Running),
    ("old/.vscode", When::Running),
    ("new/.vscode", When::Running),
    ("new/.claude", When::Running),
    ("closed/.claude", When::Running),
    ("new/.ah/settings.json", When::Running),
    ("lib/r/.git", When::Killed),
    ("bare/HEAD", When::Killed),
    (".git/modules/m", When::Killed),
    (".git/rebase-merge", When::Killed),
    // Of a session.
    ("new/.ah/1.db", When::Never),
    ("plain/r/.git", When::Never),
    // They were there.
    ("old/.claude", When::Never),
    ("mine/.git/config", When::Never),
];

/// Checks that all is there but what is moved, which must be all that is due.
fn check_left(bait: &Bait, is_gone: impl Fn(&When) -> bool) {
    for (name, when) in LEFT {
        assert_eq!(
            bait.workspace().join(name).exists(),
            !is_gone(when),
            "{name}"
        );
    }
}

#[test]
fn what_a_killed_process_left_is_moved_aside_at_the_next_start() {
    if !is_missing() {
        leave_and_start(false);
    }
}

#[test]
fn what_steers_is_moved_aside_at_a_start_while_the_command_runs() {
    if !is_missing() {
        leave_and_start(true);
    }
}

/// Has a command leave all that, and moves it aside while it is running, or when its process was killed.
fn leave_and_start(is_running: bool) {
    let own = rustix::process::geteuid().as_raw();
    let bait = Bait::lay(own);
    bait.lay_file(own, "old/.claude/settings.json", "{}");
    bait.lay_file(own, "mine/.git/config", "[core]\n\tfsmonitor = mine\n");
    let lines = format!(
        "mkdir -p lib plain .git/modules .git/rebase-merge new/.ah && {REPOSITORY} && cp -r r plain && rm plain/r/.git/config && \
         mv r lib && cp -r lib/r/.git bare && cp -r bare .git/modules/m && echo 'exec evil' > .git/rebase-merge/git-rebase-todo && \
         touch new/.ah/settings.json new/.ah/1.db && \
         mkdir -p .vscode old/.vscode new/.vscode new/.claude closed/.claude && chmod 0311 closed && touch ready && sleep 1000"
    );
    let mut program = bait.program(own);
    let mut process = program.args(bait.job("full", &[&lines])).spawn().unwrap();
    let ready = bait.workspace().join("ready");
    wait_for("the command does not begin", || {
        ready.exists().then_some(())
    });
    check_left(&bait, |_| false);
    let count = |due: fn(&When) -> bool| LEFT.iter().filter(|(_, when)| due(when)).count();
    if is_running {
        let moved = ah_sandbox::finish_journal(&bait.journal());
        check_left(&bait, |when| *when == When::Running);
        assert_eq!(
            moved.len(),
            count(|when| *when == When::Running),
            "{moved:?}"
        );
        let again = ah_sandbox::finish_journal(&bait.journal());
        assert_eq!(again, Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(bait.journal()).unwrap().count(), 1);
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let moved = ah_sandbox::finish_journal(&bait.journal());
    check_left(&bait, |when| *when != When::Never);
    let due = match is_running {
        true => count(|when| *when == When::Killed),
        false => count(|when| *when != When::Never),
    };
    assert_eq!(moved.len(), due, "{moved:?}");
    assert_eq!(fs::read_dir(bait.journal()).unwrap().count(), 0);
}
