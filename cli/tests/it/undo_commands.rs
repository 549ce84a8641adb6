//! Undo of what confined commands changed: any sequence of them is taken back to the same tree, and brought forth, also
//! after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::is_missing;
use crate::support::binary::World;
use crate::support::random::{Random, rounds};
use crate::support::shown::shown;
use crate::writes::has_strace;

/// Everything in the project: kind, mode and content by path. Folders of sessions and of git are left out.
pub type Tree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

pub fn tree(world: &World) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![world.project()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            if name == ".ah" || name == ".git" {
                continue;
            }
            let found = entry.metadata().unwrap();
            let mode = found.permissions().mode() & 0o7777;
            let state = if found.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                ('l', 0, target.into_os_string().into_vec())
            } else if found.is_dir() {
                folders.push(path.clone());
                ('d', mode, Vec::new())
            } else {
                ('f', mode, fs::read(&path).unwrap())
            };
            tree.insert(path, state);
        }
    }
    tree
}

/// Returns the tree without files of this extension: scenarios, which are no changes of the session.
fn without(tree: &Tree, extension: &str) -> Tree {
    let is_kept = |path: &Path| path.extension().is_none_or(|it| it != extension);
    let kept = tree.iter().filter(|(path, _)| is_kept(path));
    kept.map(|(path, state)| (path.clone(), state.clone()))
        .collect()
}

fn bash(line: &str) -> Turn {
    uses("bash", json!({"command": line}))
}

/// Runs a session with these command lines, each in a call.
pub fn perform(world: &World, name: &str, lines: &[String]) {
    let turns = lines.iter().map(|line| bash(line)).chain([says("Done.")]);
    let model = world.scenario(name, turns);
    world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
}

pub fn told(world: &World, line: &str) -> String {
    let ended = world.ah(line.split(' ')).run();
    format!("$ ah {line}\n{}", shown(world, &ended))
}

/// Lets a script run outside the sandbox, as the user would.
pub fn by_hand(world: &World, script: &str) {
    let mut shell = Command::new("bash");
    let ended = shell.args(["-c", script]).current_dir(world.project());
    assert!(ended.status().unwrap().success(), "{script}");
}

#[test]
fn six_kinds_of_change_by_commands_are_undone() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(
        &world,
        "printf 'a\\na\\n' >f; echo g >g; echo h >h; ln -s f link; mkdir -p folder/below; echo x >folder/x",
    );
    let model = world.scenario(
        "six",
        [
            bash(
                "sed -i s/a/b/ f; rm g; mv h i; cp f f2; tee t <f; cat >heredoc <<X\nhi\nX\n\
                 mv folder moved; rm link; mkdir -p new/deep; echo q >new/deep/q; chmod 600 f2",
            ),
            says("Done."),
        ],
    );
    let before = tree(&world);
    world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
    let after = tree(&world);
    let undone = told(&world, "undo");
    assert_eq!(tree(&world), before);
    let redone = told(&world, "redo");
    assert_eq!(tree(&world), after);
    insta::assert_snapshot!(format!("{undone}\n{redone}"), @"
    $ ah undo
    stdout:
    restore f (+2 -2)
    remove f2 (+0 -2)
    recreate folder (+0 -0)
    recreate folder/below (+0 -0)
    recreate folder/x (+1 -0)
    recreate g (+1 -0)
    recreate h (+1 -0)
    remove heredoc (+0 -1)
    remove i (+0 -1)
    recreate link (+0 -0)
    remove moved/ (1 file)
    remove new/ (1 file)
    remove t (+0 -2)
    17 files changed; `ah redo` reverses this
    exit code 0
    $ ah redo
    stdout:
    restore f (+2 -2)
    recreate f2 (+2 -0)
    remove folder/ (1 file)
    remove g (+0 -1)
    remove h (+0 -1)
    recreate heredoc (+1 -0)
    recreate i (+1 -0)
    remove link (+0 -0)
    recreate moved (+0 -0)
    recreate moved/below (+0 -0)
    recreate moved/x (+1 -0)
    recreate new (+0 -0)
    recreate new/deep (+0 -0)
    recreate new/deep/q (+1 -0)
    recreate t (+2 -0)
    17 files changed; `ah undo` reverses this
    exit code 0
    ");
}

