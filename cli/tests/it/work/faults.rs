//! Failures during the work, and how they are handled.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::github::{Fault, TOKEN};
use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::site::{PASS, Site, checks, does, plans, writes};

/// The summary's status, and each phase with its outcome.
fn summary(site: &Site) -> String {
    let summary: Value = serde_json::from_str(&site.artifact("summary.json")).unwrap();
    let phases = summary["phases"].as_array().unwrap().iter().map(|phase| {
        let text = |key: &str| phase[key].as_str().unwrap().to_owned();
        let line = format!("{} {} {}", text("phase"), text("outcome"), text("note"));
        line.trim_end().to_owned()
    });
    let lines: Vec<_> = std::iter::once(summary["status"].as_str().unwrap().to_owned())
        .chain(phases)
        .collect();
    lines.join("\n")
}

#[test]
fn an_issue_that_cannot_be_planned_is_told_why() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "It is slow", "", &["todo"]);
    let mut turns = writes(
        "o/work/plan/update.md",
        "What is slow? Please name a command.",
    );
    turns.push(says("There is no goal, so there is no plan."));
    let server = Server::new(turns);
    site.on(&github, &server, []).run().expect(1);
    insta::assert_snapshot!(summary(&site), @r"
    plan_failed
    plan bailed the agent gives the reason in plan/update.md
    ");
    let issue = github.issue(7);
    assert_eq!(issue.labels, ["failed"]);
    assert!(
        issue.comments[0].contains("Please name a command."),
        "{issue:?}"
    );
    // A maintainer puts the label back, and it starts again.
    github.open(7, "ls is slow", "", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    site.on(&github, &server, []).run().expect(0);
}

#[test]
fn what_was_committed_before_the_end_of_the_time_is_reviewed() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let commit = "echo 'echo salve' > greet.sh && git commit -q -am 'greet: speaks Latin'";
    let broken = vec![
        uses("bash", json!({"command": commit})),
        hangs("And now the tests"),
    ];
    site.world.write(
        "settings.json",
        r#"{"work": {"phases": {"do": {"timeout": 4}}}}"#,
    );
    let server = Server::new([plans(), broken, checks(PASS)].concat());
    site.on(&github, &server, ["--settings", "settings.json"])
        .run()
        .expect(0);
    insta::assert_snapshot!(summary(&site), @r"
    success
    plan done
    do partial the agent reached a limit, after a commit
    push done
    check pass
    act done
    ");
}

#[test]
fn an_agent_that_crashes_begins_again() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let turns = [
        plans(),
        does("salve", "greet: speaks Latin"),
        vec![hangs("I look")],
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    let running = site.on(&github, &server, []).start();
    server.wait_until(|requests| requests.len() == 6);
    let processes = site.world.processes();
    let agent = processes
        .iter()
        .find(|(_, line)| line.contains("--skill check"));
    kill_process(agent.unwrap().0, Signal::ABORT).unwrap();
    let ended = running.wait().expect(0);
    assert!(
        ended.stderr.contains("warning: check crashed; retrying"),
        "{}",
        ended.stderr
    );
    assert_eq!(github.pulls().len(), 1);
}

#[test]
fn a_push_that_is_refused_is_said_at_the_issue() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let hook = site.remote().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho the branch is frozen >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::new([plans(), does("salve", "greet: speaks Latin")].concat());
    site.on(&github, &server, []).run().expect(1);
    let text = summary(&site);
    assert!(
        text.contains("push failed") && text.contains("the branch is frozen"),
        "{text}"
    );
    let issue = github.issue(7);
    assert_eq!(issue.labels, ["failed"]);
    assert!(
        issue.comments[0].contains("the branch is frozen"),
        "{issue:?}"
    );
    assert_eq!(github.pulls(), []);
}

#[test]
fn a_hub_that_falters_is_asked_again_and_nothing_is_done_twice() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let at_once = || vec![("retry-after", "0".to_owned())];
    for (method, path, status, headers, is_done) in [
        ("GET", "/issues", 502, at_once(), false),
        ("POST", "/issues/7/labels", 403, at_once(), false),
        ("POST", "/pulls", 502, at_once(), true),
        ("POST", "/issues/7/comments", 503, at_once(), true),
        ("DELETE", "/labels/doing", 504, at_once(), true),
    ] {
        github.fails(Fault {
            method,
            path,
            status,
            headers,
            is_done,
            ..Fault::default()
        });
    }
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    site.on(&github, &server, []).run().expect(0);
    assert_eq!(github.pulls().len(), 1);
    let issue = github.issue(7);
    assert_eq!(
        (issue.comments.len(), issue.labels.len()),
        (2, 1),
        "{issue:?}"
    );
}

#[test]
fn a_limit_that_lasts_is_said_and_the_work_goes_on_later() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let in_an_hour = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 3_600;
    github.fails(Fault {
        method: "POST",
        path: "/issues/7/labels",
        status: 403,
        headers: vec![
            ("x-ratelimit-remaining", "0".to_owned()),
            ("x-ratelimit-reset", in_an_hour.to_string()),
        ],
        ..Fault::default()
    });
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let settings = r#"{"work": {"hubWait": 1800}}"#;
    let words = ["--settings", settings];
    let ended = site.on(&github, &server, words).run().expect(1);
    assert!(
        ended.stderr.contains("hint: rate limit exceeded"),
        "{}",
        ended.stderr
    );
    let ended = site.on(&github, &server, []).run().expect(0);
    assert!(
        ended.stderr.starts_with("Continuing with #7"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_token_that_is_none_is_said() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let server = Server::new([says("unused")]);
    let without = site
        .on(&github, &server, [])
        .env("GH_TOKEN", "")
        .run()
        .expect(1);
    assert!(
        without.stderr.contains("error: no token for GitHub"),
        "{}",
        without.stderr
    );
    let wrong = site
        .on(&github, &server, [])
        .env("GH_TOKEN", "wrong")
        .run()
        .expect(1);
    assert!(
        wrong.stderr.contains("401 Unauthorized: Bad credentials"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn what_ran_out_of_time_goes_on_when_it_is_named() {
    let Some(site) = Site::new() else { return };
    site.world
        .write(".ah/work/prompts/latin.md", "Greet in Latin.");
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    for number in 1..=6 {
        site.issue(number, "Some day", &[]);
    }
    let words = ["-p", "latin", "--settings", r#"{"work": {"deadline": 0}}"#];
    let ended = site.work(&server, words).run().expect(1);
    let note = "time limit reached before plan; continue with `ah work -i 7`";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    let issue = site.kept("issues/7");
    assert_eq!(
        (&issue["title"], &issue["labels"]),
        (&json!("work: latin"), &json!(["failed"]))
    );
    assert!(issue["comments"][0].as_str().unwrap().contains(note));
    assert_eq!(server.requests().len(), 0);
    site.work(&server, ["-i", "7"]).run().expect(0);
    assert_eq!(site.kept("issues/7")["labels"], json!(["done"]));
}

#[test]
fn the_program_gh_may_hold_the_token() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let server = Server::new([says("unused")]);
    let bin = site.world.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let text = format!("#!/bin/sh\n[ \"$1 $2\" = 'auth token' ] && echo {TOKEN}\n");
    fs::write(bin.join("gh"), text).unwrap();
    fs::set_permissions(bin.join("gh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let ah = site.on(&github, &server, ["--dry-run"]).env("GH_TOKEN", "");
    let ended = ah
        .env("PATH", format!("{}:{path}", bin.display()))
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "no_issues\n");
}
