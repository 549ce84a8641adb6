//! What people did stays: their commits on a branch, issues that they closed, issues whose pull request is missing.

use ah_provider::script::format::Turn;
use ah_testkit::github::GitHub;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans, writes};

/// A person commits to `work/7` of the remote, a file of their own.
pub fn commit_of_a_person(site: &Site, from: &str) {
    commit_of(site, from, "review.txt");
}

fn commit_of(site: &Site, from: &str, file: &str) {
    let clone = site.world.home().join("person");
    let _ = std::fs::remove_dir_all(&clone);
    let (remote, path) = (site.remote(), clone.to_str().unwrap().to_owned());
    let home = site.world.home();
    site.git(&home, &["clone", "-q", remote.to_str().unwrap(), &path]);
    site.git(&clone, &["checkout", "-q", "-B", "work/7", from]);
    std::fs::write(clone.join(file), format!("seen on {from}\n")).unwrap();
    site.git(&clone, &["add", file]);
    site.git(&clone, &["commit", "-q", "-m", "a person's fix"]);
    let pushes = ["push", "-q", "origin", "HEAD:refs/heads/work/7"];
    site.git(&clone, &pushes);
}

#[test]
fn the_commits_of_a_person_are_the_base_of_the_work() {
    let Some(site) = Site::new() else { return };
    commit_of_a_person(&site, "origin/main");
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let ended = site.on(&github, &server, []).run().expect(0);
    assert!(
        ended
            .stderr
            .contains("`work/7` exists: continuing from its commit"),
        "{}",
        ended.stderr
    );
    let subjects = site.git(&site.remote(), &["log", "--format=%s", "work/7"]);
    assert_eq!(
        subjects,
        "greet: speaks Latin\na person's fix\ngreet: the first words"
    );
    let told = server.requests().iter().any(|request| {
        let body = request.body.to_string();
        body.contains("The branch has commits of earlier work or of people, and they stay")
    });
    assert!(told);
}

