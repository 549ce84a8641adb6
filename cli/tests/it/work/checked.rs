//! `work.until`: what `ah` has checked of the agents' work is said where people read of it.

use ah_testkit::script::says;
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::site::{PASS, Site, checks, does, plans};

#[test]
fn the_comment_and_the_pull_request_say_what_a_check_has_shown() {
    // It names no file: what a command names is sealed.
    let check = "cat *.sh | grep -q salve";
    for (first, evidence) in [("salve", "verified"), ("ave", "claimed")] {
        let Some(site) = Site::new() else { return };
        let github = site.github();
        github.open(7, "Greet in Latin", "", &["todo"]);
        let mut turns = plans();
        turns.extend(does(first, "greet: speaks Latin"));
        // The agent that is told only says so again, three times on the same files.
        let again = if first == "salve" { 0 } else { 2 };
        turns.extend((0..again).map(|_| says("Still done.")));
        turns.extend(checks(PASS));
        let server = Server::new(turns);
        // That of other runs is not for the phases.
        let settings = json!({"until": "exit 1", "work": {"until": check}}).to_string();
        // As text, and as a file.
        let file = site.world.home().join("other.json");
        std::fs::write(&file, &settings).unwrap();
        let given = match first {
            "salve" => &settings,
            _ => file.to_str().unwrap(),
        };
        let ended = site.on(&github, &server, ["--settings", given]).run();
        let said = &ended.stderr;
        let comments = github.issue(7).comments.join("\n");
        assert!(
            comments.contains(&format!("- Check: {evidence}")),
            "{comments}\n{said}\n{}",
            site.artifact("do/agent.log")
        );
        // Where its output is concerns nobody there.
        assert!(!comments.contains("output in"), "{comments}");
        let body = &github.pulls()[0].body;
        assert!(
            body.contains("### Check") && body.contains(evidence),
            "{body}"
        );
        let summary: Value = serde_json::from_str(&site.artifact("summary.json")).unwrap();
        let phases = summary["phases"].as_array().unwrap().iter();
        let known: Vec<_> = phases
            .filter_map(|phase| phase["verification"]["evidence"].as_str())
            .collect();
        assert_eq!(known, [evidence]);
    }
}