#[test]
fn an_undo_that_is_killed_at_any_write_is_finished_by_the_next_command() {
    if is_missing() || !has_strace() {
        return;
    }
    let world = World::new();
    by_hand(
        &world,
        "echo f >f; echo g >g; mkdir -m 750 d; echo x >d/x; ln -s f link; mkdir e; chmod 555 e",
    );
    let line =
        "sed -i s/f/b/ f; rm g link; mv d moved; chmod 755 e; echo n >e/n; mkdir -p new/deep";
    let model = world.scenario("s", [bash(line), says("Done.")]);
    let before = tree(&world);
    world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
    let after = tree(&world);
    let mut kills = 0;
    for calls in [
        "fsync",
        "rename,renameat,renameat2",
        "unlink,unlinkat",
        "rmdir",
        "mkdir,mkdirat",
        "symlink,symlinkat",
        "chmod,fchmod,fchmodat",
    ] {
        for (way, expected) in [("undo", &before), ("redo", &after)] {
            for nth in 1.. {
                let inject = format!("inject={calls}:signal=KILL:when={nth}");
                let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &inject];
                let first = world.ah([way]).through("strace", strace).run();
                let was_killed = first.code != Some(0);
                if was_killed {
                    kills += 1;
                    told(&world, way);
                }
                assert_eq!(tree(&world), *expected, "{way}, killed at {inject}");
                if !was_killed {
                    break;
                }
                let back = if way == "undo" { "redo" } else { "undo" };
                told(&world, back);
            }
        }
    }
    // Each of the six kinds of change was one of the writes.
    assert!(kills > 40, "{kills}");
}

#[test]
fn names_of_a_file_come_and_go_over_two_runs() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "echo b >b");
    for name in ["0", "1"] {
        world.scenario(name, []);
    }
    let before = tree(&world);
    perform(&world, "0", &["ln b further".to_owned()]);
    let between = tree(&world);
    perform(&world, "1", &["mv b a".to_owned()]);
    let told_first = told(&world, "undo");
    assert_eq!(
        without(&tree(&world), "json"),
        without(&between, "json"),
        "{told_first}"
    );
    let told_then = told(&world, "undo");
    assert_eq!(
        without(&tree(&world), "json"),
        without(&before, "json"),
        "{told_then}"
    );
}

#[test]
fn an_empty_folder_that_a_command_removed_and_a_tool_made_again_stays() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "mkdir -p d/removed d/remade");
    let model = world.scenario(
        "s",
        [
            bash("rmdir d/removed d/remade"),
            // Its folder is missing both before and after.
            bash("printf a >>d/removed/file"),
            uses("write", json!({"path": "d/remade/file", "content": "a"})),
            says("Done."),
        ],
    );
    let before = tree(&world);
    world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
    let told = told(&world, "undo");
    assert_eq!(tree(&world), before, "{told}");
}

#[test]
fn a_file_that_somebody_else_changed_is_left_and_its_earlier_content_put_beside() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "echo mine >mine; echo gone >gone");
    perform(
        &world,
        "s",
        &["echo its >mine; rm gone; mkdir out; echo x >out/x; echo n >new".to_owned()],
    );
    by_hand(
        &world,
        "echo again mine >mine; echo y >out/mine; echo mine >new",
    );
    let undone = told(&world, "undo");
    assert_eq!(world.text("mine"), "again mine\n");
    assert_eq!(world.text("mine.restored"), "mine\n");
    assert_eq!(world.text("new"), "mine\n");
    assert_eq!(world.text("out/mine"), "y\n");
    assert_eq!(world.text("gone"), "gone\n");
    insta::assert_snapshot!(undone, @"
    $ ah undo
    stdout:
    recreate gone (+1 -0)
    recreate mine.restored (+1 -0)
    remove out/x (+0 -1)
    skip mine: somebody else has changed it since; its earlier content goes to mine.restored
    skip new: somebody else has changed it since
    skip out: it contains other files
    3 files changed; `ah redo` reverses this
    exit code 0
    ");
}