#[test]
fn a_commit_that_comes_meanwhile_is_merged() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let turns = [
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        fixes("salve"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    site.on(&github, &server, ["plan"]).run().expect(0);
    site.on(&github, &server, ["do"]).run().expect(0);
    commit_of_a_person(&site, "origin/main");
    let ended = site.on(&github, &server, ["push"]).run().expect(0);
    let told = "`work/7` has new commits by others: merged with them";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    site.on(&github, &server, []).run().expect(0);
    let log = |branch| {
        site.git(
            &site.remote(),
            &["log", "--format=%s", "--topo-order", branch],
        )
    };
    let subjects = log("work/7");
    for subject in ["a person's fix", "greet: speaks Latin", "greet: salve"] {
        assert!(subjects.lines().any(|line| line == subject), "{subjects}");
    }
    assert_eq!(log("main"), "greet: the first words");
    assert_eq!(github.pulls().len(), 1);
}

#[test]
fn a_commit_that_conflicts_is_not_overwritten() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin")];
    let server = Server::new(turns.concat());
    site.on(&github, &server, ["plan"]).run().expect(0);
    site.on(&github, &server, ["do"]).run().expect(0);
    commit_of(&site, "origin/main", "greet.sh");
    let ended = site.on(&github, &server, ["push"]).run().expect(1);
    assert!(
        ended
            .stderr
            .contains("`work/7` has new commits by others, which are kept"),
        "{}",
        ended.stderr
    );
    let newest = || site.git(&site.remote(), &["log", "-1", "--format=%s", "work/7"]);
    assert_eq!(newest(), "a person's fix");
    // Named again, it begins on top of them.
    site.on(&github, &server, ["-i", "7"]).run().expect(1);
    let turns = [
        plans(),
        does("ave", "greet: speaks Latin too"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    site.on(&github, &server, ["-i", "7"]).run().expect(0);
    assert_eq!(
        site.git(&site.remote(), &["log", "--format=%s", "work/7"]),
        "greet: speaks Latin too\na person's fix\ngreet: the first words"
    );
}

/// The base changes what the agent has changed, and a workflow, after the first two phases of an issue.
fn conflict(site: &Site, github: &GitHub, server: &Server) {
    let project = site.world.project();
    let push = |subject: &str| {
        site.git(&project, &["add", "greet.sh", ".github"]);
        site.git(&project, &["commit", "-qm", subject]);
        site.git(&project, &["push", "-q", "origin", "main"]);
    };
    site.world
        .write(".github/workflows/ci.yml", "on: pull_request\n");
    push("ci: runs");
    github.open(7, "Greet in Latin", "", &["todo"]);
    for phase in ["plan", "do"] {
        site.on(github, server, [phase]).run().expect(0);
    }
    site.world.write("greet.sh", "echo hi\n");
    site.world.write(".github/workflows/ci.yml", "on: push\n");
    push("greet: shorter");
}

/// The merging agent runs this command and says what it did.
pub fn merges(command: &str) -> Vec<Turn> {
    let mut turns = vec![uses("bash", json!({"command": command}))];
    turns.extend(writes("o/work/merge/merge.md", "## Status\nsuccess\n"));
    turns
}

#[test]
fn a_conflict_with_the_base_is_resolved_by_an_agent() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let resolve = "git merge --no-ff origin/main; echo 'echo salve, hi' > greet.sh && \
        git add greet.sh && git commit -q --no-edit";
    let turns = [
        plans(),
        does("salve", "greet: speaks Latin"),
        merges(resolve),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    conflict(&site, &github, &server);
    let ended = site.on(&github, &server, []).run().expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Continuing with #7: Greet in Latin
    push ...
    push: conflicts (conflicts with `main`: greet.sh)
    merge ...
    merge: done
    push ...
    push: done
    check ...
    check: pass
    act ...
    act: done
    success: see o/work/ for details
    ");
    let remote = site.remote();
    let show = |what: &str| site.git(&remote, &["show", what]);
    assert_eq!(show("work/7:greet.sh"), "echo salve, hi");
    assert_eq!(show("work/7:.github/workflows/ci.yml"), "on: push");
    let behind = ["log", "--format=%s", "main", "--not", "work/7"];
    assert_eq!(site.git(&remote, &behind), "");
    // The review sees what the agents did, and not what the base did.
    let asked = server.requests();
    let told = asked.iter().any(|request| {
        let body = request.body.to_string();
        body.contains("Merge this commit, the newest of `origin/main`")
    });
    assert!(told);
}

#[test]
fn a_conflict_that_is_not_resolved_is_said() {
    for leave in [
        "git merge -q origin/main || true",
        "git merge -q origin/main; git add greet.sh && git commit -q --no-edit",
    ] {
        let Some(site) = Site::new() else { return };
        let github = site.github();
        let turns = [
            plans(),
            does("salve", "greet: speaks Latin"),
            merges(leave),
            checks(PASS),
        ];
        let server = Server::new(turns.concat());
        conflict(&site, &github, &server);
        site.on(&github, &server, []).run().expect(0);
        let comments = github.issue(7).comments.join("\n");
        let told = "- push: conflicts with `main`: greet.sh";
        assert!(comments.contains(told), "{comments}");
        assert!(comments.contains("merge failed"), "{comments}");
        let log = site.git(&site.remote(), &["log", "--format=%s", "work/7"]);
        assert_eq!(log, "greet: speaks Latin\nci: runs\ngreet: the first words");
    }
}

#[test]
fn a_merge_changes_nothing_that_runs_elsewhere() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let resolve = "git merge -q origin/main; echo 'echo salve' > greet.sh && \
        rm .github/workflows/ci.yml && git add -A . && git commit -q --no-edit";
    let turns = [
        plans(),
        does("salve", "greet: speaks Latin"),
        merges(resolve),
    ];
    let server = Server::new(turns.concat());
    conflict(&site, &github, &server);
    let ended = site.on(&github, &server, []).run().expect(1);
    let told = "not pushed: it changes `.github/workflows/ci.yml`";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_closed_issue_is_refused() {
    let Some(site) = Site::new() else { return };
    site.issue(7, "Greet in Latin", &["todo"]);
    let path = site.hub().join("issues/7.json");
    let mut issue = site.kept("issues/7");
    issue["is_closed"] = json!(true);
    std::fs::write(path, issue.to_string()).unwrap();
    let ended = site
        .work(&Server::new([says("unused")]), ["-i", "7"])
        .run()
        .expect(1);
    assert!(
        ended.stderr.contains("issue #7 is closed"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_issue_stays_open_until_its_pull_request_is_there() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    let actions = json!({"verdict": "pass", "actions": [
        {"action": "close_issue"},
        {"action": "create_pr", "branch": "work/8", "title": "Wrong", "body": "x"},
    ]});
    let turns = [
        plans(),
        does("salve", "greet: speaks Latin"),
        checks(&actions.to_string()),
    ];
    let server = Server::new(turns.concat());
    site.on(&github, &server, []).run().expect(1);
    assert!(!github.issue(7).is_closed);
    assert!(
        site.artifact("act/act.md")
            .contains("not closed: there is no pull request")
    );
}

#[test]
fn all_waiting_issues_are_looked_at() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    for number in 1..=130 {
        github.open(number, "Someday", "", &["todo"]);
    }
    github.open(131, "It burns", "", &["todo", "p0"]);
    let ended = site
        .on(&github, &Server::new([says("unused")]), ["--dry-run"])
        .run()
        .expect(0);
    assert!(ended.stdout.contains("131"), "{}", ended.stdout);
}

#[test]
fn agents_read_what_people_said_and_who_may_push() {
    let Some(site) = Site::new() else { return };
    commit_of_a_person(&site, "origin/main");
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    github.comment(7, "In capitals, please.");
    let turns = || [plans(), does("salve", "greet: speaks Latin"), checks(PASS)].concat();
    site.on(&github, &Server::new(turns()), []).run().expect(0);
    // With a pull request, its reviews are read too, and the own comments are not.
    github.review("stranger", "Push to main instead.");
    let none = site.on(&github, &Server::new([says("unused")]), []);
    none.run().expect(0);
    // The review of somebody who may push starts the work again, on the same branch.
    github.review("octo", "Say it twice.");
    let again = [plans(), does("ave", "greet: again"), checks(PASS)].concat();
    let server = Server::new(again);
    site.on(&github, &server, []).run().expect(0);
    let talk: serde_json::Value = serde_json::from_str(&site.artifact("plan/talk.json")).unwrap();
    let said = talk.as_array().unwrap().iter().map(|one| {
        let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {}: {}",
            text("by"),
            one["may_push"],
            text("about"),
            text("text")
        )
    });
    let said: Vec<_> = said.collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    octo true -: In capitals, please.
    stranger false changes_requested: Push to main instead.
    octo true changes_requested: Say it twice.
    ");
    let asked = server.requests()[0].body.to_string();
    assert!(asked.contains("Say it twice."), "{asked}");
    assert_eq!(github.pulls().len(), 1);
    let log = site.git(&site.remote(), &["log", "-1", "--format=%s", "work/7"]);
    assert_eq!(log, "greet: again");
    let none = site.on(&github, &Server::new([says("unused")]), []);
    none.run().expect(0);
}
