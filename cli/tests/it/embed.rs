//! `ah embed`: a folder is embedded in a copy of the program, applies there, and can be extracted again.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::support::binary::{Ah, World, wait_for_file};
use crate::support::shown::shown;

/// A folder with one extension of each kind.
fn folder(world: &World) -> PathBuf {
    for (name, text) in [
        ("system.md", "You are the tea master.\n"),
        (
            "settings.json",
            r#"{"temperature": 0.25, "model": "haiku"}"#,
        ),
        (
            "env.d/10-tea",
            "# of the house\nTEA=green\nHOUSE_TOKEN=embedded-token-1\n",
        ),
        ("env.d/20-cup", "TEA=black\nexport CUP='small one'\n"),
        (
            "skills/tea/SKILL.md",
            "---\nname: tea\ndescription: Makes tea.\n---\nBoil the water first.\n",
        ),
        ("commands/brew.md", "Brew $1 now.\n"),
        ("notes/deep/er.txt", "Leaves.\n"),
    ] {
        world.write(&format!("kit/{name}"), text);
    }
    let program = world.write("kit/bin/steep", "#!/bin/sh\necho steeped\n");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    world.file("kit")
}

/// The files below a folder: path, whether executable, content.
fn tree(folder: &Path) -> Vec<(PathBuf, bool, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(place) = folders.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let mode = path.metadata().unwrap().permissions().mode();
                let below = path.strip_prefix(folder).unwrap().to_owned();
                files.push((below, mode & 0o111 != 0, fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// A new world that contains only the copy of the program, with a minimal environment.
fn alone(copy: &Path) -> World {
    let world = World::new();
    // An executable open for writing cannot be run, and a child that another test forks would inherit this process's
    // open file. So another process copies it.
    let copied = Command::new("cp")
        .arg(copy)
        .arg(world.file("tool"))
        .status();
    assert!(copied.unwrap().success());
    world
}

fn tool<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
    world.program(&world.file("tool"), arguments)
}

/// Extraction returns what was embedded, and embedding again replaces it.
#[test]
fn b2_a_folder_goes_in_and_comes_out_and_is_replaced() {
    let world = World::new();
    folder(&world);
    let ended = world.ah(["embed", "kit", "-o", "one"]).run();
    assert!(
        ended.stdout.starts_with("embedded 8 file(s) in "),
        "{ended:?}"
    );
    let elsewhere = alone(&world.file("one"));
    let ended = tool(&elsewhere, ["extract", "out"]).run();
    insta::assert_snapshot!(shown(&elsewhere, &ended), @"
        stdout:
        extracted 8 file(s) to out
        exit code 0
        ");
    assert_eq!(tree(&world.file("kit")), tree(&elsewhere.file("out")));

    // From the copy, back to its own path: files in the way are replaced, and archives are not stacked.
    fs::write(elsewhere.file("out/extra"), "more").unwrap();
    fs::remove_dir_all(elsewhere.file("out/env.d")).unwrap();
    fs::set_permissions(elsewhere.file("tool"), fs::Permissions::from_mode(0o750)).unwrap();
    tool(&elsewhere, ["embed", "out", "-o", "tool"])
        .run()
        .expect(0);
    tool(&elsewhere, ["extract", "again"]).run().expect(0);
    assert_eq!(tree(&elsewhere.file("out")), tree(&elsewhere.file("again")));
    let metadata = fs::metadata(elsewhere.file("tool")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o750);
    let plain = fs::metadata(env!("CARGO_BIN_EXE_ah")).unwrap().len();
    assert!(metadata.len() > plain && metadata.len() < plain + 10_000);
    // An empty folder restores the plain program, byte by byte.
    fs::create_dir(elsewhere.file("empty")).unwrap();
    tool(&elsewhere, ["embed", "empty", "--output", "plain"])
        .run()
        .expect(0);
    assert_eq!(fs::metadata(elsewhere.file("plain")).unwrap().len(), plain);
    let names = fs::read_dir(elsewhere.project()).unwrap().count();
    assert_eq!(names, 5, "nothing temporary is left");
}

/// In an empty folder with an empty environment, everything embedded applies. The model can read embedded and
/// built-in files; embedded variables never override existing ones.
#[test]
fn b2_what_is_embedded_is_in_force() {
    let world = World::new();
    folder(&world);
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let elsewhere = alone(&world.file("one"));
    let model = elsewhere.scenario(
        "s",
        [
            uses("bash", json!({"command": "echo $TEA, $CUP, $HOUSE_TOKEN"})),
            uses("read", json!({"path": "/zip/embed/skills/tea/SKILL.md"})),
            uses(
                "read",
                json!({"path": "/zip/embed/sys/skills/ah-tools.md", "limit": 2}),
            ),
            uses("read", json!({"path": "/zip/embed"})),
            uses("glob", json!({"pattern": "10-*", "path": "/zip/embed"})),
            uses(
                "grep",
                json!({"pattern": "embedded-token", "path": "/zip/embed"}),
            ),
            uses(
                "write",
                json!({"path": "/zip/embed/skills/tea/SKILL.md", "content": "x"}),
            ),
            says("Done."),
        ],
    );
    let ended = tool(&elsewhere, ["-m", &model, "go"])
        .env("CUP", "mine")
        .run();
    insta::assert_snapshot!(shown(&elsewhere, &ended), @"
        stdout:
        Done.
        stderr:
        >>> go
        bash (<n>s)
          $ echo $TEA, $CUP, $HOUSE_TOKEN
          green, mine,

        read (<n>s)
          /zip/embed/skills/tea/SKILL.md
          1	---
          2	name: tea
          3	description: Makes tea.
          ... (2 more lines)

        read (<n>s)
          /zip/embed/sys/skills/ah-tools.md
          1	---
          2	name: ah-tools

        read (<n>s)
          /zip/embed
          `/zip/embed` is a directory with 7 entries
          bin/
          commands/
          ... (5 more lines)

        glob (<n>s)
          10-*
          no files match

        grep (<n>s)
          embedded-token
          no matches

        ✗ write (<n>s)
          /zip/embed/skills/tea/SKILL.md
          cannot write `/zip/embed/skills/tea/SKILL.md`: it is a part of the program, w…
        exit code 0
        ");
    let ended = tool(&elsewhere, ["config", "show", "--origin"]).run();
    insta::assert_snapshot!(shown(&elsewhere, &ended), @"
        stdout:
        model                    haiku     embedded
        undoMegabytes            1024      built in
        toolConcurrency          auto      built in
        maxToolOutputBytes       67108864  built in
        temperature              0.25      embedded
        permissions.defaultMode  default   built in
        exit code 0
        ");
}

/// Embedded prompts replace the built-in ones.
#[test]
fn b2_embedded_prompts_take_the_place_of_those_built_in() {
    let world = World::new();
    world.write("kit/system.md", "You are the tea master.\n");
    world.write("kit/claude.md", "Warm the pot.\n");
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let elsewhere = alone(&world.file("one"));
    let printed = tool(&elsewhere, ["prompt"]).run().expect(0).stdout;
    let parts: Vec<_> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        parts[..5],
        [
            "=== system.md ===",
            "You are the tea master.",
            "=== claude.md ===",
            "Warm the pot.",
            "=== environment ==="
        ]
    );
}

/// Embedded skills, commands and tools form a layer, and executables run.
#[test]
fn b2_embedded_tools_skills_and_commands_work() {
    let world = World::new();
    folder(&world);
    let lua = r#"return {name = "pour", description = "Pours.", input_schema = {type = "object"},
        execute = function() return "poured" end}"#;
    world.write("kit/tools/pour.lua", lua);
    world.write("kit/bin/steep.md", "---\ndescription: Steeps.\n---\n");
    world.write(
        "kit/skills/count/SKILL.md",
        "---\nname: count\ndescription: Counts.\n---\nRun `sh scripts/count.sh`.\n",
    );
    world.write("kit/skills/count/scripts/count.sh", "echo one two\n");
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let elsewhere = alone(&world.file("one"));
    let listed = tool(&elsewhere, ["tools"]).run().expect(0).stdout;
    let embedded: Vec<_> = listed
        .lines()
        .filter(|line| line.contains(" embedded "))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    insta::assert_snapshot!(embedded.join("\n"), @"
        pour embedded /zip/embed/tools/pour.lua Pours.
        steep embedded /zip/embed/bin/steep Steeps.
        ");
    let model = elsewhere.scenario(
        "s",
        [
            uses("pour", json!({})),
            uses("steep", json!({"args": ""})),
            uses("skill", json!({"name": "tea"})),
            uses("skill", json!({"name": "count"})),
            uses("bash", json!({"command": "cd ${TMPDIR:-/tmp}/ah-embedded-*/skills/count && sh scripts/count.sh"})),
            says("Done."),
        ],
    );
    let temporary = elsewhere.file("tmp");
    fs::create_dir(&temporary).unwrap();
    let ended = tool(&elsewhere, ["-m", &model, "/brew oolong"])
        .env("TMPDIR", &temporary)
        .run();
    let page = shown(&elsewhere, &ended);
    let name = regex::Regex::new("ah-embedded-[A-Za-z0-9]+").unwrap();
    insta::assert_snapshot!(name.replace_all(&page, "ah-embedded-X"), @r#"
        stdout:
        Done.
        stderr:
        >>> /brew oolong
        pour (<n>s)
          poured

        steep (<n>s)
          steeped

        skill (<n>s)
          tea
          <skill name="tea" location="/zip/embed/skills/tea/SKILL.md">
          Paths in this skill are relative to /zip/embed/skills/tea.
          Boil the water first.
          ... (1 more line)

        skill (<n>s)
          count
          <skill name="count" location="<project>/tmp/ah-embedded-X
          Paths in this skill are relative to <project>/tmp/ah-embedded-
          Run `sh scripts/count.sh`.
          ... (1 more line)

        bash (<n>s)
          $ cd ${TMPDIR:-/tmp}/ah-embedded-*/skills/count && sh scripts/count.sh
          one two
        exit code 0
        "#);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // The next run removes what a killed run left behind, but not the folder of a running one.
    let turns = [uses(
        "bash",
        json!({"command": "echo on > started; sleep 600"}),
    )];
    let model = elsewhere.scenario("endless", turns);
    let alive = tool(&elsewhere, ["-m", &model, "--new", "go"])
        .env("TMPDIR", &temporary)
        .start();
    wait_for_file(&elsewhere.file("started"));
    // A folder without a lock file is not known to be abandoned.
    fs::create_dir(temporary.join("ah-embedded-other")).unwrap();
    let folders_after_a_run = || {
        let list = tool(&elsewhere, ["tools"]).env("TMPDIR", &temporary);
        list.run().expect(0);
        fs::read_dir(&temporary).unwrap().count()
    };
    assert_eq!(folders_after_a_run(), 2);
    alive.kill();
    assert_eq!(folders_after_a_run(), 1);
}

#[test]
fn b2_what_cannot_be_embedded_is_refused() {
    let world = World::new();
    folder(&world);
    world.write("link/a", "");
    symlink("/etc/passwd", world.file("link/b")).unwrap();
    world.write("builtin/sys/system.md", "");
    world.write("settings/settings.json", "{\n \"model\": 3}");
    world.write("variables/env.d/a", "A=b\nhunter2\n");
    let mut pages = Vec::new();
    for line in [
        "embed",
        "embed none",
        "embed kit/system.md",
        "embed kit -o .",
        "embed kit -o none/ah",
        "embed . -o ah",
        "embed link",
        "embed builtin",
        "embed settings",
        "embed variables",
        "extract out",
    ] {
        let ended = world.ah(line.split(' ')).run();
        pages.push(format!("$ ah {line}\n{}", shown(&world, &ended)));
    }
    insta::assert_snapshot!(pages.join("\n"), @"
        $ ah embed
        stderr:
        error: the following required arguments were not provided: <DIR>
        hint: `ah embed --help` shows its options
        exit code 2
        $ ah embed none
        stderr:
        error: cannot read `none`: No such file or directory (os error 2)
        exit code 1
        $ ah embed kit/system.md
        stderr:
        error: cannot read `<project>/kit/system.md`: Not a directory (os error 20)
        exit code 1
        $ ah embed kit -o .
        stderr:
        error: `<project>` is a folder
        hint: choose a file with -o
        exit code 1
        $ ah embed kit -o none/ah
        stderr:
        error: cannot write to `none`: No such file or directory (os error 2)
        exit code 1
        $ ah embed . -o ah
        stderr:
        error: `ah` is inside the folder to embed
        hint: choose another path with -o
        exit code 1
        $ ah embed link
        stderr:
        error: cannot embed `<project>/link/b`: not a regular file
        hint: replace it with a copy of its target
        exit code 1
        $ ah embed builtin
        stderr:
        error: `sys/system.md` is in the folder reserved for built-in files
        exit code 1
        $ ah embed settings
        stderr:
        error: settings.json:2:11: invalid type: integer `3`, expected a string
        hint: correct the file, or choose the settings files to read with `--setting-sources`
        exit code 1
        $ ah embed variables
        stderr:
        error: `env.d/a` line 2: expected `NAME=value`
        exit code 1
        $ ah extract out
        stderr:
        error: this program has no embedded files
        hint: `ah embed DIR` makes a copy with embedded files; --builtin extracts the built-in files
        exit code 1
        ");
    assert!(!world.file("ah").exists() && !world.file("out").exists());
}

/// A damaged archive is reported, and the program still works.
#[test]
fn b2_a_damaged_archive_is_told_and_the_program_still_runs() {
    let world = World::new();
    folder(&world);
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let whole = fs::read(world.file("one")).unwrap();
    let plain = fs::metadata(env!("CARGO_BIN_EXE_ah")).unwrap().len() as usize;
    let mut in_content = whole.clone();
    in_content[plain + 60] ^= 0xff;
    let end = whole.len();
    let mut in_directory = whole.clone();
    in_directory[end - 20..end - 16].fill(0xff);
    let mut in_length = whole;
    in_length[end - 16..end - 8].fill(0xff);
    let elsewhere = alone(&world.file("one"));
    let model = elsewhere.scenario("s", [says("Done.")]);
    for damaged in [in_content, in_directory, in_length] {
        fs::write(elsewhere.file("tool"), damaged).unwrap();
        let ended = tool(&elsewhere, ["-n", "-m", &model, "go"]).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done.\n"));
        let told = "error: the files embedded in this program are damaged: ";
        assert!(ended.stderr.starts_with(told), "{ended:?}");
        let ended = tool(&elsewhere, ["extract", "out"]).run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(!elsewhere.file("out").exists());
    }
}

#[test]
fn b3_the_built_in_files_can_be_had() {
    let world = World::new();
    world.ah(["extract", "--builtin", "out"]).run().expect(0);
    let files = tree(&world.file("out"));
    assert!(
        files
            .iter()
            .any(|(path, ..)| path == Path::new("system.md"))
    );
    // A symbolic link to a file is replaced, and one to a folder is not followed.
    fs::remove_file(world.file("out/system.md")).unwrap();
    symlink("../kept", world.file("out/system.md")).unwrap();
    world.write("kept", "kept");
    world.ah(["extract", "--builtin", "out"]).run().expect(0);
    assert_eq!(tree(&world.file("out")), files);
    assert_eq!(world.text("kept"), "kept");
}

/// Paths of embedded files also work in commands and in Lua.
#[test]
fn embedded_paths_lead_somewhere_in_commands_and_in_lua() {
    let world = World::new();
    world.write("kit/notes/er.txt", "Leaves.\n");
    world.write(
        "kit/commands/look.md",
        "Look at @/zip/embed/notes/er.txt.\n",
    );
    let lua = r#"return {name = "leaves", description = "Reads.", input_schema = {type = "object"},
        execute = function() return require("fs").read("/zip/embed/notes/er.txt") end}"#;
    world.write("kit/tools/leaves.lua", lua);
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let elsewhere = alone(&world.file("one"));
    let says_what_it_hears = Turn {
        text: Some("<{{user}}>".into()),
        ..uses("leaves", json!({}))
    };
    let model = elsewhere.scenario("s", [says_what_it_hears, says("Done.")]);
    let ended = tool(&elsewhere, ["-m", &model, "/look"]).run().expect(0);
    let heard = "<file path=\"/zip/embed/notes/er.txt\">\nLeaves.\n</file>";
    assert!(ended.stdout.contains(heard), "{}", ended.stdout);
    assert!(ended.stderr.contains("  Leaves.\n"), "{}", ended.stderr);
}

/// A variable from `env.d` also applies to the program itself.
#[test]
fn b3_an_embedded_no_color_takes_the_colours_away() {
    let world = World::new();
    world.write("kit/env.d/look", "NO_COLOR=1\n");
    world.ah(["embed", "kit", "-o", "one"]).run().expect(0);
    let elsewhere = alone(&world.file("one"));
    let turns = [uses("bash", json!({"command": "true"})), says("Done.")];
    let model = elsewhere.scenario("s", turns);
    let arguments = ["-m", &model, "--new", "go"];
    for (run, is_coloured) in [
        (elsewhere.ah(arguments), true),
        (tool(&elsewhere, arguments), false),
    ] {
        let ended = run.env("TERM", "xterm").at_terminal().run().expect(0);
        let has_dim_time = ended.stderr.contains("\u{1b}[2m(");
        assert_eq!(has_dim_time, is_coloured, "{ended:?}");
    }
}
