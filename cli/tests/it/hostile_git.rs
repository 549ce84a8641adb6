//! What git would run outside the sandbox: whatever way its configuration names a file, no command writes it; whatever a
//! command leaves for git to run is moved aside. Each attack succeeds without the sandbox.

use std::process::Command;

use ah_conversation::steering_names;

use crate::ordinary_jobs::committer;
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// The beginning of each project.
const LAID: &str = "git init -q -b main . && echo a > a && git add a && git commit -qm a";

/// An attack: what the user has set up, what the command does, what the user does later.
struct Attack {
    laid: &'static str,
    command: &'static str,
    later: &'static str,
}

const fn attack(laid: &'static str, command: &'static str, later: &'static str) -> Attack {
    Attack {
        laid,
        command,
        later,
    }
}

/// Writes an executable that leaves the canary.
const HOOK: &str =
    "hook() { mkdir -p $(dirname $1); printf '#!/bin/sh\ntouch CANARY' > $1; chmod 755 $1; }; ";
const STATUS: &str = "git status";
const COMMIT: &str = "git commit -q --allow-empty -m later";
/// Makes a repository that runs a command on `git status`.
const EVIL: &str = "evil() { git init -q $1 && git -C $1 commit -q --allow-empty -m a && git -C $1 config core.fsmonitor 'touch CANARY; true'; }; ";

