//! The default sandbox of a run's commands, and the permission questions that remain.

use std::fs;

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::is_missing;
use crate::support::binary::{Ended, World};

/// A model that tries to read a secret in the home and to write a file in the project.
fn curious(world: &World) -> String {
    let secret = world.home().join("secret");
    fs::write(&secret, "canary").unwrap();
    let command = format!("cat {}; touch made", secret.display());
    world.scenario(
        "curious",
        [uses("bash", json!({ "command": command })), says("Done.")],
    );
    format!("script:{}", world.file("curious.json").display())
}

/// Whether the secret was read, and whether the file was written.
fn came_of(world: &World, ended: &Ended) -> (bool, bool) {
    let shown = ended.stderr.contains("canary") || ended.stdout.contains("canary");
    (shown, world.file("made").exists())
}

#[test]
fn commands_are_confined_and_need_no_question_without_a_word_of_it() {
    if is_missing() {
        return;
    }
    for options in [
        &[][..],
        &["--allow-host", "a.example:443"],
        &["--dangerously-skip-permissions"],
        &["--permission-mode", "bypassPermissions"],
    ] {
        let world = World::new();
        let model = curious(&world);
        let arguments = [&["-m", &model], options, &["go"]].concat();
        let ended = world.as_typed(arguments).run().expect(0);
        assert_eq!(
            came_of(&world, &ended),
            (false, true),
            "{options:?}: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("your rights"), "{}", ended.stderr);
    }
    // A requested permission mode applies in the sandbox as well.
    let world = World::new();
    let model = curious(&world);
    let arguments = ["-m", &model, "--permission-mode", "default", "go"];
    let ended = world.as_typed(arguments).run().expect(0);
    assert_eq!(came_of(&world, &ended), (false, false), "{}", ended.stderr);
}

#[test]
fn where_there_is_no_sandbox_a_run_without_a_person_only_reads() {
    // On no machine can the home directory as the project be sandboxed.
    for (options, expected, line) in [
        (
            &[][..],
            (false, false),
            "so this run is read-only: `<home>` contains the home directory",
        ),
        (
            &["--no-sandbox"],
            (false, false),
            "so this run is read-only",
        ),
        (
            &["--dangerously-skip-permissions"],
            (true, true),
            "tools run without questions and with your full permissions: `<home>` contains",
        ),
    ] {
        let world = World::new();
        let model = curious(&world);
        let home = world.home();
        fs::create_dir(home.join("project")).unwrap();
        let arguments = [&["-m", &model], options, &["go"]].concat();
        let ended = world.as_typed(arguments).within(&home).run().expect(0);
        let made = home.join("made").exists();
        let (read, _) = came_of(&world, &ended);
        assert_eq!((read, made), expected, "{options:?}: {}", ended.stderr);
        let told = ended.stderr.replace(home.to_str().unwrap(), "<home>");
        assert_eq!(told.matches(line).count(), 1, "{options:?}: {told}");
    }
}

#[test]
fn where_there_is_no_sandbox_a_person_is_asked_about_each_command() {
    for (typed, expected) in [("y\n", true), ("n\n", false)] {
        let world = World::new();
        let model = curious(&world);
        let home = world.home();
        let ended = world
            .as_typed(["-m", &model, "go"])
            .within(&home)
            .at_terminal()
            .stdin(typed)
            .run()
            .expect(0);
        assert_eq!(home.join("made").exists(), expected, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("so ah asks before each one"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn in_another_agents_place_its_settings_say_whether_commands_are_confined() {
    if is_missing() {
        return;
    }
    let allowed = ["--allowedTools", "Bash"];
    for (options, settings, project, expected) in [
        (&allowed[..], "{}", "{}", (true, true)),
        (&[], r#"{"enabled": true}"#, "{}", (false, true)),
        (
            &[],
            r#"{"enabled": true, "autoAllowBashIfSandboxed": false}"#,
            "{}",
            (false, false),
        ),
        // A project may turn the sandbox on, which does not spare any question.
        (&[], "{}", r#"{"enabled": true}"#, (false, false)),
        (&allowed, "{}", r#"{"enabled": true}"#, (false, true)),
        (
            &[],
            r#"{"enabled": true}"#,
            r#"{"autoAllowBashIfSandboxed": false}"#,
            (false, false),
        ),
        (
            &allowed,
            r#"{"enabled": true}"#,
            r#"{"enabled": false}"#,
            (false, true),
        ),
    ] {
        let world = World::new();
        let secret = world.home().join("secret");
        fs::write(&secret, "canary").unwrap();
        let command = format!("cat {}; touch made", secret.display());
        let turns = [uses("Bash", json!({ "command": command })), says("Done.")];
        let model = world.scenario("s", turns);
        world.write(
            ".claude/settings.json",
            format!("{{\"sandbox\": {project}}}"),
        );
        let settings = format!("{{\"sandbox\": {settings}}}");
        let common = ["-p", "--trust", "-m", &model, "--settings", &settings];
        let format = ["--output-format", "json"];
        let arguments = [&common[..], &format, options, &["--", "go"]].concat();
        let ended = world.as_typed(arguments).run().expect(0);
        let database = rusqlite::Connection::open(world.database()).unwrap();
        let query =
            "SELECT CAST(tool_output AS TEXT) FROM content_blocks WHERE block_type = 'tool_result'";
        let result: String = database.query_row(query, [], |row| row.get(0)).unwrap();
        let came = (result.contains("canary"), world.file("made").exists());
        assert_eq!(
            came, expected,
            "{settings} {project}: {result} {}",
            ended.stderr
        );
    }
}

#[test]
fn a_project_cannot_open_the_sandbox_even_if_it_is_trusted() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let model = curious(&world);
    let secret = world.home().join("secret").display().to_string();
    let loose = json!({ "sandbox": { "enabled": false, "unveil": [secret], "allowHosts": ["a.example:443"] } });
    world.write(".ah/settings.json", loose.to_string());
    let ended = world
        .as_typed(["-m", &model, "--trust", "go"])
        .run()
        .expect(0);
    assert_eq!(came_of(&world, &ended), (false, true), "{}", ended.stderr);
    for key in ["enabled", "unveil", "allowHosts"] {
        let line = format!("`sandbox.{key}` has an effect only in your own settings");
        assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    }
    // The same settings in the user's own file are the user's.
    let own = world.home().join(".ah");
    fs::create_dir_all(&own).unwrap();
    fs::rename(world.file(".ah/settings.json"), own.join("settings.json")).unwrap();
    let set = json!({ "sandbox": { "unveil": [secret] } });
    fs::write(own.join("settings.json"), set.to_string()).unwrap();
    let ended = world.as_typed(["-n", "-m", &model, "go"]).run().expect(0);
    assert_eq!(came_of(&world, &ended), (true, true), "{}", ended.stderr);
}

#[test]
fn within_a_sandbox_commands_are_confined_by_the_lesser_tier_without_a_word_of_it() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let other = world.file("other");
    fs::create_dir(&other).unwrap();
    world.write("kept", "canary");
    let command = "cat ../kept; echo new > made; echo new > ../made";
    world.scenario(
        "inner",
        [uses("bash", json!({ "command": command })), says("Done.")],
    );
    let binary = env!("CARGO_BIN_EXE_ah");
    let unveiled = format!("{binary}:rx");
    let model = format!("script:{}", world.file("inner.json").display());
    // A variable alone would let anybody claim an outer sandbox.
    let outer = [
        "sandbox", "exec", "--unveil", &unveiled, "--", "env", "-C", "other",
    ];
    let inner = [binary, "-m", &model, "go"];
    let ended = world
        .as_typed(outer.into_iter().chain(inner))
        .run()
        .expect(0);
    assert!(
        ended
            .stderr
            .contains("commands are sandboxed only by Landlock"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("canary"), "{}", ended.stderr);
    assert_eq!(world.text("other/made"), "new\n", "{}", ended.stderr);
    assert!(!world.file("made").exists());
}
