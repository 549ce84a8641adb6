//! Worktrees for sessions: made, used again, removed when nothing would be lost.

use std::path::Path;
use std::process::Command;

use ah_testkit::script::{says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

pub fn git(folder: &Path, words: &[&str]) -> String {
    let own = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"];
    let ended = Command::new("git")
        .args(own.iter().chain(words))
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{words:?}: {ended:?}");
    String::from_utf8_lossy(&ended.stdout).trim().to_owned()
}

/// A world whose project is a repository with one commit.
pub fn repository() -> World {
    let world = World::new();
    world.write("code.txt", "one\n");
    let project = world.project();
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "code.txt"]);
    git(&project, &["commit", "-q", "-m", "one"]);
    world
}

/// The same with the definition of a subagent that has a worktree of its own.
fn repository_with_builder() -> World {
    let world = repository();
    let definition =
        "---\nname: builder\ndescription: builds\nisolation: worktree\n---\nYou build.\n";
    world.write(".ah/agents/builder.md", definition);
    world
}

fn listed(world: &World) -> Value {
    let ended = world.as_typed(["worktree", "--json"]).run().expect(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn a_worktree_without_changes_is_removed_and_its_session_stays() {
    let world = repository();
    let server = Server::new([says("Looked."), says("Again.")]);
    let run = world.asking(&server, ["-m", "sonnet", "-w", "look", "look around"]);
    let ended = run.run().expect(0);
    assert!(ended.stdout.contains("Looked."), "{}", ended.stdout);
    let told = "The worktree was not changed and is removed.";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let folder = world.file(".ah/worktrees/look").display().to_string();
    let body = server.requests()[0].body.to_string();
    assert!(body.contains(&folder) && body.contains("worktree-look"));
    assert!(!world.file(".ah/worktrees/look").exists());
    assert_eq!(
        git(&world.project(), &["branch", "--list", "worktree-*"]),
        ""
    );
    assert_eq!(git(&world.project(), &["status", "--porcelain"]), "");
    // The same name goes on in the session.
    let all = world.as_typed(["sessions", "--all"]).run().expect(0).stdout;
    assert!(
        all.contains("(worktree-look)  look around") && all.starts_with(&folder),
        "{all}"
    );
    let listed = world.as_typed(["sessions", "--all", "--json"]).run();
    let listed: Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let ended = world.asking(&server, ["-m", "sonnet", "-r", id, "go on"]);
    let way = format!(
        "hint: cd {} && ah -w look -r {id}",
        world.project().display()
    );
    let told = ended.run().expect(1).stderr;
    assert!(told.contains(&way), "{told}");
    let run = world.asking(&server, ["-m", "sonnet", "-w", "look", "and now?"]);
    run.run().expect(0);
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("look around"), "{told}");
}

#[test]
fn a_worktree_with_changes_is_kept_and_removed_on_request() {
    let world = repository();
    let write = uses("write", json!({"path": "code.txt", "content": "two\n"}));
    let server = Server::new([write, says("Done.")]);
    let run = world.asking(&server, ["-m", "sonnet", "--worktree=fix", "fix it"]);
    let ended = run.run().expect(0);
    let told = "The worktree fix is kept (1 changed file): ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    // The other one is as it was.
    assert_eq!(
        std::fs::read_to_string(world.file("code.txt")).unwrap(),
        "one\n"
    );
    let tree = world.file(".ah/worktrees/fix");
    assert_eq!(
        std::fs::read_to_string(tree.join("code.txt")).unwrap(),
        "two\n"
    );
    let text = world.as_typed(["worktree"]).within(&tree).run().expect(0);
    let line = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(line, "fix worktree-fix 1 changed file");
    let refused = world
        .as_typed(["worktree", "remove", "fix"])
        .run()
        .expect(1);
    assert!(
        refused.stderr.contains("`fix` has 1 changed file"),
        "{}",
        refused.stderr
    );
    // What was committed stays on the branch.
    git(&tree, &["commit", "-q", "-a", "-m", "two"]);
    assert_eq!(listed(&world)[0]["commits"], 1);
    let removed = world
        .as_typed(["worktree", "remove", "fix"])
        .run()
        .expect(0);
    assert_eq!(
        removed.stdout,
        "removed fix; its commits are on the branch worktree-fix\n"
    );
    assert_eq!(listed(&world), json!([]));
    let branch = git(&world.project(), &["show", "worktree-fix:code.txt"]);
    assert_eq!(branch, "two");
    // A worktree of that name begins there.
    let server = Server::new([says("Here.")]);
    let run = world.asking(&server, ["-m", "sonnet", "-n", "-w", "fix", "go on"]);
    run.run().expect(0);
    assert_eq!(listed(&world)[0]["commits"], 1);
}

#[test]
fn a_conversation_can_be_in_a_new_worktree() {
    let world = repository();
    let server = Server::new([says("Hello."), says("Unused.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-w"]));
    seat.sees("/.ah/worktrees/1 (worktree-1)");
    seat.says("hello");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    // It is in use.
    let refused = world.as_typed(["worktree", "rm", "1"]).run().expect(1);
    assert!(
        refused.stderr.contains("in use by another ah"),
        "{}",
        refused.stderr
    );
    world.write(".ah/worktrees/1/new.txt", "new\n");
    seat.types("\x04");
    seat.sees("The worktree 1 is kept (1 changed file):");
    seat.sees("`ah -w 1` continues in it");
    let screen = seat.screen();
    assert_eq!(seat.leaves(), 0);
    // What the goodbye names works in the folder that the user is in.
    let way = regex::Regex::new(r"Resume: ah -w 1 -r ([0-9A-Z]+)").unwrap();
    let id = &way.captures(&screen).unwrap()[1];
    let mut seat = Seat::take(world.asking(&server, ["-w", "1", "-r", id, "-m", "sonnet"]));
    seat.sees("Hello.\n");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.asking(&server, ["worktree", "1", "-m", "sonnet"]));
    seat.sees("Hello.\n");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let forced = world.as_typed(["worktree", "rm", "1", "--force"]);
    assert_eq!(forced.run().expect(0).stdout, "removed 1\n");
}