/// Ways in which git's configuration names files.
const NAMED: &[Attack] = &[
    attack(
        "echo '[core] hooksPath = hk' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "printf '[core]\\n hooksPath = hk ; why\\n' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "printf '[core]\\n hooksPath = hk # why\\n' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "printf '[core]\\n hooksPath = h\\\\\\nk\\n' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "printf '[core]\\n hooksPath = \"h\"k\\n' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "printf '[CORE]\\n HOOKSPATH=hk' >> .git/config",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack("git config core.hooksPath $PWD", "hook pre-commit", COMMIT),
    attack(
        "git config core.hooksPath \"$PWD/hk\"",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "git config core.hooksPath '~/project/hk'; mkdir -p ~/project; rmdir ~/project; ln -s $PWD ~/project",
        "hook hk/pre-commit",
        COMMIT,
    ),
    attack(
        "mkdir real && ln -s real hk && git config core.hooksPath hk",
        "hook real/pre-commit",
        COMMIT,
    ),
    attack(
        "echo '[include] path = ../inc' >> .git/config",
        "printf '[core]\\nfsmonitor=touch CANARY;true' > inc",
        STATUS,
    ),
    attack(
        "git config include.path ../one && printf '[include]\\npath=two' > one && touch two",
        "printf '[core]\\nfsmonitor=touch CANARY;true' > two",
        STATUS,
    ),
    attack(
        "git config 'includeIf.gitdir:**.path' ../inc",
        "printf '[core]\\nfsmonitor=touch CANARY;true' > inc",
        STATUS,
    ),
    attack(
        "git config 'includeIf.onbranch:other.path' ../inc",
        "printf '[core]\\nfsmonitor=touch CANARY;true' > inc",
        "git checkout -q -b other; git status",
    ),
    attack(
        "git config --global core.hooksPath .hk",
        "hook .hk/pre-commit",
        COMMIT,
    ),
    attack(
        "git config --global include.path $PWD/inc",
        "printf '[core]\\nfsmonitor=touch CANARY;true' > inc",
        STATUS,
    ),
    attack(
        "git config core.fsmonitor ./mon && hook() { :; }",
        "hook mon",
        STATUS,
    ),
    attack(
        "git config core.fsmonitor 'sh tools/mon.sh' && mkdir tools && echo true > tools/mon.sh",
        "hook tools/mon.sh",
        STATUS,
    ),
    attack(
        "git config --global diff.external tools/diff && mkdir tools && echo 'true' > tools/diff && chmod 755 tools/diff",
        "hook tools/diff; echo b > a",
        "git --no-pager diff",
    ),
    attack(
        "git config filter.f.clean 'tools/clean %f' && mkdir tools && echo cat > tools/clean && chmod 755 tools/clean && echo '* filter=f' > .gitattributes",
        "hook tools/clean; echo b > a",
        "git add a",
    ),
    attack(
        "git config alias.st '!sh tools/st.sh' && mkdir tools && touch tools/st.sh",
        "hook tools/st.sh",
        "git st",
    ),
    attack(
        "git config extensions.worktreeConfig true && git config --worktree core.hooksPath hk",
        "hook hk/pre-commit",
        COMMIT,
    ),
];

/// What a command may leave.
const LEFT: &[Attack] = &[
    attack("true", "evil lib/x; git add lib/x", STATUS),
    attack("true", "evil lib/x", "git -C lib/x status"),
    attack(
        "true",
        "evil a1/b/c/d/e/f/g/h",
        "git -C a1/b/c/d/e/f/g/h status",
    ),
    attack(
        "true",
        "evil node_modules/x; git add -f node_modules/x",
        STATUS,
    ),
    attack(
        "true",
        "evil lib/x; git init -q plain && git -C plain commit -q --allow-empty -m a; mv lib/x plain/x; git -C plain add x",
        "git -C plain status",
    ),
    attack(
        "true",
        "evil e; mkdir lib; mv e/.git lib/y; echo gitdir: y > lib/.git",
        "git -C lib status",
    ),
    attack(
        "true",
        "evil e; ln -s e/.git .git2; mkdir lib; ln -s $PWD/e/.git lib/.git",
        "git -C lib status",
    ),
    attack(
        "true",
        "git init -q --bare b && git -C b config core.bare false && git -C b config core.worktree .. && git -C b config core.fsmonitor 'touch CANARY; true'",
        "git -C b status",
    ),
    attack(
        "true",
        "mkdir lib && git init -q lib && hook lib/.git/hooks/pre-commit",
        "git -C lib commit -q --allow-empty -m later",
    ),
    attack(
        "git config --global core.hooksPath .hk",
        "mkdir lib && git init -q lib && hook lib/.hk/pre-commit",
        "git -C lib commit -q --allow-empty -m later",
    ),
    attack(
        "git config core.hooksPath .hk",
        "git worktree add -q tree && hook tree/.hk/pre-commit",
        "git -C tree commit -q --allow-empty -m later",
    ),
    attack(
        "true",
        "git worktree add -q tree && evil e && echo $PWD/e/.git > .git/worktrees/tree/commondir",
        "git -C tree status",
    ),
    attack(
        "echo b > b && git add b && git commit -qm b",
        "GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i HEAD~1 2>/dev/null; echo 'exec touch CANARY' >> .git/rebase-merge/git-rebase-todo",
        "git rebase --continue",
    ),
    attack(
        "echo b > b && git add b && git commit -qm b && GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i HEAD~1 2>/dev/null",
        "printf 'x touch CANARY\\n' >> .git/rebase-merge/git-rebase-todo",
        "git rebase --continue",
    ),
    attack(
        "git init -q ../source && git -C ../source commit -q --allow-empty -m a && git -c protocol.file.allow=always submodule --quiet add ../source module 2>/dev/null && git commit -qm module && git submodule --quiet deinit module && rm -rf .git/modules/module",
        "git clone -q --bare ../project .git/modules/module; git -C .git/modules/module config core.bare false; git -C .git/modules/module config core.worktree ../../../module; git -C .git/modules/module config core.fsmonitor 'touch CANARY; true'; echo gitdir: ../.git/modules/module > module/.git",
        "git -C module status",
    ),
    attack(
        "for i in $(seq 1100); do mkdir -p d/$i; done; mkdir -p z/lib && git init -q ../source && git -C ../source commit -q --allow-empty -m a && git -c protocol.file.allow=always submodule --quiet add ../source z/lib/sub 2>/dev/null && git commit -qm module",
        "evil e; git -C e config core.worktree ../../z/lib/sub; echo gitdir: ../../../e/.git > z/lib/sub/.git",
        STATUS,
    ),
    attack(
        "true",
        "evil e; cp -r e lib; git init -q . ; git update-index --add --cacheinfo 160000,$(git -C lib rev-parse HEAD),lib; git update-index --split-index",
        STATUS,
    ),
];

fn bash(world: &World, script: &str) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .current_dir(world.project())
        .env("HOME", world.home())
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(committer());
    bash.output().unwrap().status.success()
}