#[test]
fn calls_whose_changes_nobody_sees_are_named() {
    let world = World::new();
    by_hand(&world, "echo a >a; git init -q .");
    let model = world.scenario(
        "s",
        [
            uses("write", json!({"path": "b", "content": "b\n"})),
            bash("make it so | tee log; true"),
            bash("ls"),
            says("Done."),
        ],
    );
    world.ah(["-m", &model, "go"]).run().expect(0);
    insta::assert_snapshot!(told(&world, "undo"), @"
    $ ah undo
    stdout:
    remove b (+0 -1)
    not undone: bash: make it so | tee log; true (what it changed is not known)
    1 file changed; `ah redo` reverses this
    exit code 0
    ");
    if is_missing() {
        return;
    }
    perform(
        &world,
        "t",
        &[
            "git add a; git -c user.name=A -c user.email=a@b commit -qm one; echo more >>a"
                .to_owned(),
        ],
    );
    insta::assert_snapshot!(told(&world, "undo"), @"
    $ ah undo
    stdout:
    restore a (+0 -1)
    not undone: git: commits, branches or stashes (what it changed is not known)
    1 file changed; `ah redo` reverses this
    exit code 0
    ");
    assert_eq!(world.text("a"), "a\n");
}

#[test]
fn what_rules_hide_and_what_is_too_big_is_named_and_not_kept() {
    if is_missing() {
        return;
    }
    let world = World::new();
    world.write(
        ".ah/settings.json",
        json!({"permissions": {"deny": ["Read(./secret)"]}}).to_string(),
    );
    by_hand(
        &world,
        "echo hidden-content >secret; fallocate -l 257M big; echo a >a",
    );
    perform(
        &world,
        "s",
        &["for name in s a; do rm -f $name*; done; printf more >>big".to_owned()],
    );
    insta::assert_snapshot!(told(&world, "undo"), @"
    $ ah undo
    stdout:
    recreate a (+1 -0)
    recreate s.json (+1 -0)
    skip big: its earlier content was not kept
    skip secret: its earlier content was not kept
    2 files changed; `ah redo` reverses this
    exit code 0
    ");
    // The command could not remove it: the rule hides it from all programs.
    assert_eq!(world.text("secret"), "hidden-content\n");
    let sessions = walk(&world.project());
    let kept = sessions.iter().filter(|path| path.is_file());
    for file in kept.filter(|path| !path.ends_with("secret")) {
        let bytes = fs::read(file).unwrap();
        let needle = b"hidden-content";
        assert!(
            !bytes.windows(needle.len()).any(|piece| piece == needle),
            "{}",
            file.display()
        );
    }
}

#[test]
fn what_the_disk_has_no_room_for_is_named_and_spoils_nothing_else() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "echo a >a; head -c 6000000 /dev/zero >b; echo c >c");
    let line = "for name in a b c; do echo changed >$name; done";
    let model = world.scenario("full", [bash(line), says("Done.")]);
    let full = world
        .ah(["-m", &model, "--sandbox", "go"])
        .with_file_limit(8192);
    full.run().expect(0);
    insta::assert_snapshot!(told(&world, "undo"), @"
    $ ah undo
    stdout:
    restore a (+1 -1)
    restore c (+1 -1)
    not undone: <project>/b: File too large (os error 27) (what it changed is not known)
    2 files changed; `ah redo` reverses this
    exit code 0
    ");
    assert_eq!(["a", "c"].map(|name| world.text(name)), ["a\n", "c\n"]);
}

#[test]
fn big_files_are_kept_beside_the_session() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(
        &world,
        "for name in gone moved written replaced put; do
             truncate -s 20M $name; printf $name | dd of=$name conv=notrunc seek=12345 status=none
         done; chmod 600 gone",
    );
    let model = world.scenario(
        "big",
        [
            bash("chmod 640 gone; rm gone; mv moved away; printf x >>written; cp written replaced"),
            bash("printf x >>away; printf y >>written; truncate -s 15M new"),
            uses("read", json!({"path": "put"})),
            uses("write", json!({"path": "put", "content": "small\n"})),
            says("Done."),
        ],
    );
    let before = tree(&world);
    world.ah(["-m", &model, "--sandbox", "go"]).run().expect(0);
    let after = tree(&world);
    insta::assert_snapshot!(told(&world, "undo"), @"
    $ ah undo
    stdout:
    remove away (big file)
    recreate gone (big file)
    recreate moved (big file)
    remove new (big file)
    restore put (big file)
    restore replaced (big file)
    restore written (big file)
    7 files changed; `ah redo` reverses this
    exit code 0
    ");
    assert!(tree(&world) == before, "undo");
    for _ in 0..2 {
        world.ah(["redo"]).run().expect(0);
        assert!(tree(&world) == after, "redo");
        world.ah(["undo"]).run().expect(0);
        assert!(tree(&world) == before, "undo");
    }
    // What is kept shares its content with the file until somebody writes to that.
    let changed = |name: &str| fs::metadata(world.file(name)).unwrap().ctime_nsec();
    let undone = changed("gone");
    ah_testkit::wait::until("the next tick of the file system's clock", || {
        world.write("tick", "");
        changed("tick") / 20_000_000 != undone / 20_000_000
    });
    by_hand(&world, "printf mine >>gone");
    let mine = tree(&world);
    let ways = ["redo", "undo"].map(|way| told(&world, way));
    // If the earlier content is still kept, it is beside.
    let mut now = tree(&world);
    now.remove(&world.file("gone.restored"));
    assert!(now == mine, "{ways:?}");
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

/// The tiers of the sandbox, each of which sees file changes.
const TIERS: [&str; 3] = [
    "--sandbox=full",
    "--sandbox=namespaces",
    "--sandbox=landlock",
];

fn tier(random: &mut Random) -> &'static str {
    TIERS[random.below(3) as usize]
}

/// Lets two names exchange what they are of.
fn exchange(one: &str, other: &str) -> String {
    let call = "import ctypes, os, sys; one, other = map(os.fsencode, sys.argv[1:]); \
                ctypes.CDLL(None).renameat2(-100, one, -100, other, 2)";
    format!("python3 -c '{call}' {one} {other}")
}

#[test]
fn a_folder_that_is_moved_over_another_spoils_no_record() {
    if is_missing() {
        return;
    }
    for tier in TIERS {
        let world = World::new();
        by_hand(
            &world,
            "mkdir -p a/d b/d; echo 1 >a/f; echo 2 >b/f; echo 3 >b/g; echo 4 >a/d/f; echo 5 >b/d/f",
        );
        let lines = [
            "mv -T a b 2>/dev/null || echo x >b/f".to_owned(),
            exchange("a", "b"),
            "echo 6 >a/d/f; echo 7 >b/d/f; rm b/f".to_owned(),
        ];
        let turns = { lines.iter() }.map(|line| bash(line));
        let model = world.scenario("moved", turns.chain([says("Done.")]));
        let before = tree(&world);
        world.ah(["-m", &model, tier, "go"]).run().expect(0);
        let after = tree(&world);
        assert_ne!(after, before);
        let undone = told(&world, "undo");
        assert_eq!(tree(&world), before, "{tier}: {undone}");
        let redone = told(&world, "redo");
        assert_eq!(tree(&world), after, "{tier}: {redone}");
    }
}

/// A random command line that changes files.
fn deed(random: &mut Random) -> String {
    const PATHS: [&str; 10] = [
        "a",
        "b",
        "d",
        "d/c",
        "d/'e f'",
        "d/g/h",
        "d/g",
        "$'new\\nline'",
        "$'\\xff\\xfe'",
        "./-dash",
    ];
    let mut pick = |from: &[&'static str]| from[random.below(from.len() as u64) as usize];
    let (p, q) = (pick(&PATHS), pick(&PATHS));
    let mode = pick(&["600", "644", "755", "700"]);
    let text = pick(&["a", "b", "ccc", ""]);
    let deeds: &[&str] = &[
        "printf TEXT >P",
        "printf TEXT >>P",
        "sed -i s/a/b/ P",
        "rm -rf P",
        "rm -f P",
        "mv P Q",
        "mv -T P Q",
        "cp -a P Q",
        "ln -s TEXT P",
        "ln -sfn Q P",
        "ln P Q",
        "ln -f P Q",
        "mkdir -p P",
        "mkdir P",
        "chmod MODE P",
        "chmod -R MODE P",
        "truncate -s 5 P",
        "truncate -s 3M P",
        "truncate -s 11M P",
        "truncate -s 12M P; printf TEXT >>P",
        "rmdir P",
        "install -m MODE P Q",
        "tee P <Q",
        "touch P",
        "cat Q >P; printf TEXT >>Q",
        "exec 5>>P; printf TEXT >/proc/self/fd/5",
        "tar cf - P | tar xf - --transform s/^d/x/",
        "perl -e 'rename($ARGV[0], $ARGV[1])' P Q",
        "perl -e 'open(F, q(+<), $ARGV[0]); print F q(zz)' P",
    ];
    let deed = deeds[random.below(deeds.len() as u64) as usize];
    let deed = deed
        .replace("TEXT", &format!("'{text}'"))
        .replace("MODE", mode);
    let deed = deed.replace('P', p).replace('Q', q);
    format!("{{ {deed}; }} 2>/dev/null || true")
}

fn deeds(random: &mut Random, most: u64) -> Vec<String> {
    let count = 1 + random.below(most);
    (0..count).map(|_| deed(random)).collect()
}

#[test]
fn any_commands_are_undone_and_redone() {
    if is_missing() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_UNDO", 12) {
        let world = World::new();
        // The scenarios are there before, so that the trees have them all.
        let runs: Vec<_> = (0..2).map(|_| deeds(&mut random, 6)).collect();
        let earlier = deeds(&mut random, 12).join("\n");
        by_hand(&world, &earlier);
        for name in ["0", "1"] {
            world.scenario(name, []);
        }
        let mut trees = vec![];
        for (run, lines) in runs.iter().enumerate() {
            // Its own file is no change of the session.
            let turns = lines.iter().map(|line| bash(line)).chain([says("Done.")]);
            let model = world.scenario(&run.to_string(), turns);
            trees.push(tree(&world));
            let arguments = ["-m", &model, tier(&mut random), "go"];
            world.ah(arguments).run().expect(0);
        }
        let done = tree(&world);
        let lines = runs.concat().join("\n");
        let strip = |tree: &Tree| without(tree, "json");
        let mut expected: Vec<Tree> = trees.iter().map(strip).collect();
        expected.push(strip(&done));
        // Runs that changed nothing are no steps.
        expected.dedup();
        for (way, trees) in [
            ("undo", expected.iter().rev().skip(1).collect::<Vec<_>>()),
            ("redo", expected.iter().skip(1).collect()),
        ] {
            let mut told_all = String::new();
            for _ in 0..2 {
                told_all += &told(&world, way);
            }
            let last = trees.last().copied().unwrap_or(&expected[0]);
            let (now, then) = (strip(&tree(&world)), strip(last));
            let differing: Vec<_> = { now.iter() }
                .filter(|(path, state)| then.get(*path) != Some(state))
                .map(|(path, _)| path)
                .chain(then.keys().filter(|path| !now.contains_key(*path)))
                .collect();
            assert!(
                differing.is_empty(),
                "{way}: {differing:?}\n{earlier}\n\n{lines}\n{told_all}"
            );
        }
    }
}

#[test]
fn a_kill_while_commands_change_files_is_undone() {
    if is_missing() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_UNDO_KILLS", 6) {
        let world = World::new();
        by_hand(&world, &deeds(&mut random, 12).join("\n"));
        let script = format!("touch started\n{}", deeds(&mut random, 60).join("\n"));
        let endless = format!("while :; do\n{script}\ndone");
        let model = world.scenario("endless", [bash(&endless), says("Done.")]);
        let before = tree(&world);
        let arguments = ["-m", &model, tier(&mut random), "go"];
        let running = world.ah(arguments).start();
        ah_testkit::wait::until("the command", || world.file("started").exists());
        let until = random.below(300);
        for _ in 0..until {
            let _ = fs::metadata(world.project());
            std::thread::yield_now();
        }
        running.kill();
        // The kernel ends what ran inside. A tree that is looked at twice is still.
        let mut last = tree_or_none(&world);
        ah_testkit::wait::until("the end of all commands", || {
            std::thread::sleep(Duration::from_millis(20));
            let now = tree_or_none(&world);
            let is_still = now.is_some() && now == last;
            last = now;
            is_still && world.processes().is_empty()
        });
        let told = told(&world, "undo");
        assert_eq!(tree(&world), before, "{script}\n{told}");
    }
}

#[test]
fn what_was_written_until_a_kill_is_undone() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "echo mine > mine");
    let writes = "while :; do echo line >> log; sleep 0.1; done";
    let model = world.scenario("writes", [bash(writes), says("Done.")]);
    let before = tree(&world);
    let running = world.ah(["-m", &model, "--sandbox", "go"]).start();
    // For longer than a second, after which a change would count as somebody else's.
    ah_testkit::wait::until("many lines", || {
        let log = fs::read_to_string(world.file("log")).unwrap_or_default();
        log.lines().count() > 20
    });
    running.kill();
    ah_testkit::wait::until("the end of the command", || world.processes().is_empty());
    let told = told(&world, "undo");
    assert_eq!(tree(&world), before, "{told}");
}