/// Makes a worktree as git leaves it when it is killed.
fn make_half(world: &World, name: &str) {
    let project = world.project();
    let (branch, path) = (format!("worktree-{name}"), format!(".ah/worktrees/{name}"));
    git(&project, &["worktree", "add", "-q", "-b", &branch, &path]);
    let own = project.join(".git/worktrees").join(name);
    std::fs::write(own.join("locked"), "initializing").unwrap();
    let tree = project.join(path);
    for missing in [own.join("index"), own.join("HEAD"), tree.join("code.txt")] {
        std::fs::remove_file(missing).unwrap();
    }
}

#[test]
fn worktrees_that_git_cannot_read_are_listed_and_removed() {
    let world = repository();
    let run = |words: &[&str]| world.as_typed(words.iter().copied()).run();
    world.write(".ah/worktrees/.gitignore", "*\n");
    world.write(".ah/worktrees/strange/.git", "gitdir: gone\n");
    make_half(&world, "half");
    let project = world.project();
    let add = [
        "worktree",
        "add",
        "-q",
        "-b",
        "whole",
        ".ah/worktrees/whole",
    ];
    git(&project, &add);
    let shown = run(&["worktree"]).expect(0).stdout;
    let lines: Vec<_> = shown.lines().collect();
    let half = "half             incomplete: its creation was interrupted or is still in progress (`ah -w half` makes it again)";
    assert_eq!(lines[0], half);
    assert!(lines[1].starts_with("strange "), "{shown}");
    assert!(lines[2].starts_with("whole            whole"), "{shown}");
    let listed = listed(&world);
    assert_eq!(listed[0]["name"], "half");
    assert!(listed[1]["error"].is_string(), "{listed}");
    assert_eq!(listed[2]["branch"], "whole");

    let removed = run(&["worktree", "rm", "half"]).expect(0);
    assert_eq!(removed.stdout, "removed half\n");
    assert!(!world.file(".ah/worktrees/half").exists());
    let known = git(&project, &["worktree", "list"]);
    assert!(!known.contains("half"), "{known}");
    assert!(!git(&project, &["branch"]).contains("half"));
}

