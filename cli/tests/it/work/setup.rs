//! The tree that agents work in: what a setup makes, submodules, and files of Git LFS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::site::{NEEDS_FIXES, PASS, Site, changes, checks, fixes, plans};

/// The reviewing agent runs this command first.
fn runs(command: &str, actions: &str) -> Vec<Turn> {
    let mut turns = vec![uses("bash", json!({"command": command}))];
    turns.extend(checks(actions));
    turns
}

/// Returns whether a tool of an agent has said this.
pub fn was_said(server: &Server, text: &str) -> bool {
    let asked = server.requests();
    asked.iter().any(|request| {
        let results = request.body["messages"].as_array().into_iter().flatten();
        let mut results = results.filter(|message| message["role"] == "user");
        results.any(|message| {
            let content = message["content"].as_array().into_iter().flatten();
            let mut results = content.filter(|block| block["type"] == "tool_result");
            results.any(|block| block.to_string().contains(text))
        })
    })
}

#[test]
fn what_a_setup_has_made_is_used_again_and_no_agent_changes_it() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    site.world.write("deps.lock", "1\n");
    let project = site.world.project();
    let push = |subject: &str| {
        site.git(&project, &["add", "deps.lock"]);
        site.git(&project, &["commit", "-qm", subject]);
        site.git(&project, &["push", "-q", "origin", "main"]);
    };
    push("deps: the first");
    let make = "mkdir deps && cat /proc/sys/kernel/random/uuid > deps/lib && pwd > deps/place";
    let setup = json!({"work": {"setup": {"commands": [make], "files": ["deps.lock"]}}});
    let setup = setup.to_string();
    let mut made = Vec::new();
    for number in [7, 8, 9] {
        if number == 9 {
            site.world.write("deps.lock", "2\n");
            push("deps: the second");
        }
        github.open(number, "Greet in Latin", "", &["todo"]);
        let spoil = format!(
            "cp deps/lib first && echo evil > deps/lib && echo 'echo {number}' > greet.sh && \
             git commit -qam 'greet: {number}'"
        );
        let pass = PASS.replace("work/7", &format!("work/{number}"));
        let turns = [
            plans(),
            changes("do", &spoil),
            runs("cmp first deps/lib && echo same as first", &pass),
        ];
        let mut turns = turns.concat();
        for turn in &mut turns {
            let text = serde_json::to_string(turn).unwrap();
            let text = text.replace("Branch: work/7", &format!("Branch: work/{number}"));
            *turn = serde_json::from_str(&text).unwrap();
        }
        let server = Server::new(turns);
        let words = ["--settings", &setup];
        site.on(&github, &server, words).run().expect(0);
        assert!(was_said(&server, "same as first"), "{number}");
        let state = site.world.home().join(".local/state/ah/work");
        let mut trees = fs::read_dir(state)
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let tree = trees.find(|path| path.join("issue/tree").is_dir()).unwrap();
        let tree = tree.join("issue/tree");
        made.push(fs::read_to_string(tree.join("deps/lib")).unwrap());
        // Its path is the same for all issues, since what was made may name it.
        let place = fs::read_to_string(tree.join("deps/place")).unwrap();
        assert_eq!(place.trim_end(), tree.to_str().unwrap());
    }
    assert_eq!(made[0], made[1], "made once for two issues");
    assert_ne!(made[1], made[2], "made anew for other dependencies");
}

