//! Nothing that a command leaves in the project's repositories may run when the user calls git there later; and
//! committing in them works.

use std::path::Path;
use std::process::Command;

use crate::ordinary_jobs::{committer, fault};
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// A project with a nested repository, a submodule and a linked worktree beside it.
const LAID: &str = "git init -q -b main . && echo a > a && git add a && git commit -qm a \
    && git init -q vendor/own && git -C vendor/own commit -q --allow-empty -m a \
    && git init -q ../source && git -C ../source commit -q --allow-empty -m a \
    && git -c protocol.file.allow=always submodule --quiet add ../source module 2>/dev/null && git commit -qm module \
    && git worktree add -q ../tree 2>/dev/null && mkdir .hooks && git config core.hooksPath .hooks \
    && git config include.path ../included && touch included && git init -q ../tree/other && git -C ../tree/other commit -q --allow-empty -m a";
/// Commands that the user may run next.
const LATER: &str = "for tree in . vendor/own module ../tree ../tree/other; do git -C $tree status; done; \
    for tree in . vendor/own; do git -C $tree commit --allow-empty -m later; done";
/// A repository whose configuration runs a program on `git status`, in both places.
const EVIL: &str = "for place in . ../tree; do git init -q $place/evil/x && git -C $place/evil/x commit -q --allow-empty -m a \
    && git -C $place/evil/x config core.fsmonitor 'touch CANARY; true'; done";
/// Restores the state before an attack.
const RESTORED: &str =
    "cd .. && rm -rf project/* project/.git project/.hooks tree home/canary && cp -a saved/. .";

/// Each attack: its folder and its script.
const ATTACKS: &[(&str, &str)] = &[
    (
        ".",
        "git -C vendor/own config core.fsmonitor 'touch CANARY; true'",
    ),
    (
        ".",
        "printf '#!/bin/sh\ntouch CANARY' > vendor/own/.git/hooks/pre-commit && chmod 755 vendor/own/.git/hooks/pre-commit",
    ),
    (".", "mv vendor/own/.git away; mv evil/x/.git vendor/own"),
    (".", "mv vendor/own away; mv evil/x vendor/own"),
    (
        ".",
        "rm -rf vendor/own/.git; echo gitdir: $PWD/evil/x/.git > vendor/own/.git",
    ),
    (
        ".",
        "mv vendor/own away; mkdir vendor/own && echo gitdir: $PWD/evil/x/.git > vendor/own/.git",
    ),
    (
        ".",
        "git -C module config core.fsmonitor 'touch CANARY; true'",
    ),
    (".", "echo gitdir: $PWD/evil/x/.git > module/.git"),
    (".", "rm module/.git; mv evil/x/.git module"),
    (".", "mv module away; mv evil/x module"),
    (
        ".",
        "mv .git/modules/module away; mv evil/x/.git .git/modules/module",
    ),
    (
        ".",
        "mv .git/modules away; mkdir .git/modules; mv evil/x/.git .git/modules/module",
    ),
    (".", "echo $PWD/evil/x/.git > .git/modules/module/commondir"),
    (".", "echo $PWD/evil/x/.git > .git/worktrees/tree/commondir"),
    (
        ".",
        "mv .git/worktrees/tree away; cp -r away .git/worktrees/tree; echo $PWD/evil/x/.git > .git/worktrees/tree/commondir",
    ),
    (
        ".",
        "printf '#!/bin/sh\ntouch CANARY' > .hooks/pre-commit && chmod 755 .hooks/pre-commit",
    ),
    (
        ".",
        "mv .hooks away; mkdir .hooks; printf '#!/bin/sh\ntouch CANARY' > .hooks/pre-commit && chmod 755 .hooks/pre-commit",
    ),
    (
        ".",
        "printf '[core]\n\tfsmonitor = touch CANARY; true\n' > included",
    ),
    (
        ".",
        "rm .git/HEAD; cp -r evil/x/.git/* . && git config --file config core.bare false && git config --file config core.worktree .",
    ),
    (".", "mv .git away; mv evil/x/.git ."),
    ("../tree", "rm .git; mv evil/x/.git ."),
    ("../tree", "echo gitdir: $PWD/evil/x/.git > .git"),
    (
        "../tree",
        "echo $PWD/evil/x/.git > $(git rev-parse --absolute-git-dir)/commondir",
    ),
    (
        "../tree",
        "d=$(git rev-parse --absolute-git-dir) && cp -r $d new && mv $d $d.away; mv new $d && echo $PWD/evil/x/.git > $d/commondir",
    ),
    ("../tree", "git config core.fsmonitor 'touch CANARY; true'"),
    (
        "../tree",
        "c=$(git rev-parse --git-common-dir) && echo $PWD/evil/x/.git > $c/commondir",
    ),
    (
        "../tree",
        "git -C other config core.fsmonitor 'touch CANARY; true'",
    ),
];