#[test]
fn a_worktree_that_git_was_killed_in_is_made_anew() {
    let world = repository();
    make_half(&world, "half");
    let project = world.project();
    let path = ".ah/worktrees/half";
    let own = project.join(".git/worktrees/half");
    let look = uses(
        "bash",
        json!({"command": "cat code.txt; echo two > new.txt"}),
    );
    let server = Server::new([look, says("Looked.")]);
    let run = world.asking(&server, ["-m", "sonnet", "-w", "half", "look around"]);
    run.run().expect(0);
    let told = server.requests()[1].body["messages"].to_string();
    assert!(
        told.contains("one\\n") || told.contains("\"one\""),
        "{told}"
    );
    assert!(!own.join("locked").exists());
    let status = git(&world.file(path), &["status", "--porcelain"]);
    assert_eq!(status, "?? new.txt");
}

#[test]
fn what_cannot_be_a_worktree_is_told() {
    let world = World::new();
    for (words, told) in [
        (
            &["-w", "x", "go"] as &[&str],
            "there is no git repository here",
        ),
        (&["worktree"], "there is no git repository here"),
        (
            &["--worktree=../x", "go"],
            "there is no git repository here",
        ),
    ] {
        let ended = world.as_typed(words.iter().copied()).run();
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    let world = repository();
    let ended = world.as_typed(["--worktree=../x", "go"]).run().expect(2);
    let told = "`../x` cannot be the name of a worktree";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let ended = world.as_typed(["worktree", "remove", "x"]).run().expect(1);
    assert!(
        ended.stderr.contains("there is no worktree `x`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_an_isolated_subagent_runs_beside_is_in_the_list_of_tasks() {
    let world = repository();
    let input = json!({"description": "build", "prompt": "Build.", "isolation": "worktree"});
    let beside = json!({"command": "echo started; sleep 1000", "run_in_background": true});
    let server = Server::new([
        uses("agent", input),
        uses("bash", beside),
        uses(
            "bash",
            json!({"command": "pwd; until [ -e go ]; do sleep 0.02; done"}),
        ),
        says("Built."),
        says("Done."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("go");
    seat.sees("2 tasks running · ");
    seat.says("/tasks");
    seat.sees("command: echo started; sleep 1000");
    seat.types("started\r");
    seat.sees("  started\n");
    world.write(".ah/worktrees/1/go", "");
    seat.sees("stopped; /tasks 2 shows its output");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    world.assert_nothing_runs();
}

#[test]
fn two_subagents_at_once_have_a_worktree_each() {
    let world = repository_with_builder();
    let input = json!({"description": "look", "prompt": "Look.", "subagent_type": "builder"});
    let look = || ("agent", input.clone());
    let server = Server::new([
        uses_all([look(), look()]),
        says("Looked."),
        says("Looked."),
        says("Done."),
    ]);
    let run = world.asking(&server, ["-m", "sonnet", "go"]);
    run.run().expect(0);
    let told: String = server.requests()[1..3]
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    for tree in [1, 2] {
        let folder = world.file(&format!(".ah/worktrees/{tree}"));
        let folder = format!("Working directory: {}", folder.display());
        assert!(told.contains(&folder), "{folder}: {told}");
    }
    assert_eq!(listed(&world), json!([]));
}

#[test]
fn a_subagent_that_wants_a_worktree_changes_files_only_there() {
    let world = repository_with_builder();
    let build = |prompt: &str| {
        let input = json!({"description": "build", "prompt": prompt, "subagent_type": "builder"});
        uses("agent", input)
    };
    let server = Server::new([
        build("Write two."),
        uses("write", json!({"path": "code.txt", "content": "two\n"})),
        uses("bash", json!({"command": "cat code.txt; pwd"})),
        says("Built."),
        build("Only look."),
        uses("read", json!({"path": "code.txt"})),
        says("Looked."),
        says("Done."),
    ]);
    let run = world.asking(&server, ["-m", "sonnet", "go"]);
    run.run().expect(0);
    let tree = world.file(".ah/worktrees/1");
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(world.file("code.txt")), "one\n");
    assert_eq!(read(tree.join("code.txt")), "two\n");
    let requests = server.requests();
    let told = |at: usize| requests[at].body.to_string();
    let shown = tree.display().to_string();
    assert!(
        told(1).contains(&format!("Working directory: {shown}")),
        "{}",
        told(1)
    );
    assert!(told(3).contains(&format!("two\\n{shown}")), "{}", told(3));
    let left = format!(
        "Built.\\n\\n[Its changes are in the git worktree {shown}, on worktree-1: 1 changed file.]"
    );
    assert!(told(4).contains(&left), "{}", told(4));
    // The other one found what was committed, and left nothing.
    assert!(
        told(6).contains("one") && !told(7).contains("worktree-2"),
        "{}",
        told(7)
    );
    assert!(!world.file(".ah/worktrees/2").exists());
    assert_eq!(listed(&world).as_array().unwrap().len(), 1);
}

#[test]
fn git_runs_what_a_repository_names_only_if_it_is_trusted() {
    for (trust, is_run) in [(&[][..], false), (&["--trust"], true)] {
        let world = repository();
        let project = world.project();
        world.write(".gitattributes", "* filter=x\n");
        git(&project, &["add", ".gitattributes"]);
        git(&project, &["commit", "-q", "-m", "attributes"]);
        let ran = world.file("ran");
        let runs = format!("sh -c 'touch {}; cat'", ran.display());
        for key in ["filter.x.clean", "filter.x.smudge"] {
            git(&project, &["config", key, &runs]);
        }
        let server = Server::new([says("Looked.")]);
        let words = [&["-m", "sonnet", "-w", "look"], trust, &["look around"]].concat();
        world.asking(&server, words).run().expect(0);
        assert_eq!(ran.exists(), is_run);
    }
}

#[test]
fn git_does_not_look_into_repositories_within_a_worktree() {
    let world = repository();
    let server = Server::new([says("Done.")]);
    let stays = ["-m", "sonnet", "-w", "tree", "change"];
    let project = world.project();
    git(&project, &["worktree", "add", "-q", ".ah/worktrees/tree"]);
    let tree = world.file(".ah/worktrees/tree");
    git(&tree, &["init", "-q", "lib"]);
    let within = tree.join("lib");
    std::fs::write(within.join("f"), "f").unwrap();
    std::fs::write(within.join(".gitattributes"), "* filter=x\n").unwrap();
    git(&within, &["add", "."]);
    git(&within, &["commit", "-q", "-m", "f"]);
    git(&tree, &["add", "lib"]);
    let ran = world.file("ran");
    let runs = format!("sh -c 'touch {}; cat'", ran.display());
    git(&within, &["config", "filter.x.clean", &runs]);
    std::fs::write(within.join("f"), "changed").unwrap();
    world.asking(&server, stays).run().expect(0);
    assert_eq!(listed(&world)[0]["changed_files"], 1);
    assert!(!ran.exists());
    git(&tree, &["status"]);
    assert!(ran.exists(), "the attack does not work");
}

#[test]
fn links_in_a_repository_lead_nothing_to_other_files() {
    for (name, target) in [
        ("worktrees/1.lock", "precious"),
        ("worktrees/.gitignore", "precious"),
        ("worktrees/tree", "elsewhere"),
        ("worktrees", "elsewhere"),
    ] {
        let world = repository();
        let outside = tempfile::tempdir().unwrap();
        let elsewhere = outside.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("precious"), "x").unwrap();
        let link = world.file(".ah").join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let target = match target {
            "precious" => elsewhere.join("precious"),
            _ => elsewhere.clone(),
        };
        std::os::unix::fs::symlink(target, &link).unwrap();
        let server = Server::new([says("Looked."), says("Looked.")]);
        for tree in ["", "tree"] {
            let worktree = format!("--worktree={tree}");
            let words = ["-m", "sonnet", &worktree, "look around"];
            let _ = world.asking(&server, words).run();
        }
        let files = std::fs::read_dir(&elsewhere).unwrap().count();
        assert_eq!(files, 1, "{name}");
        let precious = std::fs::read(elsewhere.join("precious")).unwrap();
        assert_eq!(precious, b"x", "{name}");
    }
}

/// Git tells its hooks which repository commits. A worktree is another one, and a command that works elsewhere as well.
#[test]
fn the_variables_of_a_hook_do_not_reach_a_worktree() {
    let world = repository();
    let project = world.project();
    let linked = world.file("../linked");
    git(
        &project,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "feature",
            &linked.display().to_string(),
        ],
    );
    let own = project.join(".git/worktrees/linked").display().to_string();
    let main = project.join(".git").display().to_string();
    let commit = "git add -A; git -c user.name=u -c user.email=u@example.com commit -qm side";
    let cases = [
        (&project, vec![("GIT_INDEX_FILE", ".git/index".to_owned())]),
        (
            &project,
            vec![("GIT_INDEX_FILE", format!("{main}/next-index-1.lock"))],
        ),
        (
            &linked,
            vec![
                ("GIT_DIR", own.clone()),
                ("GIT_INDEX_FILE", format!("{own}/index")),
            ],
        ),
    ];
    for (number, (folder, variables)) in cases.into_iter().enumerate() {
        let (before, name) = (
            git(folder, &["rev-parse", "HEAD"]),
            format!("side-{number}"),
        );
        let inside = format!("echo w > w.txt; {commit}; git branch --show-current > $HOME/branch");
        let elsewhere = format!("git init -q $HOME/new; cd $HOME/new; echo n > n.txt; {commit}");
        let calls = [inside, elsewhere].map(|line| uses("bash", json!({"command": line})));
        let [inside, elsewhere] = calls;
        world.scenario(&name, [inside, elsewhere, says("Done.")]);
        // Outside, it is no change of the repository.
        let file = world.home().join("s.json");
        std::fs::rename(world.file(&format!("{name}.json")), &file).unwrap();
        let model = format!("script:{}", file.display());
        let run = world
            .ah(["-n", "-m", &model, "-w", &name, "go"])
            .within(folder);
        let run = variables
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value));
        run.run().expect(0);
        let branch = std::fs::read_to_string(world.home().join("branch")).unwrap();
        assert_eq!(branch.trim(), format!("worktree-{name}"), "{variables:?}");
        assert_eq!(git(folder, &["rev-parse", "HEAD"]), before, "{variables:?}");
        assert_eq!(git(folder, &["status", "--porcelain"]), "", "{variables:?}");
        let new = world.home().join("new");
        assert_eq!(git(&new, &["log", "--format=%s"]), "side", "{variables:?}");
        std::fs::remove_dir_all(new).unwrap();
    }
}

/// In a hook of `git commit -a` the staged changes are in an index of their own.
#[test]
fn a_command_in_the_committing_repository_sees_its_index() {
    let world = repository();
    let project = world.project();
    world.write("code.txt", "two\n");
    let index = project.join(".git/next-index-1.lock");
    std::fs::copy(project.join(".git/index"), &index).unwrap();
    let staged = Command::new("git")
        .args(["add", "code.txt"])
        .current_dir(&project)
        .env("GIT_INDEX_FILE", &index)
        .status();
    assert!(staged.unwrap().success());
    let model = world.scenario(
        "s",
        [
            uses("bash", json!({"command": "git diff --cached --stat"})),
            uses(
                "bash",
                json!({"command": "sh -c 'git diff --cached --stat'; touch other"}),
            ),
            says("Done."),
        ],
    );
    let run = world.ah(["-n", "-m", &model, "go"]);
    run.env("GIT_INDEX_FILE", &index).run().expect(0);
    let shown = world
        .ah(["export", "--format", "jsonl"])
        .run()
        .expect(0)
        .stdout;
    let seen = shown.lines().filter(|line| line.contains("1 file changed"));
    assert_eq!(seen.count(), 1, "{shown}");
}
