//! What rules deny is kept from programs that no line names: by patterns, within the sandbox and without it, whether a command,
//! a Lua tool or an executable tool starts them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{says, uses};
use serde_json::json;

use super::CANARY;
use crate::sandbox::{is_missing, stored_results};
use crate::support::binary::World;

/// Rules with a line that shows what they deny, or says that it has changed or run it.
const DENIED: &[(&str, &str)] = &[
    (
        "Read(*.pem)",
        "perl -pe 1 \"s/id.p\"\"em\" s/id.p[e]m $(echo s/id)*",
    ),
    (
        "Read(*.pem)",
        "perl -e 'open F, \"s/id.\" . \"pem\"; print <F>'",
    ),
    (
        "Read(**/id.*)",
        "perl -e 'open F, \"s/id.\" . \"pem\"; print <F>'",
    ),
    (
        "Read(.env)",
        "perl -e 'open F, \"s/.en\" . \"v\"; print <F>'",
    ),
    (
        "Read(s/.e*)",
        "perl -e 'rename \"s\", \"t\"; open F, \"t/.en\" . \"v\"; print <F>'",
    ),
    (
        "Edit(*.lock)",
        "perl -e 'open(F, \">s/a.lo\" . \"ck\") and print \"DO\" . \"NE\"'",
    ),
    (
        "Edit(*.lock)",
        "perl -e 'unlink(\"s/a.lo\" . \"ck\") and print \"DO\" . \"NE\"'",
    ),
    (
        "Bash(who:*)",
        "perl -e 'system(\"wh\" . \"o\") or print \"DO\" . \"NE\"'",
    ),
];

/// A tool of the user that runs a line.
const LUA: &str = r#"local spawn = require("spawn")
return {name = "lines", description = "Runs a line.", input_schema = {type = "object"},
execute = function(input)
    local done = assert(spawn.run({"bash", "-c", input.line}))
    return done.stdout .. done.stderr
end}"#;
/// The same as an executable.
const EXECUTABLE: &str = "#!/bin/bash\n[ \"$1\" = --help ] && exit 1\nbash -c \"$1\"\n";

