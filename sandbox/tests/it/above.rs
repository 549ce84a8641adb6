//! What is guarded by its place stays so when a command moves the folders above it: within a command, and from one to the
//! next.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::attacks::{Bait, ordinary_user};

/// What is tried, by which commands, and the file that must not be there or be changed, with the content that it then has.
type Trick = (&'static str, &'static [&'static str], Escape);

/// How it shows that an attack has succeeded.
enum Escape {
    /// This file has the attacker's text.
    Evil(&'static str),
    /// This file has what was hidden.
    Seen(&'static str),
}
use Escape::{Evil, Seen};

const TRICKS: &[Trick] = &[
    (
        "hooks, after their folder was moved away",
        &[
            "mv scripts s2",
            "mkdir -p scripts/hooks && echo evil > scripts/hooks/pre-commit",
        ],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "hooks, in one command",
        &["mv scripts s2; mkdir -p scripts/hooks && echo evil > scripts/hooks/pre-commit"],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "hooks, changed elsewhere and moved back",
        &[
            "mv scripts s2",
            "echo evil > s2/hooks/pre-commit; mv s2 scripts",
        ],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "hooks, in three steps",
        &[
            "mv scripts s2",
            "echo evil > s2/hooks/pre-commit",
            "mv s2 scripts",
        ],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "hooks, after a file took the place of their folder",
        &[
            "mv scripts s2; touch scripts",
            "rm scripts; mkdir -p scripts/hooks && echo evil > scripts/hooks/pre-commit",
        ],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "hooks, after a link took the place of their folder",
        &[
            "mv scripts s2; mkdir other; ln -s other scripts",
            "mkdir -p other/hooks && echo evil > other/hooks/pre-commit; [ -e scripts ] || ln -s other scripts",
        ],
        Evil("scripts/hooks/pre-commit"),
    ),
    (
        "a program that git starts, two folders down",
        &[
            "mv tools t2",
            "mkdir -p tools/git && echo evil > tools/git/watch",
        ],
        Evil("tools/git/watch"),
    ),
    (
        "a program that git starts, behind a link of the user's",
        &["rm linked; mkdir -p linked && echo evil > linked/filter"],
        Evil("linked/filter"),
    ),
    (
        "an included configuration that was not there",
        &["mkdir -p conf/git && echo evil > conf/git/inc"],
        Evil("conf/git/inc"),
    ),
    (
        "a guarded file, changed elsewhere and moved back",
        &["mv sub t", "echo evil > t/deep/guard; mv t sub"],
        Evil("sub/deep/guard"),
    ),
    (
        "a guarded file, with the folder around it",
        &["mv sub/deep t", "echo evil > t/guard; mv t sub/deep"],
        Evil("sub/deep/guard"),
    ),
    (
        "a guarded file, made anew",
        &["mv sub t", "mkdir -p sub/deep; echo evil > sub/deep/guard"],
        Evil("sub/deep/guard"),
    ),
    (
        "the hooks of another version control, which was not there",
        &["mkdir .hg && echo evil > .hg/hgrc"],
        Evil(".hg/hgrc"),
    ),
    (
        "the programs of another version control, with the folder around them",
        &["mv .jj t; mkdir -p .jj/repo && echo evil > .jj/repo/config.toml"],
        Evil(".jj/repo/config.toml"),
    ),
    (
        "the hooks of a repository of another version control within",
        &["echo evil > old/hg/.hg/hgrc"],
        Evil("old/hg/.hg/hgrc"),
    ),
    (
        "the same, which were there",
        &["mv old/hooked t; mkdir -p old/hooked/.hg && echo evil > old/hooked/.hg/hgrc"],
        Evil("old/hooked/.hg/hgrc"),
    ),
    (
        "the same, in a new repository",
        &["mkdir -p n/.hg && echo evil > n/.hg/hgrc"],
        Evil("n/.hg/hgrc"),
    ),
    (
        "the same, changed elsewhere and moved back",
        &["mv old/hg/.hg t", "echo evil > t/hgrc; mv t old/hg/.hg"],
        Evil("old/hg/.hg/hgrc"),
    ),
    (
        "the hooks of a rarer version control",
        &[
            "mkdir -p n/_darcs/prefs n/.pijul; echo evil > n/_darcs/prefs/defaults; echo evil > n/.pijul/config",
        ],
        Evil("n/_darcs/prefs/defaults"),
    ),
    (
        "a place of another repository with such hooks",
        &["echo ../../evil > old/hg/.hg/sharedpath"],
        Evil("old/hg/.hg/sharedpath"),
    ),
    (
        "a link to such a repository",
        &["mkdir n x; echo evil > x/hgrc; ln -s ../x n/.hg"],
        Evil("n/.hg/hgrc"),
    ),
    (
        "the programs of another version control, elsewhere",
        &["mv old/jj/.jj/repo t; echo ../../../evil > old/jj/.jj/repo"],
        Evil("old/jj/.jj/repo"),
    ),
    (
        "the programs of another version control within",
        &["echo evil > old/jj/.jj/repo/config.toml"],
        Evil("old/jj/.jj/repo/config.toml"),
    ),
    (
        "a hidden file, with the folder at the top",
        &["mv sub t", "cat t/deep/secret > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file, with the folder around it",
        &["mv sub/deep t", "cat t/secret > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file, exchanged with another folder",
        &[
            "mkdir -p t/deep; mv sub u; mv t sub; mv u t",
            "cat t/deep/secret > seen",
        ],
        Seen("seen"),
    ),
    (
        "a hidden file at its place",
        &["cat sub/deep/secret > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file under another name",
        &[
            "mv sub/deep/secret sub/deep/other",
            "cat sub/deep/other > seen",
        ],
        Seen("seen"),
    ),
    (
        "a hidden file in a folder that is new",
        &["mkdir t; mv sub/deep/secret t", "cat t/secret > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file in a folder that was there",
        &["mv sub/deep/secret scripts || true; cat scripts/secret > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file by a further name",
        &[
            "ln sub/deep/secret sub/deep/other; mkdir t; ln sub/deep/secret t/x",
            "cat t/x sub/deep/other > seen",
        ],
        Seen("seen"),
    ),
    (
        "a file of a hidden folder",
        &[
            "mkdir t; mv vault/key t || mv vault/key key",
            "cat t/key key > seen",
        ],
        Seen("seen"),
    ),
    (
        "a hidden folder under another name",
        &["mv vault t", "cat t/key vault/key > seen"],
        Seen("seen"),
    ),
    (
        "a hidden file, exchanged with another",
        &[
            "mv sub/deep/secret t; mv scripts/hooks/pre-commit sub/deep/secret; mv t scripts/hooks/pre-commit",
            "cat t scripts/hooks/pre-commit > seen",
        ],
        Seen("seen"),
    ),
    (
        "a hidden file, by a command beside the one that moves it",
        &[
            "mkdir t; (sleep 0.3; mv sub/deep/secret t) & cat t/secret > seen; wait; cat t/secret > seen",
        ],
        Seen("seen"),
    ),
];

fn lay(user: u32) -> Bait {
    let bait = Bait::lay(user);
    let configuration = "[core]\n\thooksPath = scripts/hooks\n\tfsmonitor = tools/git/watch\n\
        [include]\n\tpath = ../conf/git/inc\n[filter \"x\"]\n\tclean = linked/filter\n";
    for (name, text) in [
        (".git/config", configuration),
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/refs/x", ""),
        ("scripts/hooks/pre-commit", "ours"),
        ("tools/git/watch", "ours"),
        ("real/filter", "ours"),
        ("sub/deep/guard", "ours"),
        ("sub/deep/secret", "hidden"),
        ("vault/key", "hidden"),
        (".jj/repo/config.toml", "ours"),
        ("old/hg/.hg/requires", "ours"),
        ("old/hooked/.hg/hgrc", "ours"),
        ("old/jj/.jj/repo/store/type", "ours"),
    ] {
        bait.lay_file(user, name, text);
    }
    symlink("real", bait.workspace().join("linked")).unwrap();
    bait
}

fn has_escaped(escape: &Escape, workspace: &Path) -> bool {
    let (name, wanted) = match escape {
        Evil(name) => (name, "evil"),
        Seen(name) => (name, "hidden"),
    };
    let found = fs::read_to_string(workspace.join(name));
    found.is_ok_and(|text| text.contains(wanted))
}

#[test]
fn what_is_guarded_by_its_place_stays_so_when_folders_above_it_move() {
    let own = rustix::process::geteuid().as_raw();
    let mut faults = Vec::new();
    for (what, lines, escape) in TRICKS {
        let bait = lay(own);
        for line in *lines {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).current_dir(bait.workspace());
            shell.output().unwrap();
        }
        assert!(has_escaped(escape, bait.workspace()), "a control: {what}");
    }
    for user in [own, ordinary_user()] {
        for tier in ["full", "namespaces", "landlock"] {
            for (what, lines, escape) in TRICKS {
                let bait = lay(user);
                let Some(moved) = bait.command(user, tier, lines) else {
                    return;
                };
                if has_escaped(escape, bait.workspace()) {
                    faults.push(format!("{what}, as {user} in {tier}: {moved:?}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Folders that nothing guarded is in can be moved, and files from one folder to another.
#[test]
fn other_folders_can_be_moved() {
    let user = ordinary_user();
    for tier in ["full", "namespaces", "landlock"] {
        let bait = lay(user);
        let lines = [
            "mkdir -p free/a other && touch free/a/x sub/y && mv free free2",
            "mv free2/a/x other/x; mv sub/y other/y; mv other sub/other",
        ];
        let Some(moved) = bait.command(user, tier, &lines) else {
            return;
        };
        assert!(moved.is_empty(), "{tier}: {moved:?}");
        for name in ["sub/other/x", "sub/other/y"] {
            assert!(bait.workspace().join(name).exists(), "{tier}: {name}");
        }
    }
}