#[test]
fn submodules_are_filled_in() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let home = site.world.home();
    let config = fs::read_to_string(home.join(".gitconfig")).unwrap();
    let allowed = "[protocol \"file\"]\n\tallow = always\n";
    fs::write(home.join(".gitconfig"), config + allowed).unwrap();
    let library = home.join("library");
    site.git(&home, &["init", "-q", "library"]);
    fs::write(library.join("words"), "salve\n").unwrap();
    site.git(&library, &["add", "words"]);
    site.git(&library, &["commit", "-qm", "words"]);
    site.git(&home, &["clone", "-q", "--bare", "library", "library.git"]);
    let project = site.world.project();
    // As most projects name their neighbours.
    let add = [
        "submodule",
        "--quiet",
        "add",
        "../library.git",
        "vendor/words",
    ];
    site.git(&project, &add);
    site.git(&project, &["commit", "-qm", "words: a library"]);
    site.git(&project, &["push", "-q", "origin", "main"]);
    github.open(7, "Greet in Latin", "", &["todo"]);
    let copy = "cp vendor/words/words greet.sh && git commit -qam 'greet: speaks Latin'";
    let turns = [
        plans(),
        changes("do", copy),
        runs("cat vendor/words/words", NEEDS_FIXES),
        fixes("salve, salve"),
        runs("git submodule status", PASS),
    ];
    let server = Server::new(turns.concat());
    let setup = r#"{"work": {"setup": {"submodules": true}}}"#;
    let words = ["--settings", setup];
    site.on(&github, &server, words).run().expect(0);
    let show = |what: &str| site.git(&site.remote(), &["show", what]);
    assert_eq!(show("work/7~1:greet.sh"), "salve");
    let entry = site.git(&site.remote(), &["ls-tree", "work/7", "vendor/words"]);
    assert!(entry.starts_with("160000 commit"), "{entry}");
}

#[test]
fn large_files_are_filled_in_with_the_access_of_the_user() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let home = site.world.home();
    // Stands in for Git LFS, and says what it was called with.
    let bin = home.join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join("git-lfs");
    let log = home.join("lfs.log");
    let script = format!(
        "#!/bin/sh\necho \"$* token=${{GH_TOKEN:+set}} origin=$(git config remote.origin.url)\" >> '{}'\n\
         case $1 in\n\
         install) git config filter.lfs.smudge 'cat > /dev/null; echo content'\n\
         git config filter.lfs.clean 'cat > /dev/null; echo a pointer';;\n\
         pull) rm big.bin && git checkout -q -- big.bin;;\nesac\n",
        log.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.world.write("big.bin", "a pointer\n");
    site.world.write(".gitattributes", "*.bin filter=lfs\n");
    let project = site.world.project();
    site.git(&project, &["add", "big.bin", ".gitattributes"]);
    site.git(&project, &["commit", "-qm", "a large file"]);
    site.git(&project, &["push", "-q", "origin", "main"]);
    github.open(7, "Greet in Latin", "", &["todo"]);
    let turns = [
        plans(),
        changes(
            "do",
            "cat big.bin > greet.sh && git add greet.sh && git commit -qm 'greet: speaks Latin'",
        ),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    let path = std::env::var("PATH").unwrap();
    let setup = r#"{"work": {"setup": {"lfs": true}}}"#;
    let words = ["--settings", setup];
    let work = site.on(&github, &server, words);
    work.env("PATH", format!("{}:{path}", bin.display()))
        .run()
        .expect(0);
    let calls = fs::read_to_string(log).unwrap();
    let origin = site.remote();
    let expected = format!(
        "install --local token=set origin=\npull token=set origin={}\n",
        origin.display()
    );
    assert_eq!(calls, expected);
    let show = |what: &str| site.git(&origin, &["show", what]);
    assert_eq!(show("work/7:greet.sh"), "content");
    assert_eq!(show("work/7:big.bin"), "a pointer");
}

#[test]
fn init_proposes_what_the_project_says_of_itself() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let steps = "jobs:\n  copilot-setup-steps:\n    steps:\n      - run: npm ci\n      - run: sudo apt-get install -y gcc\n";
    site.world
        .write(".github/workflows/copilot-setup-steps.yml", steps);
    site.world.write("package-lock.json", "{}");
    let server = Server::new([says("unused")]);
    let ended = site.on(&github, &server, ["init"]).run().expect(0);
    let proposed = ended.stderr.split("The agents have no network.").nth(1);
    insta::assert_snapshot!(proposed.unwrap(), @r#"
     What the project depends on, as .github/workflows/copilot-setup-steps.yml says, is fetched before. To change that, edit this in your settings, or in those of a trusted project:
    {
      "work": {
        "setup": {
          "commands": [
            "npm ci"
          ],
          "files": [
            ".github/workflows/copilot-setup-steps.yml",
            "package-lock.json"
          ],
          "allowHosts": [
            "registry.npmjs.org:443"
          ]
        }
      }
    }
    Left out, since the sandbox cannot run it: sudo apt-get install -y gcc
    "#);
}