/// Creates a project with repositories of all kinds.
pub fn lay() -> World {
    let world = World::new();
    bash(&world, ".", LAID, true);
    world
}

/// Runs a script as the user.
fn bash(world: &World, folder: &str, script: &str, must_do: bool) {
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .current_dir(world.file(folder))
        .env("HOME", world.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(committer());
    let output = bash.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!must_do || output.status.success(), "{script}: {said}");
}

#[test]
fn git_runs_nothing_later_that_a_command_has_left() {
    if is_missing() {
        return;
    }
    let mut faults = Vec::new();
    let world = lay();
    let canary = world.home().join("canary");
    let named = |script: &str| script.replace("CANARY", canary.to_str().unwrap());
    bash(&world, ".", &named(EVIL), true);
    bash(
        &world,
        ".",
        "mkdir ../saved && cp -a ../project ../tree ../saved",
        true,
    );
    for (folder, attack) in ATTACKS {
        let come = |is_confined: bool| {
            bash(&world, ".", RESTORED, true);
            let script = named(attack);
            if is_confined {
                let mut ah = world.ah(["sandbox", "exec", "--", "bash", "-c", &script]);
                ah = ah
                    .within(world.file(folder))
                    .env("GIT_CONFIG_NOSYSTEM", "1");
                for (name, value) in committer() {
                    ah = ah.env(&name, value);
                }
                ah.run();
            } else {
                bash(&world, folder, &script, false);
            }
            bash(&world, ".", LATER, false);
            canary.exists()
        };
        if !come(false) {
            faults.push(format!("outside it came to nothing: {attack}"));
        }
        if come(true) {
            faults.push(format!("escaped: {attack}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commits_work_in_all_of_them() {
    if is_missing() {
        return;
    }
    let commit = "echo b > b && git add b && git commit -qm b && git log --oneline | grep -q ' b$'";
    let branch = "git checkout -q -b new && git checkout -q - && git branch -q -d new && git gc -q && git status";
    for folder in [".", "vendor/own", "module", "../tree", "../tree/other"] {
        let world = lay();
        let job = format!("cd {folder} && {commit} && {branch}");
        let top = if folder.starts_with("..") {
            "../tree"
        } else {
            "."
        };
        let job = job
            .replace("cd ../tree", "cd .")
            .replace("cd ./other", "cd other");
        let mut ah = world.ah(["sandbox", "exec", "--", "bash", "-c", &job]);
        for (name, value) in committer() {
            ah = ah.env(&name, value);
        }
        let ended = ah.within(world.file(top)).run();
        assert_eq!(fault(&job, &ended), None);
        assert!(!Path::new(&world.file("HEAD")).exists());
    }
}

#[test]
fn settings_are_protected_down_to_where_the_work_is_done() {
    if is_missing() {
        return;
    }
    let world = World::new();
    bash(
        &world,
        ".",
        "git init -q . && mkdir -p a/b/.claude a/.ah a/b/o",
        true,
    );
    let job = "echo x > .claude/settings.json; echo x > ../.ah/settings.json; echo x > o/made; echo x > .mcp.json; echo x > o/.mcp.json; cat .mcp.json";
    let ended = world
        .ah(["sandbox", "exec", "--", "bash", "-c", job])
        .within(world.file("a/b"))
        .env("AH_PROTECT_DIRS", "o")
        .run();
    for (name, is_there) in [
        ("a/b/.claude/settings.json", false),
        ("a/.ah/settings.json", false),
        ("a/b/o/made", false),
        ("a/b/.mcp.json", false),
        ("a/b/.mcp.json.quarantined", true),
    ] {
        assert_eq!(
            world.file(name).exists(),
            is_there,
            "{name}: {}",
            ended.stderr
        );
    }
}