/// Returns the tree, unless it changes while it is read.
fn tree_or_none(world: &World) -> Option<Vec<(PathBuf, i64)>> {
    let mut found = Vec::new();
    for path in walk(&world.project()) {
        if path.components().any(|part| part.as_os_str() == ".ah") {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).ok()?;
        found.push((path, metadata.ctime_nsec()));
    }
    Some(found)
}

#[test]
fn a_command_is_tried_and_taken_back() {
    if is_missing() {
        return;
    }
    let world = World::new();
    by_hand(&world, "printf 'one\\ntwo\\n' >f");
    let before = tree(&world);
    let script = "sed -i s/two/2/ f; mkdir d; echo x >d/x; exit 3";
    let tried = ["sandbox", "exec", "--preview", "--", "sh", "-c", script];
    let ended = world.ah(tried).run();
    assert_eq!(tree(&world), before);
    insta::assert_snapshot!(shown(&world, &ended), @"
    stdout:
    --- /dev/null
    +++ b/d/x
    @@ -0,0 +1 @@
    +x
    --- a/f
    +++ b/f
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    To be reverted:
    remove d/ (1 file)
    restore f (+1 -1)
    3 files changed
    Reverted.
    exit code 3
    ");
    let nothing = ["sandbox", "exec", "--preview", "--", "cat", "f"];
    insta::assert_snapshot!(shown(&world, &world.ah(nothing).run()), @"
    stdout:
    one
    two
    The command changed no files.
    exit code 0
    ");
}
