//! The effect of options and variables that no other file tests.

use std::io::Write as _;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::shown::{shown, steady};

/// The names of the tools offered to the model.
fn tools(arguments: &[&str]) -> String {
    let world = World::new();
    let server = Server::new([says("Yes.")]);
    let common = ["-m", "sonnet", "--permission-mode", "plan"];
    world
        .asking(&server, common.into_iter().chain(arguments.iter().copied()))
        .run()
        .expect(0);
    let body = server.requests().remove(0).body;
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    names.join(" ")
}

#[test]
fn the_tools_can_be_chosen() {
    let cases: [&[&str]; 14] = [
        &["go"],
        &["--profile", "minimal", "go"],
        &["--profile", "plain-repl", "go"],
        &["--profile", "sdk", "go"],
        &["-p", "go"],
        &["-p", "--profile", "minimal", "go"],
        &["-p", "--tools", "BashOutput,KillShell", "go"],
        &["--tools", "read,Bash", "go"],
        &["--tools", "read", "bash", "go", "read"],
        &["--tools", "", "go"],
        &["--tools", "default", "go"],
        &["--disallowed-tools", "bash,edit", "go"],
        &[
            "--disallowedTools",
            "Bash",
            "Write",
            "Read(secret/**)",
            "go",
        ],
        &["-p", "--tools", "Read,Bash", "go"],
    ];
    let lines = cases.map(|arguments| format!("{}: {}", arguments.join(" "), tools(arguments)));
    insta::assert_snapshot!(lines.join("\n"), @"
go: read write edit bash grep glob todo result web_fetch skill agent
--profile minimal go: read write edit bash skill
--profile plain-repl go: read write bash skill
--profile sdk go: Read Write Edit Bash TaskOutput TaskStop Grep Glob NotebookEdit TodoWrite result WebFetch Skill Agent
-p go: Read Write Edit Bash TaskOutput TaskStop Grep Glob NotebookEdit TodoWrite result WebFetch Skill Agent
-p --profile minimal go: Read Write Edit Bash Skill
-p --tools BashOutput,KillShell go: TaskOutput TaskStop
--tools read,Bash go: read bash
--tools read bash go read: read bash
--tools  go: 
--tools default go: read write edit bash grep glob todo result web_fetch skill agent
--disallowed-tools bash,edit go: read write grep glob todo result web_fetch skill agent
--disallowedTools Bash Write Read(secret/**) go: read edit grep glob todo result web_fetch skill agent
-p --tools Read,Bash go: Read Bash
");
}

#[test]
fn options_of_other_agents_are_accepted_and_named_in_the_log() {
    let world = World::new();
    let model = world.scenario("s", [says("Yes.")]);
    let arguments = [
        "--verbose",
        "--awaitInitialize",
        "--addDir",
        "/",
        "--permissionMode",
        "plan",
        "-m",
        &model,
    ];
    let ended = world
        .ah(arguments.into_iter().chain(["--debug=ah=debug", "go"]))
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "Yes.\n");
    for option in ["--verbose", "--await-initialize"] {
        assert!(
            ended.stderr.contains(&format!("option=\"{option}\"")),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn the_log_goes_where_it_is_asked_to() {
    let world = World::new();
    let model = world.scenario("s", [says("Yes.")]);
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let common = ["-n", "--await-initialize", "-m", &model, "go"];
        let ah = world.ah(arguments.iter().copied().chain(common));
        let ah = variables
            .iter()
            .fold(ah, |ah, (name, value)| ah.env(name, value));
        ah.run().expect(0).stderr.contains("DEBUG")
    };
    assert!(!run(&[], &[]));
    assert!(run(&["--debug"], &[]));
    assert!(run(&[], &[("AH_LOG", "debug")]));
    assert!(!run(
        &[],
        &[("AH_LOG", "debug"), ("AH_LOG_FILE", "first.log")]
    ));
    assert!(!run(&["--debug-file", "second.log"], &[]));
    assert!(!run(&[], &[("AH_LOG", "error")]));
    for name in ["first.log", "second.log"] {
        assert!(world.text(name).contains("DEBUG"), "{name}");
    }
}

#[test]
fn the_log_is_shown_and_followed() {
    let world = World::new();
    let nothing = world.ah(["logs"]).run().expect(1);
    assert!(nothing.stderr.contains("AH_LOG_FILE"), "{}", nothing.stderr);
    world.write("a.log", "one\ntwo\nthree\n");
    let logs = |words: &[&'static str]| {
        let words = ["logs"].into_iter().chain(words.iter().copied());
        world.ah(words).env("AH_LOG_FILE", "a.log")
    };
    assert_eq!(logs(&[]).run().expect(0).stdout, "one\ntwo\nthree\n");
    assert_eq!(logs(&["-l", "1"]).run().expect(0).stdout, "three\n");
    let following = logs(&["-f", "-l", "1"]).start();
    following.wait_for_output("three\n");
    let mut log = std::fs::OpenOptions::new()
        .append(true)
        .open(world.file("a.log"))
        .unwrap();
    log.write_all(b"four\n").unwrap();
    following.wait_for_output("three\nfour\n");
    log.set_len(0).unwrap();
    log.write_all(b"5\n").unwrap();
    following.wait_for_output("four\n5\n");
    following.signal(rustix::process::Signal::TERM);
}

/// Packagers need a manual page for each subcommand, which lists its options.
#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let world = World::new();
    let page = world.ah(["man"]).run().expect(0).stdout;
    assert!(
        page.contains(".TH ah 1") && page.contains("permission\\-mode"),
        "{page}"
    );
    world.ah(["man", "share/man1"]).run().expect(0);
    let export = world.text("share/man1/ah-export.1");
    assert!(export.contains("\\-\\-html"), "{export}");
    assert!(world.text("share/man1/ah.1").contains("ah\\-export(1)"));
}

#[test]
fn the_shell_is_the_one_that_is_named() {
    let world = World::new();
    world.write("shell", "#!/bin/sh\necho \"called with $1\"\n");
    let mut permissions = std::fs::metadata(world.file("shell"))
        .unwrap()
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(world.file("shell"), permissions).unwrap();
    let turns = [
        uses("bash", json!({"command": "anything"})),
        says("{{result}}"),
    ];
    let model = world.scenario("s", turns);
    let ended = world
        .ah(["-m", &model, "go"])
        .env("AH_SHELL", world.file("shell"))
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "called with -c\n");
}

#[test]
fn protected_folders_are_not_written() {
    let world = World::new();
    let turns = [
        uses("write", json!({"path": "kept/file", "content": "new"})),
        uses("write", json!({"path": "other/file", "content": "new"})),
        says("Done."),
    ];
    let model = world.scenario("s", turns);
    world.write("kept/file", "old");
    let ended = world
        .ah(["-m", &model, "go"])
        .env("AH_PROTECT_DIRS", "no:kept")
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
Done.
stderr:
>>> go
✗ write (<n>s)
  kept/file
  cannot write `kept/file`: `kept` is protected (AH_PROTECT_DIRS)

write (<n>s)
  other/file
  1 line
exit code 0
");
    assert_eq!(
        (world.text("kept/file"), world.text("other/file")),
        ("old".to_owned(), "new".to_owned())
    );
}

#[test]
fn another_folder_can_be_worked_in() {
    let world = World::new();
    world.write("part/notes", "");
    let turns = [
        uses("bash", json!({"command": "pwd; ls"})),
        says("{{result}}"),
    ];
    world.write(
        "part/s.json",
        serde_json::to_string(&ah_testkit::script::scenario(turns)).unwrap(),
    );
    let ended = world
        .ah(["--cd", "part", "-m", "script:s.json", "go"])
        .run()
        .expect(0);
    insta::assert_snapshot!(steady(&world, &ended.stdout), @"
<project>/part
notes
s.json
");
    assert!(world.file("part/.ah").exists() && !world.file(".ah").exists());
}

#[test]
fn the_system_prompt_can_come_from_a_file() {
    let world = World::new();
    world.write("prompt.md", "Be brief.\n");
    world.write("CLAUDE.md", "Never read.\n");
    let server = Server::new([says("Yes.")]);
    let arguments = [
        "-m",
        "sonnet",
        "--system-prompt-file",
        "prompt.md",
        "--append-system-prompt",
        "In Latin.",
        "go",
    ];
    world.asking(&server, arguments).run().expect(0);
    let system = server.requests().remove(0).body["system"].clone();
    let texts: Vec<_> = system
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Be brief.\n", "In Latin."]);
}

#[test]
fn a_certificate_file_that_is_none_is_told() {
    let world = World::new();
    world.write("ca.pem", "no certificate");
    for file in ["ca.pem", "none.pem"] {
        let ah = world
            .ah(["-m", "sonnet", "go"])
            .env("ANTHROPIC_API_KEY", "key-of-a-test")
            .env("ANTHROPIC_BASE_URL", "https://127.0.0.1:9")
            .env("SSL_CERT_FILE", file);
        let ended = ah.run().expect(1);
        assert!(ended.stderr.contains(file), "{}", ended.stderr);
        assert!(!ended.stderr.contains("asking again"), "{}", ended.stderr);
    }
}

/// Completions list commands and options, and each shell accepts them.
#[test]
fn shells_understand_their_completions() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.ah(["completions", shell]).run().expect(0).stdout;
        assert!(
            script.contains("checkout") && script.contains("permission-mode"),
            "{shell}"
        );
        assert!(
            !script.contains("task-budget"),
            "{shell} is told of what means nothing here"
        );
        world.write(&format!("completions.{shell}"), script);
    }
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(world.file("completions.bash"))
        .status();
    if let Ok(status) = checked {
        assert!(status.success());
    }
}
