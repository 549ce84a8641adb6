//! Faults that are not the issue's: of the provider, the hub, the remote, the machine. The issue waits again, nothing is
//! paid for twice, and no other issue is taken instead.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use ah_provider::script::format::Turn;
use ah_testkit::github::{Fault, GitHub};
use ah_testkit::script::{fails, hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::site::{PASS, Site, checks, does, plans};

fn refused() -> Turn {
    fails(401, "authentication_error")
}

fn begin() -> Option<(Site, GitHub)> {
    let site = Site::new()?;
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    github.open(8, "Greet in Greek", "", &["todo"]);
    Some((site, github))
}

/// A hook of the remote that refuses every branch.
fn freeze(site: &Site) -> PathBuf {
    let hook = site.remote().join("hooks/update");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let text = "#!/bin/sh\ncase $1 in refs/heads/*) echo the branch is frozen >&2; exit 1;; esac\n";
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    hook
}

#[test]
fn a_model_that_refuses_the_key_gives_the_issue_back() {
    let Some((site, github)) = begin() else {
        return;
    };
    let turns = [
        vec![refused()],
        plans(),
        vec![refused()],
        does("salve", "greet: speaks Latin"),
        vec![uses("bash", json!({"command": "ls"})), refused()],
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    for (phase, comments) in [("plan", 1), ("do", 2), ("check", 3)] {
        let ended = site.on(&github, &server, []).run().expect(1);
        let told = "error: the model cannot be asked: ";
        assert!(ended.stderr.contains(told), "{phase}: {}", ended.stderr);
        let issue = github.issue(7);
        assert_eq!(issue.labels, ["todo"], "{phase}");
        assert_eq!(issue.comments.len(), comments, "{issue:?}");
        let said = issue.comments.last().unwrap();
        assert!(said.contains(&format!("- Phase: {phase}\n")), "{said}");
        assert!(site.artifact("summary.json").contains("given_back"));
    }
    site.on(&github, &server, []).run().expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new());
    assert_eq!(github.issue(7).labels, ["done"]);
    assert_eq!(github.issue(8).labels, ["todo"]);
    assert_eq!(github.pulls().len(), 1);
}

/// A server that refuses every key, and ends with the test.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn nothing_is_taken_without_a_key_that_works() {
    let Some((site, github)) = begin() else {
        return;
    };
    let server = Server::new([says("unused")]);
    for (variable, value, told) in [
        (
            "ANTHROPIC_BASE_URL",
            refusing().as_str(),
            "invalid x-api-key",
        ),
        (
            "ANTHROPIC_BASE_URL",
            "http://127.0.0.1:9",
            "cannot be reached",
        ),
        ("ANTHROPIC_API_KEY", "", "key"),
    ] {
        let ended = site.on(&github, &server, []).env(variable, value).run();
        let ended = ended.expect(1);
        assert!(
            ended.stderr.contains("the model cannot be asked"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    let changes = github.exchanges();
    let changes: Vec<_> = changes.iter().filter(|one| one.method != "GET").collect();
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_remote_that_cannot_be_pushed_to_is_found_before_an_issue_is_taken() {
    let Some((site, github)) = begin() else {
        return;
    };
    let server = Server::new([says("unused")]);
    let project = site.world.project();
    let nowhere = site.world.home().join("nowhere.git");
    let nowhere = nowhere.to_str().unwrap();
    site.git(
        &project,
        &["remote", "set-url", "--push", "origin", nowhere],
    );
    let ended = site.on(&github, &server, []).run().expect(1);
    assert!(ended.stderr.contains("git push"), "{}", ended.stderr);
    assert_eq!(github.issue(7).labels, ["todo"]);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn actions_that_the_hub_refuses_are_done_later_and_once() {
    let Some((site, github)) = begin() else {
        return;
    };
    github.fails(Fault {
        method: "POST",
        path: "/pulls",
        status: 403,
        ..Fault::default()
    });
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let ended = site.on(&github, &server, []).run().expect(1);
    assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
    assert_eq!(github.issue(7).labels, ["todo"]);
    // Another machine, or this one after it has lost everything, goes on with the actions.
    fs::remove_dir_all(site.world.project().join("o")).unwrap();
    fs::remove_dir_all(site.world.home().join(".local/state/ah")).unwrap();
    let ended = site.on(&github, &server, []).run().expect(0);
    assert_eq!(
        ended.stderr,
        "Continuing with #7: Greet in Latin\nact ...\nact: done\nsuccess: see o/work/ for details\n"
    );
    let issue = github.issue(7);
    assert_eq!(
        (issue.labels, issue.comments.len()),
        (vec!["done".to_owned()], 3)
    );
    assert_eq!(github.pulls().len(), 1);
    // Nothing of it stays at the remote but the branch.
    let refs = site.git(&site.remote(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\nrefs/heads/work/7");
}

#[test]
fn a_push_that_failed_is_repeated_alone() {
    for words in [&["push"] as &[&str], &["-i", "7"], &[]] {
        let Some((site, github)) = begin() else {
            return;
        };
        let hook = freeze(&site);
        let turns = [plans(), does("salve", "greet: speaks Latin")];
        let server = Server::new(turns.concat());
        site.on(&github, &server, []).run().expect(1);
        assert_eq!(github.issue(7).labels, ["failed"]);
        // Still frozen: it is tried.
        let ended = site.on(&github, &server, ["push"]).run().expect(1);
        assert!(ended.stderr.contains("frozen"), "{}", ended.stderr);
        fs::remove_file(hook).unwrap();
        if words.is_empty() {
            github.open(7, "Greet in Latin", "", &["todo", "p0"]);
        }
        let server = Server::new(checks(PASS));
        site.on(&github, &server, words.iter().copied())
            .run()
            .expect(0);
        site.on(&github, &server, ["-i", "7"]).run().expect(0);
        assert_eq!(server.refusals(), Vec::<String>::new());
        assert!(github.issue(7).labels.contains(&"done".to_owned()));
        assert_eq!(github.pulls().len(), 1, "{words:?}");
    }
}

#[test]
fn two_clones_do_not_work_on_the_same_issue() {
    let Some((site, github)) = begin() else {
        return;
    };
    let second = site.world.home().join("second");
    let remote = site.remote();
    let paths = [remote.to_str().unwrap(), second.to_str().unwrap()];
    site.git(&site.world.home(), &["clone", "-q", paths[0], paths[1]]);
    let server = Server::new([hangs("Let me think")]);
    let running = site.on(&github, &server, []).start();
    server.wait_until(|requests| requests.len() == 1);
    // Somebody gives it the label again, although it is worked on.
    github.open(7, "Greet in Latin", "", &["todo", "p0"]);
    let other = Server::new([says("No.")]);
    let named = site.on(&github, &other, ["-i", "7"]).within(&second).run();
    let named = named.expect(75);
    let told = "issue #7 is being worked on elsewhere, until ";
    assert!(named.stderr.contains(told), "{}", named.stderr);
    assert_eq!(other.requests().len(), 0);
    let ended = site.on(&github, &other, []).within(&second).run().expect(1);
    assert!(
        ended.stderr.contains("#7 is being worked on elsewhere"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("Working on #8"), "{}", ended.stderr);
    running.kill();
}

#[test]
fn the_tree_is_set_up_once_with_hosts_of_its_own() {
    let Some((site, github)) = begin() else {
        return;
    };
    let marks = site.world.project().join("bad.json");
    fs::write(&marks, r#"{"work": {"setup": {"commands": ["exit 3"]}}}"#).unwrap();
    let server = Server::new([says("unused")]);
    let ended = site
        .on(&github, &server, ["--settings", "bad.json"])
        .run()
        .expect(1);
    let told = "error: the setup failed: `exit 3` ended with exit code 3";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(github.issue(7).labels, ["todo"]);
    let setup = r#"{"work": {"setup": {"commands": ["mkdir deps && echo here > deps/lib"]}}}"#;
    let uses_it = vec![uses(
        "bash",
        json!({"command": "cat deps/lib > greet.sh && git add -A && git commit -qm 'greet: speaks Latin'"}),
    )];
    let turns = [
        plans(),
        uses_it,
        super::site::writes("o/work/do/do.md", "x"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    site.on(&github, &server, ["--settings", setup])
        .run()
        .expect(0);
    let files = site.git(&site.remote(), &["ls-tree", "-r", "--name-only", "work/7"]);
    assert_eq!(files, "greet.sh");
    let text = site.git(&site.remote(), &["show", "work/7:greet.sh"]);
    assert_eq!(text, "here");
}
