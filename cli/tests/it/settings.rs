//! Precedence of settings, variables and options, and warnings about them.

use std::fs;

use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use crate::support::binary::World;
use crate::support::shown::{shown, steady};

/// A world in which each of the lowest `count` settings layers names a model of its own, called like its path.
fn layered(count: usize) -> World {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    let places = [
        world.file("part/.ah/settings.local.json"),
        world.file(".ah/settings.local.json"),
        world.file(".claude/settings.local.json"),
        world.file("part/.ah/settings.json"),
        world.file(".ah/settings.json"),
        world.file(".claude/settings.json"),
        world.home().join(".ah/settings.json"),
        world.home().join(".claude/settings.json"),
    ];
    fs::create_dir_all(world.file("part")).unwrap();
    for path in &places[places.len() - count..] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path
            .strip_prefix(world.project())
            .or(path.strip_prefix(world.home()))
            .unwrap();
        let rule = format!("Read({})", name.display());
        let settings = json!({"model": name, "permissions": {"allow": [rule]}});
        fs::write(path, settings.to_string()).unwrap();
    }
    world
}

#[test]
fn of_many_places_the_first_counts() {
    let mut lines = Vec::new();
    for count in 0..=8 {
        let world = layered(count);
        let shown = world
            .ah(["--trust", "config", "show", "--origin"])
            .within(world.file("part"))
            .run()
            .expect(0);
        let text = steady(&world, &shown.stdout);
        let origin = text.lines().next().unwrap().split_whitespace().skip(2);
        lines.push(format!(
            "{} ({} rules)",
            origin.collect::<Vec<_>>().join(" "),
            text.matches("Read(").count()
        ));
    }
    let world = layered(8);
    let shown = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments = arguments
            .iter()
            .copied()
            .chain(["config", "show", "--json"]);
        let ah = variables
            .iter()
            .fold(world.ah(arguments), |ah, (name, value)| ah.env(name, value));
        let ended = ah.within(world.file("part")).run().expect(0);
        let entries: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
        format!(
            "{} ({})",
            entries[0]["value"],
            steady(&world, entries[0]["origin"].as_str().unwrap())
        )
    };
    let given = r#"{"model": "given"}"#;
    lines.push(shown(&["--settings", given], &[]));
    lines.push(shown(
        &["--settings", given],
        &[("AH_MODEL", "of-a-variable")],
    ));
    lines.push(shown(
        &["--settings", given, "-m", "typed"],
        &[("AH_MODEL", "of-a-variable")],
    ));
    lines.push(shown(&["--setting-sources", "user"], &[]));
    lines.push(shown(&["--setting-sources", "project"], &[]));
    lines.push(shown(&["--setting-sources="], &[]));
    insta::assert_snapshot!(lines.join("\n"), @r#"
built in (0 rules)
<home>/.claude/settings.json (1 rules)
<home>/.ah/settings.json (2 rules)
<project>/.claude/settings.json (3 rules)
<project>/.ah/settings.json (4 rules)
<project>/part/.ah/settings.json (5 rules)
<project>/.claude/settings.local.json (6 rules)
<project>/.ah/settings.local.json (7 rules)
<project>/part/.ah/settings.local.json (8 rules)
"given" (--settings)
"of-a-variable" (AH_MODEL)
"typed" (command line)
".ah/settings.json" (<home>/.ah/settings.json)
"part/.ah/settings.json" (<project>/part/.ah/settings.json)
"opus" (built in)
"#);
}

