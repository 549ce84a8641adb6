//! Files outside the working directories.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

/// A host is asked about each file outside, whether a tool or a command reads it, and what it allows is read from then on.
/// Files inside, and a skill of the user, are read unasked.
#[test]
fn a_host_is_asked_about_files_outside() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    let outside = outside.path().canonicalize().unwrap();
    let path = outside.join("secret");
    std::fs::write(&path, "beyond").unwrap();
    world.write("inside", "within");
    let skill = world.home().join(".ah/skills/letters/more.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    std::fs::write(&skill, "of the skill").unwrap();
    let front = "---\nname: letters\ndescription: Writes letters.\n---\nSee more.md.";
    std::fs::write(skill.with_file_name("SKILL.md"), front).unwrap();
    let read = |path: &std::path::Path| uses("Read", json!({"file_path": path}));
    let cat = uses(
        "Bash",
        json!({"command": format!("cat {}", path.display())}),
    );
    let server = Server::new([
        read(&world.file("inside")),
        read(&skill),
        read(&path),
        cat.clone(),
        read(&path),
        cat,
        says("Done."),
    ]);
    let mut host = Host::new(&world, &server, &["--permission-prompt-tool", "stdio"]);
    host.prompt("go");
    let asks = |line: &Value| line["request"]["subtype"] == "can_use_tool";
    let rule = json!({
        "type": "addRules",
        "rules": [{"toolName": "Read", "ruleContent": format!("/{}/**", outside.display())}],
        "behavior": "allow",
        "destination": "session",
    });
    for (tool, answer) in [
        ("Read", json!({"behavior": "deny", "message": "no"})),
        ("Bash", json!({"behavior": "deny", "message": "no"})),
        (
            "Read",
            json!({"behavior": "allow", "updatedPermissions": [rule]}),
        ),
    ] {
        let asked = host.until(asks);
        let request = &asked["request"];
        assert_eq!(request["tool_name"], tool);
        assert_eq!(request["blocked_path"], json!(path));
        assert_eq!(
            request["decision_reason"],
            "Path is outside allowed working directories"
        );
        let offered = request["permission_suggestions"].as_array().unwrap();
        assert!(offered.contains(&rule), "{request}");
        host.answer(&asked, &answer);
    }
    host.result();
    let over = host.end();
    assert_eq!(over.lines.iter().filter(|line| asks(line)).count(), 3);
    let results = over.lines.iter().filter(|line| line["type"] == "user");
    let results: Vec<_> = results
        .map(|line| line["message"]["content"][0]["content"].to_string())
        .collect();
    let has = |at: usize, text: &str| results[at].contains(text);
    assert!(has(0, "within") && has(1, "of the skill"), "{results:#?}");
    assert!(has(4, "beyond") && has(5, "beyond"), "{results:#?}");
}

/// Where nobody can be asked, such files are not read; `ah` for people reads them.
#[test]
fn nobody_to_ask_means_no() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("secret");
    std::fs::write(&path, "beyond").unwrap();
    for (options, name, key, is_read) in [
        (&["-p", "go"][..], "Read", "file_path", false),
        (
            &["-p", "--permission-mode", "dontAsk", "go"],
            "Read",
            "file_path",
            false,
        ),
        (&["-n", "--no-sandbox", "go"], "read", "path", true),
    ] {
        let server = Server::new([uses(name, json!({key: path})), says("Done.")]);
        let options = ["-m", "sonnet"].iter().chain(options).copied();
        world.asking(&server, options).run().expect(0);
        let request = server.requests().last().unwrap().body.to_string();
        assert_eq!(request.contains("beyond"), is_read, "{name}: {request}");
    }
}
