//! `kill -9` in every phase: the next call resumes at the unfinished phase, and nothing happens twice.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_provider::script::format::Turn;
use ah_testkit::github::{Fault, GitHub};
use ah_testkit::script::{hangs, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::json;

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

/// All phases in order; the agent of `stopped` hangs after looking around.
fn turns(stopped: &str) -> Vec<Turn> {
    let mut all = Vec::new();
    for (phase, turns) in [
        ("plan", plans()),
        ("do", does("salvo", "greet: speaks Latin")),
        ("check", checks(NEEDS_FIXES)),
        ("fix", fixes("salve")),
        ("check again", checks(PASS)),
    ] {
        if phase == stopped {
            all.push(uses("bash", json!({"command": "ls"})));
            all.push(hangs("Let me think"));
        }
        all.extend(turns);
    }
    all
}

fn begin() -> Option<(Site, GitHub)> {
    let site = Site::new()?;
    let github = site.github();
    github.open(7, "Greet in Latin", "Please.", &["todo"]);
    Some((site, github))
}

fn check_end(site: &Site, github: &GitHub, server: &Server) {
    assert_eq!(server.refusals(), Vec::<String>::new());
    assert_eq!(site.pushed("work/7").lines().count(), 3);
    assert_eq!(github.pulls().len(), 1);
    let issue = github.issue(7);
    assert_eq!(issue.labels, ["done"]);
    // The text of the last review, and the outcome; the first review has a text too.
    assert_eq!(issue.comments.len(), 2, "{:?}", issue.comments);
    site.world.assert_nothing_runs();
}

#[test]
fn an_agent_goes_on_where_it_was_killed() {
    for (phase, requests) in [
        ("plan", 2),
        ("do", 4),
        ("check", 7),
        ("fix", 10),
        ("check again", 13),
    ] {
        let Some((site, github)) = begin() else {
            return;
        };
        let server = Server::new(turns(phase));
        let running = site.on(&github, &server, []).start();
        server.wait_until(|asked| asked.len() == requests);
        running.kill();
        let ended = site.on(&github, &server, []).run().expect(0);
        let word = phase.split(' ').next().unwrap();
        let first = format!("Continuing with #7: Greet in Latin\n{word} ...\n");
        assert!(
            ended.stderr.starts_with(&first),
            "{phase}: {}",
            ended.stderr
        );
        check_end(&site, &github, &server);
    }
}

#[test]
fn a_push_that_was_killed_happens_once() {
    let Some((site, github)) = begin() else {
        return;
    };
    let server = Server::new(turns("none"));
    // The remote blocks the push until the file exists.
    let pipe = site.world.home().join("pipe");
    let hook = site.remote().join("hooks/update");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\ncase $1 in refs/heads/*) ;; *) exit 0;; esac\necho arrived > {0}.mark\n[ -e {0} ] || exec sleep 60\n",
        pipe.display()
    );
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let running = site.on(&github, &server, []).start();
    running.wait_for_notice("push ...");
    running.kill();
    fs::write(&pipe, "").unwrap();
    let ended = site.on(&github, &server, []).run().expect(0);
    assert!(ended.stderr.contains("\npush ...\n"), "{}", ended.stderr);
    check_end(&site, &github, &server);
}

#[test]
fn what_was_done_at_the_hub_before_it_was_killed_is_not_done_again() {
    for (method, path) in [
        ("POST", "/pulls"),
        ("POST", "/issues/7/comments"),
        ("DELETE", "/labels/doing"),
    ] {
        let Some((site, github)) = begin() else {
            return;
        };
        let server = Server::new(turns("none"));
        github.fails(Fault {
            method,
            path,
            is_done: true,
            is_held: true,
            ..Fault::default()
        });
        let running = site.on(&github, &server, []).start();
        github.wait_for(method, path);
        running.kill();
        site.on(&github, &server, []).run().expect(0);
        check_end(&site, &github, &server);
    }
}

#[test]
fn an_interrupt_ends_the_agents_and_the_work_goes_on_later() {
    let Some((site, github)) = begin() else {
        return;
    };
    let server = Server::new(turns("do"));
    let running = site.on(&github, &server, []).start();
    server.wait_until(|asked| asked.len() == 4);
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    assert!(
        ended
            .stderr
            .ends_with("error: interrupted\nhint: run the same command to continue\n"),
        "{}",
        ended.stderr
    );
    site.world.assert_nothing_runs();
    site.on(&github, &server, []).run().expect(0);
    check_end(&site, &github, &server);
}

#[test]
fn commits_that_are_lost_are_made_again() {
    let Some((site, github)) = begin() else {
        return;
    };
    let turns = [
        plans(),
        does("salve", "greet: speaks Latin"),
        does("salve", "greet: speaks Latin again"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    for phase in ["plan", "do"] {
        site.on(&github, &server, [phase]).run().expect(0);
    }
    fs::remove_dir_all(site.world.home().join(".local/state/ah")).unwrap();
    site.on(&github, &server, []).run().expect(0);
    assert_eq!(
        site.pushed("work/7"),
        "greet: speaks Latin again by Ada\ngreet: the first words by Ada"
    );
}
