//! Permission rules as documented, applied by the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;

const PAGE: &str = include_str!("../../../docs/permissions.md");

/// The settings shown in the documentation have the documented effect.
#[test]
fn the_example_of_the_page_does_what_the_page_says() {
    let example = PAGE
        .split("```json")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let world = World::new();
    for (at, (command, runs)) in [
        ("git log | head -1", true),
        ("git log; rm x", false),
        ("git push", false),
        ("cat .env", false),
        ("echo a", true),
        ("touch made", false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("s{at}");
        let model = world.scenario(
            &name,
            [uses("bash", json!({"command": command})), says("Done.")],
        );
        let ended = world
            .ah([
                "-n",
                "-m",
                &model,
                "--settings",
                example,
                "--output-format",
                "json",
                "go",
            ])
            .run()
            .expect(0);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let denials = result["permission_denials"].as_array().unwrap();
        assert_eq!(denials.is_empty(), runs, "{command}: {result}");
    }
}

/// Under the Agent SDK interface, root may bypass permissions only in a sandbox.
#[test]
fn root_does_not_skip_the_permissions() {
    let is_root = rustix::process::geteuid().is_root();
    let world = World::new();
    let model = world.scenario("s", [says("Done.")]);
    for (arguments, contained, is_refused) in [
        (&["-p", "--dangerously-skip-permissions"][..], false, true),
        (
            &["-p", "--permission-mode", "bypassPermissions"],
            false,
            true,
        ),
        (&["-p", "--allow-dangerously-skip-permissions"], false, true),
        (&["-p", "--dangerously-skip-permissions"], true, false),
        (&["-p"], false, false),
        (&["-n", "--dangerously-skip-permissions"], false, false),
    ] {
        let arguments = [arguments, &["-m", &model, "go"]].concat();
        let contained = if contained { "1" } else { "" };
        let ended = world
            .ah(arguments.clone())
            .env("IS_SANDBOX", contained)
            .run();
        let is_told = ended
            .stderr
            .contains("permissions cannot be bypassed as root");
        assert_eq!(is_told, is_root && is_refused, "{arguments:?} {ended:#?}");
        assert_eq!(ended.code == Some(1), is_told, "{arguments:?} {ended:#?}");
    }
}

/// A deny or ask rule applies to a file under its own name and under that of a symbolic link, whichever the rule
/// names.
#[test]
fn rules_about_files_hold_behind_symbolic_links() {
    let world = World::new();
    world.write("data/key", "secret");
    for (link, target) in [("link", "data"), ("direct", "data/key")] {
        std::os::unix::fs::symlink(world.file(target), world.file(link)).unwrap();
    }
    for (at, (rule, path, is_denied)) in [
        ("Read(link/**)", "link/key", true),
        ("Read(link/**)", "data/key", true),
        ("Read(./link)", "data/key", true),
        ("Read(data/**)", "link/key", true),
        ("Read(data/**)", "direct", true),
        ("Read(direct)", "direct", true),
        ("Read(direct)", "data/key", true),
        ("Read(direct)", "data/../direct", true),
        ("Read(other)", "direct", false),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("cat {path}");
        let turns = [
            uses("Read", json!({"file_path": world.file(path)})),
            uses("bash", json!({"command": line})),
            says("Done."),
        ];
        let model = world.scenario(&format!("s{at}"), turns);
        let options = ["-n", "-m", &model, "--disallowed-tools", rule];
        let arguments = [&options[..], &["--output-format", "json", "--", "go"]].concat();
        let ended = world.ah(arguments).run().expect(0);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let denials = result["permission_denials"].as_array().unwrap();
        let expected = if is_denied { 2 } else { 0 };
        assert_eq!(denials.len(), expected, "{rule} for {path}: {result}");
    }
}

/// A denied command does not run in any mode, however it is written.
#[test]
fn a_denied_command_does_not_run_in_any_mode() {
    let world = World::new();
    let file = world.write("keep", "x");
    let commands = [
        "echo hi && rm keep",
        "env rm keep",
        "sh -c 'rm keep'",
        "$(echo rm) keep",
    ];
    let turns: Vec<_> = commands
        .iter()
        .map(|command| uses("bash", json!({"command": command})))
        .chain([says("Done.")])
        .collect();
    let model = world.scenario("s", turns);
    world
        .ah([
            "-m",
            &model,
            "--dangerously-skip-permissions",
            "--disallowed-tools",
            "Bash(rm:*)",
            "--",
            "go",
        ])
        .run()
        .expect(0);
    assert!(file.exists());
}

/// What a model was told about its calls, in order.
fn told(server: &Server) -> Vec<String> {
    let last = server.requests().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    { messages.iter() }
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].to_string())
        .collect()
}

