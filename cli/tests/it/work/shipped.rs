//! Files shipped with `ah work`: prompts of the phases, makefile, demo, workflow, benchmark.

use std::fs;
use std::path::Path;
use std::process::Command;

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use ah_work::phase::Phase;
use ah_work::verdict::Verdict;
use serde_json::{Value, json};

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, plans};
use crate::support::binary::World;

#[test]
fn the_words_of_the_phases_are_those_that_are_promised() {
    let world = World::new();
    world.ah(["extract", "--builtin", "out"]).run().expect(0);
    let page = include_str!("../../../../docs/work.md");
    for (phase, headings) in [
        (
            "plan",
            "Context, Goal, Files to Modify, Approach, Risks, Target, Commit, Validation",
        ),
        ("do", "Changes, Commit, Status, Notes"),
        ("check", "Plan compliance, Validation, Issues, Verdict"),
        ("fix", "Changes, Commit, Status, Notes"),
        ("merge", "Conflicts, Validation, Status"),
        ("pr", "URL, Conflicts, Checks, Notes"),
    ] {
        let skill = world.text(&format!("out/skills/{phase}.md"));
        for heading in headings.split(", ") {
            assert!(
                skill.contains(&format!("**{heading}**")),
                "{phase}: {heading}"
            );
        }
    }
    for phase in Phase::ALL {
        for file in phase.leaves() {
            // The page need not list this file, which an agent writes only to explain itself.
            let path = format!("`{phase}/{file}`");
            assert!(page.contains(&path) || path == "`fix/update.md`", "{path}");
        }
    }
    for verdict in [Verdict::Pass, Verdict::NeedsFixes, Verdict::Fail] {
        assert!(page.contains(&format!("`{}`", verdict.as_str())));
    }
}