/// What the model sees of a line that a tool runs.
fn shown(tool: &str, line: &str, options: &[&str]) -> String {
    let world = World::new();
    for (name, text) in [
        ("s/id.pem", CANARY),
        ("s/.env", CANARY),
        ("s/a.lock", "kept\n"),
    ] {
        world.write(name, text);
    }
    let tools = world.home().join(".ah/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("lines.lua"), LUA).unwrap();
    let executable = tools.join("words");
    fs::write(&executable, EXECUTABLE).unwrap();
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
    let input = match tool {
        "lines" => json!({"line": line}),
        "words" => json!({"args": format!("'{}'", line.replace('\'', "'\\''"))}),
        _ => json!({"command": line}),
    };
    let model = world.scenario("s", [uses(tool, input), says("Done.")]);
    let arguments = [options, &["-n", "-m", &model, "--", "go"]].concat();
    world.as_typed(arguments).run().expect(0);
    stored_results(&world).concat()
}

#[test]
fn what_no_line_names_is_kept_from_programs_in_every_manner() {
    let free = ["--no-sandbox", "--dangerously-skip-permissions"];
    let full = ["--sandbox"];
    let lesser = ["--sandbox=landlock"];
    let is_done = |shown: &str| shown.contains(CANARY) || shown.contains("DONE");
    for (_, line) in DENIED {
        let shown = shown("lines", line, &free);
        assert!(is_done(&shown), "a control: {line}: {shown}");
    }
    if is_missing() {
        return;
    }
    let mut faults = Vec::new();
    for manner in [&free[..], &full, &lesser] {
        for tool in ["bash", "lines", "words"] {
            for (rule, line) in DENIED {
                // Without mounts, what is changed is restored after the command, and programs can be run.
                let is_promised = manner != lesser || rule.starts_with("Read");
                let options = [manner, &["--disallowed-tools", rule]].concat();
                let shown = shown(tool, line, &options);
                if is_promised && is_done(&shown) {
                    faults.push(format!("{rule} {manner:?} {tool} {line}: {shown}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A program is asked for its description before the model is asked anything.
#[test]
fn what_rules_deny_is_kept_from_an_executable_tool_that_describes_itself() {
    let deny = ["--disallowed-tools", "Read(*.pem)"];
    let free = ["--no-sandbox", "--dangerously-skip-permissions"];
    let denied = [&free[..], &deny].concat();
    let [full, lesser] = ["--sandbox", "--sandbox=landlock"].map(|it| [&[it][..], &deny].concat());
    for (options, is_seen) in [
        (free.to_vec(), true),
        (denied, false),
        (full, false),
        (lesser, false),
    ] {
        if !is_seen && is_missing() {
            continue;
        }
        let world = World::new();
        world.write("s/id.pem", CANARY);
        let tools = world.home().join(".ah/tools");
        fs::create_dir_all(&tools).unwrap();
        let program = tools.join("words");
        let text = "#!/bin/bash\ntouch asked\ncat s/id.p[e]m > seen 2> /dev/null\necho Words.\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let model = world.scenario("s", [says("Done.")]);
        let arguments = [&options[..], &["-n", "-m", &model, "--", "go"]].concat();
        world.as_typed(arguments).run().expect(0);
        assert!(world.file("asked").exists(), "{options:?}");
        let seen = fs::read_to_string(world.file("seen")).unwrap_or_default();
        assert_eq!(seen.contains(CANARY), is_seen, "{options:?}: {seen}");
    }
}

/// Where nothing can be mounted, what a command makes beside a hidden file is read by the next one, and the model is told.
#[test]
fn what_is_made_beside_a_hidden_file_is_read_by_the_next_command() {
    if is_missing() {
        return;
    }
    let world = World::new();
    world.write("key.pem", CANARY);
    world.write("sub/known", "known");
    let lines = [
        "cat sub/known; echo new > sub/made; cat sub/made",
        "mkdir folder; echo made > folder/file; cat folder/file",
        "cat folder/file; perl -e 'rename \"key.p\" . \"em\", \"other\"'; cat other",
        "cat other",
    ];
    let turns = lines.map(|line| uses("bash", json!({"command": line})));
    let model = world.scenario("s", turns.into_iter().chain([says("Done.")]));
    let options = [
        "-n",
        "--sandbox=landlock",
        "--disallowed-tools",
        "Read(*.pem)",
    ];
    let arguments = [&options[..], &["-m", &model, "--", "go"]].concat();
    world.as_typed(arguments).run().expect(0);
    let found = stored_results(&world);
    let told =
        "a command cannot read files that it creates next to hidden ones; the next command can";
    assert!(found[0].contains("knownnew"), "{found:#?}");
    assert!(
        !found[1].contains("made\n") && found[1].contains(told),
        "{found:#?}"
    );
    assert!(found[2].starts_with("made"), "{found:#?}");
    assert!(!found.concat().contains(CANARY), "{found:#?}");
    assert_eq!(world.text("key.pem"), CANARY);
}

/// The lines that a command's text runs are commands as well.
#[test]
fn what_rules_deny_is_kept_from_the_lines_of_texts() {
    let line = "perl -e 'open F, \"s/.en\" . \"v\"; print <F>'";
    for (manner, rules, is_shown) in [
        ("--no-sandbox", &[][..], true),
        ("--no-sandbox", &["--disallowed-tools", "Read(.env)"], false),
        ("--sandbox", &["--disallowed-tools", "Read(.env)"], false),
        (
            "--sandbox=landlock",
            &["--disallowed-tools", "Read(.env)"],
            false,
        ),
    ] {
        if manner != "--no-sandbox" && is_missing() {
            continue;
        }
        let world = World::new();
        world.write("s/.env", CANARY);
        let commands = world.home().join(".ah/commands");
        fs::create_dir_all(&commands).unwrap();
        fs::write(commands.join("look.md"), format!("See !`{line}`\n")).unwrap();
        let model = world.scenario("s", [says("Done.")]);
        let options = [&[manner, "--dangerously-skip-permissions"], rules].concat();
        let arguments = [&options[..], &["-n", "-m", &model, "--", "/look"]].concat();
        world.as_typed(arguments).run().expect(0);
        let stored = fs::read(world.database()).unwrap();
        let log = world.database().with_extension("db-wal");
        let stored = [stored, fs::read(log).unwrap_or_default()].concat();
        let mut windows = stored.windows(CANARY.len());
        let is_there = windows.any(|window| window == CANARY.as_bytes());
        assert_eq!(is_there, is_shown, "{manner} {rules:?}");
    }
}