#[test]
fn the_users_folders_may_be_elsewhere() {
    let world = World::new();
    world.write("ours/settings.json", r#"{"model": "ours"}"#);
    world.write(
        "theirs/settings.json",
        r#"{"model": "theirs", "temperature": 0.25}"#,
    );
    let ah = world.ah(["config", "show", "--origin"]);
    let ended = ah
        .env("AH_HOME", world.file("ours"))
        .env("CLAUDE_CONFIG_DIR", world.file("theirs"))
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
model                    ours      <project>/ours/settings.json
undoMegabytes            1024      built in
toolConcurrency          auto      built in
maxToolOutputBytes       67108864  built in
temperature              0.25      <project>/theirs/settings.json
permissions.defaultMode  default   built in
exit code 0
");
}

#[test]
fn every_setting_does_something() {
    let world = World::new();
    world.write(".ah/settings.json", json!({
        "$schema": "../docs/settings.schema.json",
        "model": "script:s.json",
        "toolConcurrency": "serial",
        "maxToolOutputBytes": 1000,
        "maxConversationMessages": 2,
        "temperature": 0.5,
        "permissions": {"defaultMode": "dontAsk", "allow": ["Bash(printenv:*)", "Bash(head:*)"], "deny": ["Write"]},
        "env": {"GREETING": "hello"},
    }).to_string());
    let notes: String = (0..500).map(|n| format!("line {n}\n")).collect();
    world.write("notes", notes);
    world.scenario(
        "s",
        [
            uses("bash", json!({"command": "printenv GREETING"})),
            uses("bash", json!({"command": "head -n 500 notes"})),
            uses("bash", json!({"command": "touch made"})),
            uses("write", json!({"path": "made", "content": ""})),
            says("Done."),
        ],
    );
    let ended = world.ah(["--trust", "--no-sandbox", "go"]).run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
Done.
stderr:
>>> go
bash (<n>s)
  $ printenv GREETING
  hello

bash (<n>s)
  $ head -n 500 notes
  line 0
  line 1
  line 2
  ... (497 more lines)

✗ bash (<n>s)
  $ touch made
  Permission to use bash was denied: mode `dontAsk` does not allow this call, a…

✗ write (<n>s)
  there is no tool `write`; the tools are read, edit, bash, grep, glob, todo, r…
exit code 0
");
    assert!(!world.file("made").exists());
    let cut = world.ah(["show", "4"]).run().expect(0).stdout;
    insta::assert_snapshot!(cut, @"
--- user @4 ---
← line 0
  line 1
  line 2
  line 3
  line 4
  ... (495 more lines)
");
    // Now there is a message to resume from.
    world.scenario("s", [says("Done again.")]);
    let second = world.ah(["-m", "script:s.json", "--trust", "again"]).run();
    insta::assert_snapshot!(shown(&world, &second), @"
stdout:
Done again.
stderr:
>>> again
10 older messages are left out (maxConversationMessages is 2)
exit code 0
");
}

#[test]
fn faults_and_unknown_keys_are_told_with_their_place() {
    let cases = [
        "{\n  \"model\": 3\n}",
        "{\n  \"permissions\": {\"allow\": [\"Bash(\"]}\n}",
        "{\"permissions\": {\"defaultMode\": \"never\"}}",
        "{\"toolConcurrency\": \"often\"}",
        "{\"model\": \"x\",}",
        "{\"model\"",
        "[]",
        "{\n  \"modle\": \"x\"\n}",
        "",
    ];
    let pages = cases.map(|text| {
        let world = World::new();
        world.write(".ah/settings.json", text);
        let ended = world.ah(["--trust", "config", "show"]).run();
        let page = shown(&world, &ended);
        let lines = page
            .lines()
            .filter(|line| line.contains(": ") || line.starts_with("exit"));
        lines.collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(pages.join("\n\n"), @"
error: <project>/.ah/settings.json:2:12: invalid type: integer `3`, expected a string
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:2:29: `Bash(` is not a rule: expected `Tool` or `Tool(content)`
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:1:33: unknown permission mode `never`; known are default, sandboxed, acceptEdits, plan, dontAsk, delegate, bypassPermissions
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:1:21: unknown variant `often`, expected one of `auto`, `serial`, `parallel`
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:1:15: key must be a string
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:1:8: EOF while parsing an object
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

error: <project>/.ah/settings.json:1:1: invalid type: sequence, expected a map
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 1

warning: <project>/.ah/settings.json:2: unknown setting `modle`
exit code 0

exit code 0
");
}

/// Unreadable settings of an untrusted project are ignored; those of the user are an error.
#[test]
fn settings_of_a_project_that_is_not_trusted_are_left_out_where_they_cannot_be_read() {
    let world = World::new();
    world.write(".ah/settings.json", "{\"model\": ");
    world.write(
        ".claude/settings.json",
        r#"{"permissions": {"deny": ["Bash"]}}"#,
    );
    let model = world.scenario("s", [says("Done.")]);
    let ended = world.ah(["-m", &model, "go"]).run().expect(0);
    assert!(
        ended
            .stderr
            .contains("EOF while parsing a value; the file is ignored"),
        "{}",
        ended.stderr
    );
    let tools = world.ah(["tools"]).run().expect(0).stdout;
    assert!(tools.contains("grep") && !tools.contains("bash"), "{tools}");
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    fs::write(world.home().join(".ah/settings.json"), "{").unwrap();
    world.ah(["-m", &model, "go"]).run().expect(1);
}

#[test]
fn the_doctor_lists_what_is_wrong_and_goes_on() {
    let world = World::new();
    world.write(".ah/settings.json", "{\n  \"model\": 3\n}");
    world.write(".claude/settings.json", r#"{"model": "haiku", "hoks": {}}"#);
    world.write(".ah/models.json", "{");
    let ended = world
        .ah(["doctor", "--offline", "--trust"])
        .env("AH_SHELL", "/no/such/shell")
        .env("HTTPS_PROXY", "http://me:password@proxy:1")
        .run();
    let page = shown(&world, &ended);
    // Lines that depend on the machine.
    let lines = page.lines().filter(|line| {
        !["version ", "git ", "sandbox ", "undo "]
            .iter()
            .any(|name| line.contains(name))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
stdout:
ok       model        haiku (<project>/.claude/settings.json)
ok       network      HTTPS_PROXY=http://...@proxy:1
ok       settings     <project>/.claude/settings.json
problem  settings     <project>/.ah/settings.json:2:12: invalid type: integer `3`, expected a string
                      hint: correct the file, or choose the settings files to read with `--setting-sources`
note     settings     <project>/.claude/settings.json:1: unknown setting `hoks`
ok       trust        <project> is trusted (--trust)
problem  models       the model catalogue <project>/.ah/models.json is not valid: EOF while parsing an object at line 1 column 1
                      hint: `ah models --json` shows what an entry holds
ok       sessions     0 in this folder, all intact
ok       terminal     stdout is not a terminal, stderr is not a terminal, 80 columns, no colours
ok       shell        /usr/bin/bash
exit code 1
");
}

#[test]
fn models_of_ones_own_are_known() {
    let world = World::new();
    world.write(".ah/models.json", r#"{"models": {"house-1": {"context_window": 5000, "max_output": 100, "price": {"input": 1, "output": 2}}}}"#);
    let listed = world.ah(["models", "--trust"]).run().expect(0).stdout;
    let own: Vec<_> = listed
        .lines()
        .filter(|line| line.contains("house-1"))
        .collect();
    insta::assert_snapshot!(steady(&world, &own.join("\n")), @"house-1                                                                    5.0k     100    1.00    2.00    1.00  <project>/.ah/models.json");
}