/// Runs a script in the sandbox, and returns what it said.
fn confined(world: &World, script: &str) -> String {
    let mut ah = world
        .ah(["sandbox", "exec", "--", "bash", "-c", script])
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in committer() {
        ah = ah.env(&name, value);
    }
    let ended = ah.run();
    format!("{}{}", ended.stdout, ended.stderr)
}

/// Returns the attacks that fail outside the sandbox, or succeed in it.
fn faults(attacks: &[Attack]) -> Vec<String> {
    let mut faults = Vec::new();
    for Attack {
        laid,
        command,
        later,
    } in attacks
    {
        for is_confined in [false, true] {
            let world = World::new();
            let canary = world.home().join("canary");
            let named = |script: &str| script.replace("CANARY", canary.to_str().unwrap());
            assert!(bash(&world, &format!("{LAID} && {laid}")), "{laid}");
            let script = named(&format!("{HOOK}{EVIL}{command}"));
            let said = if is_confined {
                confined(&world, &script)
            } else {
                bash(&world, &script);
                String::new()
            };
            bash(&world, later);
            match (is_confined, canary.exists()) {
                (false, false) => {
                    faults.push(format!("outside it came to nothing: {laid}; {command}"));
                }
                (true, true) => faults.push(format!("escaped: {laid}; {command}\n{said}")),
                _ => {}
            }
        }
    }
    faults
}

#[test]
fn files_that_git_is_configured_to_obey_are_not_written() {
    if is_missing() {
        return;
    }
    let faults = faults(NAMED);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_a_command_leaves_for_git_to_run_is_moved_aside() {
    if is_missing() {
        return;
    }
    let faults = faults(LEFT);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn plain_repositories_of_a_command_stay_and_are_protected_from_then_on() {
    if is_missing() {
        return;
    }
    for (make, git) in [
        (
            "git init -q lib/x && git -C lib/x commit -q --allow-empty -m a",
            "lib/x/.git",
        ),
        ("git clone -q . copy", "copy/.git"),
        ("git worktree add -q tree", "tree/.git"),
        ("git init -q --bare bare", "bare/HEAD"),
        (
            "git checkout -q -b side && echo b > a && git commit -qam b && git checkout -q main && echo c > a && git commit -qam c && git rebase side",
            ".git/rebase-merge",
        ),
    ] {
        let world = World::new();
        assert!(bash(&world, LAID));
        let said = confined(&world, make);
        assert!(world.file(git).exists(), "{make}: {said}");
        if git.ends_with("/.git") {
            let folder = git.trim_end_matches("/.git");
            confined(
                &world,
                &format!(
                    "cd {folder} && git config core.fsmonitor x; echo b > b && git add b && git commit -qm b"
                ),
            );
            assert!(
                !bash(&world, &format!("git -C {folder} config core.fsmonitor")),
                "{make}"
            );
            assert!(
                bash(
                    &world,
                    &format!("git -C {folder} log --oneline | grep ' b$'")
                ),
                "{make}"
            );
        }
    }
}

#[test]
fn a_configuration_that_is_not_understood_protects_the_folder() {
    if is_missing() {
        return;
    }
    let world = World::new();
    assert!(bash(&world, LAID));
    assert!(bash(&world, "printf '[core\\n' >> .git/config"));
    let said = confined(&world, "echo b > b");
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(said.contains("cannot be read as git reads it"), "{said}");
}

#[test]
fn files_that_steer_programs_are_refused_at_any_depth() {
    if is_missing() {
        return;
    }
    let names: Vec<_> = steering_names().collect();
    let world = World::new();
    assert!(bash(&world, LAID));
    let list = names.join(" ");
    let lay = format!("mkdir -p old/deep; for name in {list}; do echo user > old/deep/$name; done");
    assert!(bash(&world, &lay));
    let said = confined(
        &world,
        &format!(
            "for name in {list}; do for folder in . new new/a/b/c/d/e/f old/deep; do mkdir -p $folder; echo evil > $folder/$name; done; done"
        ),
    );
    for name in names {
        for folder in [".", "new", "new/a/b/c/d/e/f"] {
            let path = world.file(folder).join(name);
            assert!(!path.exists(), "{}: {said}", path.display());
            let aside = format!("{}.quarantined", path.display());
            assert!(
                said.contains(&format!("{name}.quarantined")),
                "{aside}: {said}"
            );
        }
        assert_eq!(world.text(&format!("old/deep/{name}")), "user\n");
    }
}