#[test]
fn nobody_is_asked_about_a_change_that_must_fail() {
    let edit = |path: &str, old: &str| {
        uses(
            "edit",
            json!({"path": path, "old_string": old, "new_string": "new"}),
        )
    };
    let write = |path: &str| uses("write", json!({"path": path, "content": "x"}));
    let cases = [
        (edit("gone.txt", "one"), "`gone.txt`"),
        (edit("a.txt", "absent"), "old_string is not in `a.txt`"),
        (edit("a.txt", "one"), "old_string is 2 times in `a.txt`"),
        (edit("folder", "one"), "`folder`"),
        (write("folder"), "`folder`"),
        (write("a.txt/below"), "`a.txt` is a file"),
    ];
    let world = World::new();
    world.write("a.txt", "one one\n");
    world.write("folder/b.txt", "");
    let turns = std::iter::once(uses("read", json!({"path": "a.txt"})))
        .chain(cases.iter().map(|(turn, _)| turn.clone()))
        .chain([edit("a.txt", "one one"), says("Done.")]);
    let server = Server::new(turns);
    let arguments = [
        "-m",
        "sonnet",
        "--no-sandbox",
        "--permission-mode",
        "default",
        "go",
    ];
    let ended = { world.asking_as_typed(&server, arguments) }
        .at_terminal()
        .stdin("y\n")
        .run()
        .expect(0);
    let told = told(&server);
    for ((_, expected), told) in cases.iter().zip(&told[1..]) {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    // The last change was asked about, and only that.
    assert_eq!(world.text("a.txt"), "new\n", "{}", ended.stderr);
    assert_eq!(
        ended.stderr.matches("Allow?").count(),
        1,
        "{}",
        ended.stderr
    );
}

#[test]
fn a_change_that_must_fail_says_nothing_about_what_rules_hide() {
    let answers = |content: &str| {
        let world = World::new();
        for name in ["denied.txt", "asked.txt", "unread.txt"] {
            world.write(name, content);
        }
        let rules = json!({"permissions": {
            "deny": ["Edit(denied.txt)", "Read(unread.txt)"], "ask": ["Read(asked.txt)"],
        }});
        world.write(".ah/settings.json", rules.to_string());
        let edit = |path: &str| {
            uses(
                "edit",
                json!({"path": path, "old_string": "secret", "new_string": "x"}),
            )
        };
        let server = Server::new([
            edit("denied.txt"),
            edit("unread.txt"),
            edit("asked.txt"),
            says("Done."),
        ]);
        let arguments = [
            "-m",
            "sonnet",
            "--no-sandbox",
            "--permission-mode",
            "default",
            "--trust",
            "go",
        ];
        { world.asking_as_typed(&server, arguments) }
            .at_terminal()
            .stdin("n\n")
            .run();
        told(&server)
    };
    let (with, without) = (answers("a secret"), answers("nothing"));
    assert_eq!(with, without);
    assert_eq!(with.len(), 3);
    assert!(with[2].contains("does not want"), "{with:?}");
}

/// A line is judged by its words, and a program with a harmless name may do anything. The kernel keeps it to the verdict, also
/// where a rule allows the line, unless everything is allowed.
#[test]
fn a_command_that_is_judged_to_read_changes_nothing() {
    let world = World::new();
    let script = "#!/bin/sh\necho text > made; echo text > \"$HOME/made\"; echo ran\n";
    let program = world.write("bin/nproc", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", world.file("bin").display());
    let model = world.scenario(
        "s",
        [uses("bash", json!({"command": "nproc"})), says("Done.")],
    );
    let made = [world.file("made"), world.home().join("made")];
    for (options, is_free) in [
        (&["-p"][..], false),
        (&["-p", "--permission-mode", "plan"], false),
        (&["-p", "--permission-mode", "acceptEdits"], false),
        (&["-p", "--sandbox", "--permission-mode", "plan"], false),
        (&["-n"], false),
        (&["-p", "--allowed-tools", "Bash(nproc)"], false),
        (&["-n", "--permission-mode", "bypassPermissions"], true),
    ] {
        let arguments = [
            options,
            &["-m", &model, "--output-format", "json", "--", "go"],
        ]
        .concat();
        let ended = world.ah(arguments).env("PATH", &path).run().expect(0);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(result["permission_denials"], json!([]), "{options:?}");
        for made in &made {
            assert_eq!(made.exists(), is_free, "{options:?}: {}", made.display());
            let _ = fs::remove_file(made);
        }
    }
}

/// In the sandbox, a rule about a file holds for every program, also for a script that no rule looks into.
#[test]
fn denied_files_are_kept_from_all_programs_in_the_sandbox() {
    let rules = "Read(secret/**),Edit(guard/**)";
    for (denied, seen, guarded) in [("Web", "text", "new"), (rules, "", "old")] {
        let world = World::new();
        world.write("secret/key", "text");
        world.write("guard/file", "old");
        world.write(
            "go.sh",
            "cat secret/key > seen; printf new > guard/file; exit 0\n",
        );
        let turns = [uses("bash", json!({"command": "sh go.sh"})), says("Done.")];
        let model = world.scenario("s", turns);
        let options = [
            "-p",
            "--sandbox",
            "--allowed-tools",
            "Bash",
            "--disallowed-tools",
            denied,
        ];
        let arguments = [&options[..], &["-m", &model, "--", "go"]].concat();
        world.ah(arguments).run().expect(0);
        assert_eq!(world.text("seen"), seen, "{denied}");
        assert_eq!(world.text("guard/file"), guarded, "{denied}");
    }
}
