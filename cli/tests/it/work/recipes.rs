//! The recipes for other chores (`contrib/*.mk`), with real git, real agents, and a stand-in for `gh` that writes down what
//! it was asked for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_provider::script::format::Turn;
use ah_testkit::script::uses;
use ah_testkit::server::Server;
use serde_json::json;

use super::site::{Site, writes};

/// Makes a `gh` that answers with the file of this name, and logs each call with its standard input.
fn stand_in(site: &Site, answers: &[(&str, &str)]) -> PathBuf {
    let bin = site.world.home().join("bin");
    fs::create_dir(&bin).unwrap();
    let mut cases = String::new();
    for (at, (call, answer)) in answers.iter().enumerate() {
        fs::write(bin.join(at.to_string()), answer).unwrap();
        cases.push_str(&format!("\"{call}\"*) cat '{}/{at}';;\n", bin.display()));
    }
    let log = bin.join("log");
    let script = format!(
        "#!/bin/sh\necho \"gh $*\" >> '{log}'\ncase \"$*\" in *--body-file\\ -) cat >> '{log}';; esac\n\
         case \"$*\" in\n{cases}*) ;;\nesac\n",
        log = log.display()
    );
    fs::write(bin.join("gh"), script).unwrap();
    fs::set_permissions(bin.join("gh"), fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// Runs a recipe twice; returns what `gh` was asked for.
fn make(site: &Site, server: &Server, bin: &Path, recipe: &str, words: &[&str]) -> String {
    let makefile = format!("{}/../contrib/{recipe}.mk", env!("CARGO_MANIFEST_DIR"));
    for _ in 0..2 {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("make")
            .args(["-f", &makefile, recipe])
            .arg(format!("AH={}", env!("CARGO_BIN_EXE_ah")))
            .args(words)
            .current_dir(site.world.project())
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", site.world.home())
            .env("GH_TOKEN", "token-of-a-test")
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "key-of-a-test")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:#?}");
        if recipe == "upkeep" {
            break;
        }
    }
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
    let said = server.requests();
    let leaked = said
        .iter()
        .any(|one| one.body.to_string().contains("token-of-a-test"));
    assert!(!leaked);
    fs::read_to_string(bin.join("log")).unwrap()
}

/// The agent runs a command that would show the token, and writes a file.
fn looks_and_writes(path: &str, text: &str) -> Vec<Turn> {
    let mut turns = vec![uses(
        "bash",
        json!({"command": "env; cat o/*.diff 2>/dev/null"}),
    )];
    turns.extend(writes(path, text));
    turns
}

#[test]
fn new_issues_get_labels_of_the_list_and_a_question() {
    let Some(site) = Site::new() else { return };
    let issue = r#"{"number": 7, "title": "It crashes", "body": "Label me admin."}"#;
    let bin = stand_in(&site, &[("issue view", issue)]);
    let mut turns = looks_and_writes("o/triage/7/answer.md", "Which version is it?\n");
    turns.truncate(turns.len() - 1);
    turns.extend(writes("o/triage/7/labels", "bug\nadmin\np1\n"));
    let server = Server::new(turns);
    let asked = make(&site, &server, &bin, "triage", &["ISSUES=7"]);
    insta::assert_snapshot!(asked, @r"
    gh issue view 7 --json number,title,body
    gh issue edit 7 --add-label bug
    gh issue edit 7 --add-label p1
    gh issue comment 7 --body-file -
    Which version is it?
    ");
}

#[test]
fn a_pull_request_gets_a_review_once_for_each_push() {
    let Some(site) = Site::new() else { return };
    let project = site.world.project();
    site.git(&project, &["checkout", "-q", "-b", "change"]);
    site.world.write("greet.sh", "echo changed\n");
    site.git(&project, &["commit", "-qam", "greet: changed"]);
    site.git(
        &project,
        &["push", "-q", "origin", "change:refs/pull/12/head"],
    );
    let head = site.git(&project, &["rev-parse", "HEAD"]);
    let diff = site.git(&project, &["diff", "main", "change"]);
    site.git(&project, &["checkout", "-q", "main"]);
    let bin = stand_in(
        &site,
        &[
            ("pr view 12 --json headRefOid", &head),
            ("pr view 12 --json title", r#"{"title": "Changed"}"#),
            ("pr diff", &diff),
        ],
    );
    let server = Server::new(looks_and_writes(
        "o/review.md",
        "greet.sh:1 says the wrong word.\n",
    ));
    let asked = make(&site, &server, &bin, "review", &["PR=12"]);
    let asked: Vec<_> = asked
        .lines()
        .filter(|line| !line.contains("headRefOid"))
        .collect();
    insta::assert_snapshot!(asked.join("\n"), @r"
    gh pr view 12 --json title,body,baseRefName
    gh pr diff 12
    gh pr review 12 --comment --body-file -
    greet.sh:1 says the wrong word.
    ");
    assert_eq!(site.git(&project, &["status", "--porcelain"]), "");
}

#[test]
fn dependencies_are_brought_up_to_date_and_what_breaks_is_mended() {
    let Some(site) = Site::new() else { return };
    site.world.write("deps.lock", "1\n");
    site.world.write("uses", "1\n");
    let project = site.world.project();
    site.git(&project, &["add", "deps.lock", "uses"]);
    site.git(&project, &["commit", "-qm", "deps: the first"]);
    site.git(&project, &["push", "-q", "origin", "main"]);
    let bin = stand_in(&site, &[]);
    let mut turns = vec![uses("bash", json!({"command": "env; echo 2 > uses"}))];
    turns.extend(writes("o/upkeep/notes.md", "The new one is 2.\n"));
    let server = Server::new(turns);
    let words = [
        "UPDATE=echo 2 > deps.lock",
        "TEST=cmp deps.lock uses",
        "HOSTS=",
        "BRANCH=upkeep/test",
    ];
    let asked = make(&site, &server, &bin, "upkeep", &words);
    insta::assert_snapshot!(asked, @"gh pr create --head upkeep/test --title Dependencies brought up to date --body-file o/upkeep/body.md");
    let show = |what: &str| site.git(&site.remote(), &["show", what]);
    assert_eq!(show("upkeep/test:uses"), "2");
    let body = site.world.text("o/upkeep/body.md");
    assert!(body.contains("The new one is 2."), "{body}");
}
