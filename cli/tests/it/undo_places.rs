//! Undo of changes in places that a path does not tell: through links of `/proc`, of the process itself and of others, and in
//! trees that no path reaches the end of.

use crate::sandbox::is_missing;
use crate::support::binary::World;
use crate::undo_commands::{by_hand, perform, told, tree};

#[test]
fn changes_through_links_of_proc_are_undone() {
    if is_missing() {
        return;
    }
    for line in [
        "exec 5>>d/f; printf x >/proc/$$/fd/5",
        "exec 5>>d/f; printf x >/proc/self/task/$$/fd/5",
        "exec 5<d; printf x >/proc/$$/fd/5/f",
        "printf x >/proc/$$/cwd/d/f",
        "printf x >/proc/self/task/$$/cwd/d/f",
        "printf x >/proc/thread-self/cwd/d/f",
        "printf x >/proc/self/cwd/../$(basename $PWD)/d/f",
        "printf x >/proc/$$/root$PWD/d/f",
        "printf x >/proc/$$/cwd/new",
        "rm /proc/$$/cwd/d/f",
        "mv /proc/$$/cwd/d /proc/$$/cwd/e",
        "ln -s /proc/self/cwd here; printf x >here/d/f",
        "ln -s /proc/self/cwd/new here; printf x >here",
        "cd d; sleep 60 & cd ..; printf x >/proc/$!/cwd/f; kill $!",
        "exec 5>>d/f; sleep 60 & exec 5>&-; printf x >/proc/$!/fd/5; kill $!",
        "exec 1>>d/f; printf x >/dev/stdout",
    ] {
        let world = World::new();
        by_hand(&world, "mkdir d; echo a >d/f");
        let scenario = |name: &std::path::Path| name.extension().is_some_and(|it| it == "json");
        let files = || {
            let mut tree = tree(&world);
            tree.retain(|path, _| !scenario(path));
            tree
        };
        let before = files();
        perform(&world, "s", &[line.to_owned()]);
        assert_ne!(files(), before, "{line}");
        let undone = told(&world, "undo");
        assert_eq!(files(), before, "{line}\n{undone}");
    }
}

/// What another process has open, or where it is, may be another thing when the call is carried out: a record of it is not relied on.
#[test]
fn a_change_through_another_process_is_named() {
    if is_missing() {
        return;
    }
    for line in [
        "sleep 60 5<. & printf x >/proc/$!/fd/5/f; kill $!",
        "(cd d; exec sleep 60) & printf x >/proc/$!/cwd/../f; kill $!",
        "exec 5<d; sleep 60 & ln -s /proc/$!/fd/5/.. here; printf x >here/f; kill $!",
        "coproc sleep 60; printf x >/proc/$COPROC_PID/cwd/f; kill $COPROC_PID",
    ] {
        let world = World::new();
        by_hand(&world, "mkdir d; echo a >f");
        perform(&world, "s", &[line.to_owned()]);
        let undone = told(&world, "undo");
        assert!(
            undone.contains("it leads through another process"),
            "{line}: {undone}"
        );
    }
}

/// A tree that a command makes deeper than paths are long neither ends the agent nor stops it.
#[test]
fn a_tree_of_any_depth_may_move() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let make = "mkdir q(t); chdir q(t); for (1..9600) { mkdir q(a); chdir q(a) }";
    by_hand(&world, &format!("perl -e '{make}'"));
    perform(&world, "s", &["mv t u".to_owned()]);
    assert!(world.file("u").exists());
    let undone = told(&world, "undo --dry-run");
    assert!(
        undone.contains("t/…: it lies more than 256 folders"),
        "{undone}"
    );
    // Deeper than the removal of a temporary folder can go.
    by_hand(&world, "rm -rf u");
}