#[test]
fn make_goes_round_until_the_review_passes() {
    let Some(site) = Site::new() else { return };
    let makefile = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/work.mk");
    assert!(fs::read_to_string(makefile).unwrap().lines().count() <= 40);
    site.issue(7, "Greet in Latin", &["todo"]);
    let turns = [
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        does("salve", "greet: speaks better Latin"),
        checks(PASS),
    ];
    let server = Server::new(turns.concat());
    let ah = env!("CARGO_BIN_EXE_ah");
    let make = || {
        let flags = format!("FLAGS=--hub {}", site.hub().display());
        let output = Command::new("make")
            .args(["-f", makefile, "work", &format!("AH={ah}"), &flags])
            .current_dir(site.world.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", site.world.home())
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "key-of-a-test")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    make();
    assert_eq!(site.pushed("work/7").lines().count(), 3);
    assert_eq!(site.kept("issues/7")["labels"], json!(["done"]));
    let asked = server.requests().len();
    make();
    assert_eq!(server.requests().len(), asked, "nothing is done twice");
}

#[test]
fn the_demo_of_the_work_needs_no_network() {
    if crate::sandbox::is_missing() {
        return;
    }
    let world = World::new();
    let ended = world.ah(["demo", "work"]).run().expect(0);
    let folder = ended
        .stderr
        .split("are open in ")
        .nth(1)
        .unwrap()
        .split(". The model")
        .next()
        .unwrap();
    let shown = ended
        .stderr
        .replace(folder, "<folder>")
        .replace(env!("CARGO_BIN_EXE_ah"), "<ah>");
    insta::assert_snapshot!(shown, @r"
    Three issues are open in <folder>. The model is scripted and GitHub is a folder; everything else is real.

    Working on #7: Names of two words are greeted as two people
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

    Everything is kept. To explore it:
      cd <folder>/project
      <ah> work status                      the result of each phase
      cat o/work/plan/plan.md               what was planned; do/do.md, check/check.md likewise
      git show origin/work/7                what was done
      cat ../hub/pulls/1.json               the pull request
      cat ../hub/issues/7.json              the issue, with its labels and comments
      <ah> --db o/work/do/session.db scan   what the agent said and did
    ");
    let pull = fs::read_to_string(Path::new(folder).join("hub/pulls/1.json")).unwrap();
    let pull: Value = serde_json::from_str(&pull).unwrap();
    assert_eq!(pull["branch"], "work/7");
    assert!(pull["body"].as_str().unwrap().ends_with("Closes #7\n"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn init_writes_the_workflow_and_makes_the_labels() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    let server = Server::new([says("unused")]);
    let shown = site
        .on(&github, &server, ["init", "--dry-run"])
        .run()
        .expect(0);
    site.world.write("package-lock.json", "{}");
    let done = site.on(&github, &server, ["init"]).run().expect(0);
    assert!(done.stderr.contains("\"npm ci\""), "{}", done.stderr);
    assert_eq!(site.world.text(".github/workflows/ah.yml"), shown.stdout);
    site.on(&github, &server, ["init"]).run().expect(0);
    let made = github
        .exchanges()
        .into_iter()
        .filter(|one| one.status == 201);
    let made: Vec<_> = made
        .map(|one| one.sent["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made, ["todo", "doing", "done", "failed", "friction"]);
    site.world.write(".github/workflows/ah.yml", "another");
    site.on(&github, &server, ["init"]).run().expect(1);
    assert_eq!(site.world.text(".github/workflows/ah.yml"), "another");
    // What others publish is named by its digest.
    for line in shown.stdout.lines().filter(|line| line.contains("uses:")) {
        let digest = line
            .split('@')
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        assert!(digest.is_some_and(|digest| digest.len() == 40), "{line}");
    }
    // A comment of somebody who may not push starts nothing.
    let ah = site
        .on(&github, &server, [])
        .env("GITHUB_EVENT_NAME", "issue_comment");
    let ended = ah.env("GITHUB_ACTOR", "stranger").run().expect(1);
    assert!(
        ended.stderr.contains("`stranger` may not push"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_workflow_names_the_program_by_its_digest() {
    let Some(site) = Site::new() else { return };
    let server = Server::new([says("unused")]);
    let shown = |document| {
        let url = crate::models::answering("200 OK", document);
        let ah = site.work(&server, ["init", "--dry-run"]);
        ah.env("GITHUB_API_URL", url).run().expect(0).stdout
    };
    let known = shown(
        r#"{"tag_name": "v0.1.0", "assets": [{"name": "SHA256SUMS", "digest": null},
            {"name": "ah-0.1.0-x86_64-unknown-linux-musl.tar.gz",
             "digest": "sha256:abababababababababababababababababababababababababababababababab"}]}"#,
    );
    assert!(known.contains(
        "\n      AH_SHA256: abababababababababababababababababababababababababababababababab\n"
    ));
    // What is no digest does not get into a workflow.
    let hostile = shown(
        r#"{"tag_name": "v0.1.0", "assets": [{"name": "ah-0.1.0-x86_64-unknown-linux-musl.tar.gz",
             "digest": "sha256:x\n      EVIL: y"}]}"#,
    );
    assert!(hostile.contains("\n      AH_SHA256: \"\"\n") && !hostile.contains("EVIL"));
}

#[test]
fn a_change_stays_only_if_the_number_gets_smaller() {
    let Some(site) = Site::new() else { return };
    let project = site.world.project();
    site.world.write("size", "10\n");
    site.git(&project, &["add", "size"]);
    site.git(&project, &["commit", "-q", "-m", "size: ten"]);
    let writes = |text: &str| {
        vec![
            uses("write", json!({"path": "size", "content": text})),
            uses("write", json!({"path": "more", "content": "x"})),
            says("Smaller."),
        ]
    };
    let turns = [
        writes("8\n"),
        writes("9\n"),
        writes("nothing\n"),
        vec![
            uses("bash", json!({"command": "echo 1 > size"})),
            says("No."),
        ],
    ];
    let server = Server::new(turns.concat());
    let work = |words: &[&str]| {
        let words = ["work"].iter().chain(words).copied();
        site.world.asking(&server, words).run()
    };
    work(&["run"]).expect(1);
    let begun = work(&[
        "start",
        "echo measuring >&2; cat size",
        "make",
        "it",
        "smaller",
    ])
    .expect(0);
    assert_eq!(begun.stdout, "baseline 10\n");
    site.world.write("own", "mine");
    assert!(
        work(&["run"])
            .expect(1)
            .stderr
            .contains("uncommitted changes")
    );
    fs::remove_file(site.world.file("own")).unwrap();
    for code in [0, 1, 1, 1] {
        work(&["run"]).expect(code);
    }
    let log = work(&["log"]).expect(0);
    insta::assert_snapshot!(log.stdout, @r"
    make it smaller
    echo measuring >&2; cat size
      baseline  10
      keep      8           work: 10 → 8 (-20.0%)
      discard   9           9 is not better than 8
      crash     -           the benchmark printed no number: nothing
      skip      -           nothing was changed
    ");
    assert_eq!(site.world.text("size"), "8\n");
    assert_eq!(site.git(&project, &["status", "--porcelain"]), "");
    insta::assert_snapshot!(site.git(&project, &["log", "--format=%s"]), @r"
    work: 10 → 8 (-20.0%)
    size: ten
    greet: the first words
    ");
    work(&["reset"]).expect(0);
    assert_eq!(
        work(&["log"]).expect(0).stdout,
        "no benchmark has been started here\n"
    );
}

#[test]
fn what_measures_cannot_be_changed_and_nothing_old_is_measured() {
    let Some(site) = Site::new() else { return };
    let project = site.world.project();
    site.world.write("bench.sh", "cat size\n");
    site.world.write("size", "10\n");
    site.git(&project, &["add", "."]);
    site.git(&project, &["commit", "-q", "-m", "size: ten"]);
    let change = |path: &str, text: &str| {
        vec![
            uses("write", json!({"path": path, "content": text})),
            says("Smaller."),
        ]
    };
    let turns = [
        change("bench.sh", "echo 1\n"),
        vec![
            uses("write", json!({"path": "size", "content": "7\n"})),
            hangs("And"),
        ],
        change("size", "8\n"),
    ];
    let server = Server::new(turns.concat());
    let work = |words: &[&str]| {
        let words = ["work"].iter().chain(words).copied();
        site.world.asking(&server, words)
    };
    work(&["start", "echo 42", "x"]).run().expect(0);
    work(&["reset"]).run().expect(0);
    let silent = work(&["start", "true", "x"]).run().expect(1);
    assert!(
        silent.stderr.contains("printed nothing"),
        "{}",
        silent.stderr
    );
    work(&["start", "sh bench.sh", "smaller"]).run().expect(0);
    work(&["run"]).run().expect(1);
    assert_eq!(site.world.text("bench.sh"), "cat size\n");
    // Killed in the middle of a change, the next try begins at the last commit, and loses nothing.
    let running = work(&["run"]).start();
    server.wait_until(|requests| requests.len() == 4);
    running.kill();
    assert_eq!(site.world.text("size"), "7\n");
    let kept = work(&["run"]).run().expect(0);
    assert!(kept.stdout.contains("10 → 8"), "{}", kept.stdout);
    assert!(
        site.git(&project, &["stash", "list"])
            .contains("ah work run: interrupted")
    );
}
