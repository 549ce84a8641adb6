//! Commands in files: substitution and permissions.

use std::fs;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::extensions::{asked, put};
use crate::support::binary::World;
use crate::support::shown::steady;

/// A scripted model can call any tool, so a command of an untrusted project may not choose one.
#[test]
fn a_command_of_a_project_that_is_not_trusted_does_not_bring_its_model() {
    let world = World::new();
    let model = world.scenario("evil", [says("Harm.")]);
    put(
        &world,
        ".ah/commands/look.md",
        &format!("---\nmodel: {model}\n---\nLook."),
    );
    let server = Server::new([says("Done.")]);
    let ended = world.asking(&server, ["-n", "/look"]).run().expect(0);
    assert_eq!(ended.stdout, "Done.\n");
    let told = "is not trusted; ignored: .ah/commands/look.md";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("is ignored: the project is not trusted"),
        "{}",
        ended.stderr
    );
    let ended = world.ah(["-n", "--trust", "/look"]).run().expect(0);
    assert_eq!(ended.stdout, "Harm.\n");
}

/// Commands of all layers, with every kind of substitution.
#[test]
fn commands_are_filled_in_where_they_are_called() {
    let world = World::new();
    put(&world, "notes.txt", "some notes\n");
    put(
        &world,
        "~/.ah/commands/git/fix.md",
        "---\ndescription: Fixes\nargument-hint: [issue] [branch]\n---\nFix $1 on $2 as in @notes.txt.\n\n!`echo \"of the shell: $2, $ARGUMENTS\"; exit 3`\n\nAll: ${@:2:1}\n",
    );
    let (told, ended) = asked(&world, &["/git:fix '#7' 'a; touch harm'"]);
    insta::assert_snapshot!(told.prompt, @r#"
        Fix #7 on a; touch harm as in @notes.txt.

        of the shell: a; touch harm, '#7' 'a; touch harm'


        All: a; touch harm

        <file path="notes.txt">
        some notes
        </file>
        "#);
    assert!(
        ended.stderr.contains("failed with exit code 3"),
        "{}",
        ended.stderr
    );
    assert!(!world.file("harm").exists());
    assert!(
        asked(&world, &["/fix 8 main"])
            .0
            .prompt
            .starts_with("Fix 8 on main")
    );
    for (place, body) in [
        ("~/.claude/commands/init.md", "Of the other agent."),
        ("~/.ah/commands/init.md", "Of the user."),
        (".claude/commands/init.md", "Of claude."),
        (".ah/commands/init.md", "Of the project."),
    ] {
        assert!(!asked(&world, &["/init"]).0.prompt.contains(body));
        put(&world, place, body);
        assert_eq!(asked(&world, &["/init"]).0.prompt, body);
    }
    assert_eq!(
        asked(&world, &[" /no-command at all"]).0.prompt,
        " /no-command at all"
    );
    assert_eq!(
        asked(&world, &["--", "/etc/hosts is what?"]).0.prompt,
        "/etc/hosts is what?"
    );
}

#[test]
fn a_command_names_its_model_and_what_it_may_do() {
    let world = World::new();
    let model = world.scenario(
        "other",
        [
            uses("bash", json!({"command": "touch made"})),
            says("Done."),
        ],
    );
    put(
        &world,
        "~/.ah/commands/make.md",
        &format!("---\nmodel: {model}\nallowed-tools: Bash(touch:*), Broken(\n---\nMake it."),
    );
    let ended = world
        .ah(["-n", "--permission-mode", "dontAsk", "/make"])
        .run()
        .expect(0);
    assert!(
        ended.stderr.contains("make.md: `Broken(` is not a rule"),
        "{}",
        ended.stderr
    );
    assert!(world.file("made").exists());
    let typed = world.scenario("typed", [says("Typed.")]);
    let ended = world.ah(["-n", "-m", &typed, "/make"]).run().expect(0);
    assert_eq!(ended.stdout, "Typed.\n");
}

/// A file may name commands to allow, but for a host, as in settings, no `*` that allows all of them.
#[test]
fn a_wildcard_of_a_command_allows_nothing_for_a_host() {
    for (rule, runs) in [("Bash(touch:*)", true), ("*", false)] {
        let world = World::new();
        let text = format!("---\nallowed-tools: \"{rule}\"\n---\nMake it.");
        put(&world, "~/.claude/commands/make.md", &text);
        let model = world.scenario(
            "made",
            [
                uses("Bash", json!({"command": "touch made"})),
                says("Done."),
            ],
        );
        let ended = world.ah(["-p", "-m", &model, "/make"]).run().expect(0);
        assert_eq!(world.file("made").exists(), runs, "{rule}: {ended:#?}");
        let warning = "make.md: `*` in `allowed-tools` allows nothing";
        assert_eq!(ended.stderr.contains(warning), !runs, "{}", ended.stderr);
    }
}

/// The shell lines of a command obey the user's rules: they do not run if denied or if they would need a question.
#[test]
fn the_lines_of_a_command_obey_the_rules() {
    let world = World::new();
    put(&world, ".env", "KEY=secret");
    put(
        &world,
        "~/.ah/commands/look.md",
        "A: !`echo fine`\nB: !`env touch denied`\nC: !`git push`\nD: !`$1 asked`\nE: @.env\n",
    );
    let settings = json!({"permissions": {
        "deny": ["Bash(touch:*)", "Read(.env)"], "ask": ["Bash(git push:*)"]
    }});
    let settings = settings.to_string();
    let (told, ended) = asked(&world, &["--settings", &settings, "/look", "touch"]);
    insta::assert_snapshot!(told.prompt, @"
        A: fine

        B: [`env touch denied` was not run: Permission to use bash was denied by the rule `Bash(touch:*)`.]
        C: [`git push` was not run: the rule `Bash(git push:*)` requires approval, and nobody can be asked here]
        D: [`$1 asked` was not run: the rule `Bash(touch:*)` might match it, and nobody can be asked here]
        E: @.env
        ");
    let warnings = steady(&world, &ended.stderr);
    let warnings = { warnings.lines() }.filter(|line| line.starts_with("warning:"));
    insta::assert_snapshot!(warnings.collect::<Vec<_>>().join("\n"), @"
        warning: <home>/.ah/commands/look.md: `env touch denied` is not run: Permission to use bash was denied by the rule `Bash(touch:*)`.
        warning: <home>/.ah/commands/look.md: `git push` is not run: the rule `Bash(git push:*)` requires approval, and nobody can be asked here
        warning: <home>/.ah/commands/look.md: `$1 asked` is not run: the rule `Bash(touch:*)` might match it, and nobody can be asked here
        warning: <home>/.ah/commands/look.md: `.env` is not read: Permission to use read was denied by the rule `Read(.env)`.
        ");
    assert!(!world.file("denied").exists() && !world.file("asked").exists());
}

/// Hooks may refuse the lines of a command, which they see with its arguments; they are asked about those alone that the
/// rules let run, and nothing but a refusal counts.
#[test]
fn hooks_may_refuse_the_lines_of_a_command() {
    let world = World::new();
    put(
        &world,
        "~/.ah/commands/look.md",
        "A: !`echo $1`\nB: !`touch made`\nC: !`touch other`\nD: !`git push`\n",
    );
    let hook = |matcher: &str, more: Value, command: &str| {
        let mut hook = json!({"type": "command", "command": command});
        hook.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"matcher": matcher, "hooks": [hook]})
    };
    let change = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "true"}}}'"#;
    let settings = json!({
        "hooks": {"PreSkillShellCommand": [
            hook("", json!({}), "cat >> told; echo >> told"),
            hook("Edit", json!({}), "exit 2"),
            hook("Bash", json!({"if": "Bash(touch made)"}), "echo by hand >&2; exit 2"),
            hook("Bash", json!({"if": "Bash(touch other)"}), change),
        ]},
        "permissions": {"deny": ["Bash(git push:*)"]},
    });
    let (told, _) = asked(
        &world,
        &["--settings", &settings.to_string(), "/look", "'so it is'"],
    );
    insta::assert_snapshot!(told.prompt, @"
        A: so it is

        B: [`touch made` was not run: by hand]
        C: [`touch other` was not run: a hook would change it]
        D: [`git push` was not run: Permission to use bash was denied by the rule `Bash(git push:*)`.]
        ");
    assert!(!world.file("made").exists() && !world.file("other").exists());
    let seen = fs::read_to_string(world.file("told")).unwrap();
    let seen = seen.lines().filter(|line| !line.is_empty()).map(|line| {
        let told: Value = serde_json::from_str(line).unwrap();
        let words = ["hook_event_name", "tool_name", "command_name", "invoked_by"];
        let words = words.map(|word| told[word].as_str().unwrap().to_owned());
        assert!(!told["tool_use_id"].as_str().unwrap().is_empty());
        format!("{}: {}", words.join(" "), told["tool_input"])
    });
    insta::assert_snapshot!(seen.collect::<Vec<_>>().join("\n"), @r#"
        PreSkillShellCommand bash look user: {"command":"echo so it is"}
        PreSkillShellCommand bash look user: {"command":"touch made"}
        PreSkillShellCommand bash look user: {"command":"touch other"}
        "#);
}

/// Read-only permission modes also apply to the shell lines of a command.
#[test]
fn the_lines_of_a_command_obey_the_mode() {
    let world = World::new();
    put(
        &world,
        "~/.ah/commands/look.md",
        "A: !`echo fine`\nB: !`touch made`\n",
    );
    for (mode, made, fine) in [
        ("plan", false, true),
        ("delegate", false, false),
        ("default", true, true),
    ] {
        let (told, _) = asked(&world, &["--permission-mode", mode, "/look"]);
        assert_eq!(world.file("made").exists(), made, "{mode}");
        assert_eq!(told.prompt.contains("A: fine"), fine, "{}", told.prompt);
    }
}

/// A path in a command cannot close the element that contains the file's text, and a long file is truncated.
#[test]
fn files_of_a_command_are_named_and_cut() {
    let world = World::new();
    put(&world, "a\"><b", "odd");
    put(&world, "long", &"é".repeat(60_000));
    put(&world, "~/.ah/commands/look.md", "See @$1 and @long.");
    let (told, _) = asked(&world, &["/look", "'a\"><b'"]);
    let odd = "<file path=\"a&quot;&gt;&lt;b\">\nodd\n</file>";
    assert!(told.prompt.contains(odd), "{}", &told.prompt[..200]);
    let cut = "é\n[cut after 100000 of 120000 bytes]\n</file>";
    assert!(told.prompt.ends_with(cut));
}
