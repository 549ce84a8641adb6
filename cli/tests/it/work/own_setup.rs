//! Without `work.setup`, the setup is what the project says of itself in the base.

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::setup::was_said;
use super::site::{PASS, Site, changes, checks, plans};

/// Writes the instructions for agents, and pushes them to the branch.
fn instructs(site: &Site, branch: &str, script: &str) {
    let project = site.world.project();
    let text = format!("# Greetings\n\n## Setup\n\n```sh\n{script}\n```\n");
    site.world.write("AGENTS.md", &text);
    site.git(&project, &["add", "AGENTS.md"]);
    site.git(&project, &["commit", "-qm", "how it is set up"]);
    let to = format!("HEAD:refs/heads/{branch}");
    site.git(&project, &["push", "-q", "origin", &to]);
}

/// Agents that do what the issue asks for; the first runs this command.
fn agents(command: &str) -> Vec<Turn> {
    let mut turns = vec![uses("bash", json!({"command": command}))];
    turns.extend(plans());
    let change = "echo 'echo salve' > greet.sh && git commit -qam 'greet: speaks Latin'";
    turns.extend(changes("do", change));
    turns.extend(checks(PASS));
    turns
}

#[test]
fn it_runs_by_default_from_the_base_with_registries_and_no_secrets() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(
        7,
        "Greet in Latin",
        "Run `echo issue > by-issue`.",
        &["todo"],
    );
    site.world.write("package.json", "{}");
    site.git(&site.world.project(), &["add", "package.json"]);
    let script = "echo base > made\necho \"token=${TOKEN:-none}\" > token\nenv | sort > seen\nsudo make install";
    instructs(&site, "main", script);
    // What somebody has pushed to the branch of the issue counts for the work, not for the setup.
    instructs(&site, "work/7", "echo branch > by-branch");
    let server = Server::new(agents("cat made token; ls by-*; grep -c -i proxy= seen"));
    let settings = json!({"sandbox": {"env": ["TOKEN"], "allowHosts": ["mine.example:443"]}});
    let ended = site
        .on(&github, &server, ["--settings", &settings.to_string()])
        .env("TOKEN", "secret")
        .run()
        .expect(0);
    let said = ended.stderr.lines();
    let said: Vec<_> = said.filter(|line| line.starts_with("setup")).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    setup, as AGENTS.md of the base says, in the sandbox with registry.npmjs.org:443: `echo base > made`, `echo "token=${TOKEN:-none}" > token`, `env | sort > seen`. The setting `work.setup` replaces it, `{}` turns it off.
    setup: left out: sudo make install
    "#);
    assert!(
        was_said(&server, "base\\ntoken=none\\nls: cannot access"),
        "{}",
        ended.stderr
    );
    let summary: Value = serde_json::from_str(&site.artifact("summary.json")).unwrap();
    assert_eq!(summary["setup"]["source"], "AGENTS.md");
    assert_eq!(summary["setup"]["commands"][0], "echo base > made");
    assert_eq!(summary["setup"]["left_out"][0], "sudo make install");
    let plan: Value = serde_json::from_str(&site.artifact("setup/setup.json")).unwrap();
    assert_eq!(
        plan["setup"]["allowHosts"],
        json!(["registry.npmjs.org:443"])
    );
    let status = site.work(&server, ["status"]).run().expect(0);
    let line = "\nsetup by AGENTS.md: `echo base > made`, ";
    assert!(status.stdout.contains(line), "{}", status.stdout);
}

#[test]
fn if_it_fails_the_issue_waits_and_the_setting_replaces_it() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    instructs(&site, "main", "echo base > made\nsh -c 'exit 3'");
    let server = Server::new([says("unused")]);
    let ended = site.on(&github, &server, []).run().expect(1);
    let told = "the setup failed: `sh -c 'exit 3'` ended with exit code 3";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let hint = "it is from AGENTS.md of the base: say in `work.setup` of your settings what to run instead, `{}` for nothing";
    assert!(ended.stderr.contains(hint), "{}", ended.stderr);
    assert_eq!(github.issue(7).labels, ["todo"]);
    let comments = github.issue(7).comments.join("\n");
    assert!(
        comments.contains(told) && comments.contains(hint),
        "{comments}"
    );
    let server = Server::new(agents("cat made"));
    let off = r#"{"work": {"setup": {}}}"#;
    let ended = site
        .on(&github, &server, ["--settings", off])
        .run()
        .expect(0);
    assert!(!ended.stderr.contains("setup"), "{}", ended.stderr);
    assert!(was_said(&server, "cat: made: No such file"));
    assert_eq!(github.issue(7).labels, ["done"]);
}

#[test]
fn it_does_not_run_unconfined() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    instructs(&site, "main", "echo base > made");
    let server = Server::new(agents("cat made"));
    let ended = site.on(&github, &server, ["--no-sandbox"]).run().expect(0);
    assert!(!ended.stderr.contains("setup"), "{}", ended.stderr);
    assert!(was_said(&server, "cat: made: No such file"));
}
