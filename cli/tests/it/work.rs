//! `ah work` from an issue to a pull request, with real git, a real remote, GitHub on loopback, and real agents.

mod checked;
mod faults;
mod given_back;
mod hostile;
mod hubs;
mod kill;
mod matrix;
mod own_setup;
mod people;
mod projects;
mod recipes;
mod setup;
mod shape;
mod shipped;
mod site;

use ah_testkit::script::says;
use ah_testkit::server::Server;
use serde_json::{Value, json};

pub use shape::check as check_exchange;
use site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

#[test]
fn an_issue_becomes_a_branch_and_a_pull_request() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(3, "Someday", "", &[]);
    github.open(7, "Greet in Latin", "Please.", &["todo", "p1"]);
    github.open(9, "Less urgent", "", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)].concat();
    let server = Server::new(turns);
    let ended = site.on(&github, &server, []).run().expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Working on #7: Greet in Latin
    plan ...
    plan: done
    do ...
    do: done
    push ...
    push: done
    check ...
    check: pass
    act ...
    act: done
    success: see o/work/ for details
    ");
    assert_eq!(ended.stdout, "");
    assert_eq!(server.refusals(), Vec::<String>::new());
    insta::assert_snapshot!(site.pushed("work/7"), @r"
    greet: speaks Latin by Ada
    greet: the first words by Ada
    ");
    insta::assert_debug_snapshot!(github.pulls(), @r#"
    [
        Pull {
            head: "work/7",
            base: "main",
            title: "Greet in Latin",
            body: "As planned.\n\nCloses #7\n",
        },
    ]
    "#);
    let issue = github.issue(7);
    let mark = regex::Regex::new("work [0-9a-f]{16} ").unwrap();
    let said = issue.comments.join("\n----\n");
    let varying = regex::Regex::new(r"- (Cost|Pull request): (\S).*").unwrap();
    let said = varying.replace_all(&said, "- $1: $2…");
    insta::assert_snapshot!(mark.replace_all(&said, "work <mark> "), @r"
    It greets in Latin now.

    <!-- ah work <mark> -->
    ----
    **ah work: success**

    - Branch: `work/7`
    - Phases: plan done → do done → push done → check pass → act done
    - Cost: $…
    - Pull request: h…

    ### Verdict

    as it says

    <!-- ah work <mark> -->
    ");
    assert_eq!(issue.labels, ["p1", "done"]);
    assert_eq!(github.issue(9).labels, ["todo"]);
    // The checkout is unchanged: no changes, no new branch, nothing untracked.
    assert_eq!(site.world.text("greet.sh"), "echo hello\n");
    let project = site.world.project();
    assert_eq!(site.git(&project, &["status", "--porcelain"]), "");
    assert_eq!(
        site.git(&project, &["branch", "--format=%(refname:short)"]),
        "main"
    );
    // A finished issue is not worked on again.
    site.on(&github, &server, ["-i", "7"]).run().expect(0);
    assert_eq!(github.issue(7), issue);
    let idle = site.on(&github, &server, []).run();
    assert!(idle.stderr.contains("Working on #9"), "{}", idle.stderr);
}

#[test]
fn a_review_that_asks_for_more_is_answered_twice() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "Please.", &["todo"]);
    let turns = [
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        fixes("salva"),
        checks(NEEDS_FIXES),
        fixes("salve"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    let ended = site.on(&github, &server, []).run().expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Working on #7: Greet in Latin
    plan ...
    plan: done
    do ...
    do: done
    push ...
    push: done
    check ...
    check: needs-fixes
    fix ...
    fix: done
    push ...
    push: done
    check ...
    check: needs-fixes
    fix ...
    fix: done
    push ...
    push: done
    check ...
    check: pass
    act ...
    act: done
    success: see o/work/ for details
    ");
    assert_eq!(site.pushed("work/7").lines().count(), 4);
    assert_eq!(github.pulls().len(), 1);
    // The fixing agent gets the review and cannot change it.
    let told = server.requests();
    let told = told.iter().find(|request| {
        request
            .body
            .to_string()
            .contains("Your folder is `o/work/fix/`")
    });
    assert!(told.unwrap().body.to_string().contains("as it says"));
}

#[test]
fn convergence_does_it_again_with_the_review_as_feedback() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "Please.", &["todo"]);
    let turns = [
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        does("salve", "greet: speaks better Latin"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    let ended = site
        .on(&github, &server, ["--converge", "3"])
        .run()
        .expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Working on #7: Greet in Latin
    plan ...
    plan: done
    do ...
    do: done
    push ...
    push: done
    check ...
    check: needs-fixes
    do ...
    do: done
    push ...
    push: done
    check ...
    check: pass
    act ...
    act: done
    success: see o/work/ for details
    ");
    assert_eq!(site.artifact("do/feedback.md"), "## Verdict\nas it says\n");
    assert_eq!(site.pushed("work/7").lines().count(), 3);
}

#[test]
fn phases_one_by_one_do_nothing_twice() {
    let Some(site) = Site::new() else { return };
    site.issue(7, "Greet in Latin", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let early = site.work(&server, ["do"]).run().expect(1);
    insta::assert_snapshot!(early.stderr, @r"
    error: cannot run the phase do: no work was started
    hint: run `ah work plan`, or `ah work` for all phases
    ");
    for phase in ["plan", "do", "push", "check", "act"] {
        site.work(&server, [phase]).run().expect(0);
        site.work(&server, [phase]).run().expect(0);
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let status = site.work(&server, ["status"]).run().expect(0);
    let varying = regex::Regex::new(r"(?m)^(cost \$|pull request /).*").unwrap();
    insta::assert_snapshot!(varying.replace_all(&status.stdout, "$1…"), @r"
    #7 Greet in Latin
    branch work/7 for main
      plan: done
      do: done
      push: done
      check: pass
      act: done
    cost $…
    pull request /…
    success
    ");
    assert_eq!(site.kept("issues/7")["labels"], json!(["done"]));
    // If the user edits the plan, the later phases run again, and the earlier ones do not.
    let plan = site
        .artifact("plan/plan.md")
        .replace("Latin", "better Latin");
    site.world.write("o/work/plan/plan.md", plan);
    let turns = [does("ave", "greet: speaks better Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let ended = site.work(&server, ["do"]).run().expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Continuing with #7: Greet in Latin
    do ...
    do: done
    done: see o/work/
    ");
    site.work(&server, ["-i", "7"]).run().expect(0);
    insta::assert_snapshot!(site.pushed("work/7"), @r"
    greet: speaks better Latin by Ada
    greet: the first words by Ada
    ");
}

#[test]
fn nothing_is_begun_where_there_is_nothing_or_too_much() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let server = Server::new([says("unused")]);
    let summary = || -> Value { serde_json::from_str(&site.artifact("summary.json")).unwrap() };
    let idle = site.on(&github, &server, []).run().expect(0);
    assert_eq!(idle.stderr, "No open issue with label `todo`.\n");
    assert_eq!(summary()["status"], "no_issues");
    github.open(7, "Greet in Latin", "", &["todo"]);
    github.open_pulls(5);
    github.with_pages_of(2);
    let dry = site.on(&github, &server, ["--dry-run"]).run().expect(0);
    assert_eq!(dry.stdout, "pr_limit\n");
    let full = site.on(&github, &server, []).run().expect(0);
    assert_eq!(
        full.stderr,
        "More than 4 pull requests are open; no new work is started.\n"
    );
    assert_eq!(summary()["status"], "pr_limit");
    assert_eq!(github.issue(7).labels, ["todo"]);
    let dry = site
        .on(&github, &server, ["--dry-run", "--max-prs", "5"])
        .run()
        .expect(0);
    assert_eq!(dry.stdout, "#7 Greet in Latin\n");
    assert_eq!(server.requests().len(), 0);
}
