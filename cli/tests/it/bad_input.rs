//! Invalid input: every error says what is wrong, where, and what to do; nothing is lost and nothing panics.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::shown::shown;

/// The output of each command line, in a world set up by `prepare`.
fn pages(prepare: impl Fn(&World), lines: &[&str]) -> String {
    let page = |line: &&str| {
        let world = World::new();
        prepare(&world);
        let ended = world.ah(line.split_whitespace()).run().without_panic();
        format!(
            "$ ah {line}\n{}\n",
            shown(&world, &ended).replace("stderr:\n", "")
        )
    };
    lines.iter().map(page).collect::<Vec<_>>().join("\n")
}

#[test]
fn options_that_cannot_be_read() {
    let lines = [
        "--bogus go",
        "--verbos go",
        "-x go",
        "--model",
        "--max-turns 0 go",
        "--max-turns many go",
        "--max-budget-usd -1 go",
        "--timeout x go",
        "--permission-mode sometimes go",
        "--tool-concurrency often go",
        "--output-format xml go",
        "--system-prompt a --system-prompt-file b go",
        "--dangerously-skip-permissions --permission-mode plan go",
        "--allowed-tools Bash( go",
        "--setting-sources everywhere go",
        "--cd /no/such/folder go",
        "--settings none.json go",
        "--settings {\"model\":3} go",
        "--steer hello there",
        "--steer=",
        "--debug==x go",
        "@99999999999 go",
        "@3",
    ];
    insta::assert_snapshot!(pages(|_| (), &lines), @r#"
$ ah --bogus go
error: unknown option `--bogus`
hint: `ah --help` lists all options and commands
exit code 2

$ ah --verbos go
error: unknown option `--verbos`
hint: did you mean `--verbose`?
exit code 2

$ ah -x go
error: unknown option `-x`
hint: `ah --help` lists all options and commands
exit code 2

$ ah --model
error: a value is required for `--model <NAME>` but none was supplied
hint: `ah --help` lists all options and commands
exit code 2

$ ah --max-turns 0 go
error: invalid value `0` for `--max-turns <N>`: expected a whole number above 0
hint: `ah --help` lists all options and commands
exit code 2

$ ah --max-turns many go
error: invalid value `many` for `--max-turns <N>`: expected a whole number above 0
hint: `ah --help` lists all options and commands
exit code 2

$ ah --max-budget-usd -1 go
error: invalid value `-1` for `--max-budget-usd <USD>`: expected a number above 0
hint: `ah --help` lists all options and commands
exit code 2

$ ah --timeout x go
error: invalid value `x` for `--timeout <SECONDS>`: expected a number above 0
hint: `ah --help` lists all options and commands
exit code 2

$ ah --permission-mode sometimes go
error: invalid value `sometimes` for `--permission-mode <MODE>` [possible values: default, sandboxed, acceptEdits, plan, dontAsk, delegate, bypassPermissions]
hint: `ah --help` lists all options and commands
exit code 2

$ ah --tool-concurrency often go
error: invalid value `often` for `--tool-concurrency <WHEN>` [possible values: auto, serial, parallel]
hint: `ah --help` lists all options and commands
exit code 2

$ ah --output-format xml go
error: invalid value `xml` for `--output-format <FORMAT>` [possible values: text, events, json, stream-json]
hint: `ah --help` lists all options and commands
exit code 2

$ ah --system-prompt a --system-prompt-file b go
error: the argument `--system-prompt <TEXT>` cannot be used with `--system-prompt-file <FILE>`
hint: `ah --help` lists all options and commands
exit code 2

$ ah --dangerously-skip-permissions --permission-mode plan go
error: `--dangerously-skip-permissions` contradicts `--permission-mode`
exit code 2

$ ah --allowed-tools Bash( go
error: `Bash(` is not a rule: expected `Tool` or `Tool(content)`
exit code 2

$ ah --setting-sources everywhere go
error: unknown setting source `everywhere`
hint: use user, project or local
exit code 2

$ ah --cd /no/such/folder go
error: cannot work in `/no/such/folder`: No such file or directory (os error 2)
exit code 2

$ ah --settings none.json go
error: cannot read the settings in `none.json`: No such file or directory (os error 2)
hint: `--settings` takes a file, or JSON that begins with `{`
exit code 2

$ ah --settings {"model":3} go
error: --settings:1:10: invalid type: integer `3`, expected a string
hint: correct the file, or choose the settings files to read with `--setting-sources`
exit code 2

$ ah --steer hello there
error: unexpected `there` after a message for a session
hint: put the whole message in quotes
exit code 2

$ ah --steer=
error: no session in this folder
hint: start one with `ah "TASK"`, or see `ah demo`
exit code 1

$ ah --debug==x go
error: the log filter `=x` cannot be read: invalid filter directive
hint: for example `debug`, or `ah_agent=trace,info`
exit code 1

$ ah @99999999999 go
error: message not found: @99999999999
exit code 2

$ ah @3
error: no prompt
hint: run `ah "TASK"`, or pipe the prompt in
exit code 2
"#);
}

#[test]
fn who_is_not_there_is_named() {
    let lines = ["--agent x go", "-n --resume-session-at 7 go"];
    insta::assert_snapshot!(pages(|_| (), &lines), @r#"
$ ah --agent x go
error: there is no agent `x`
hint: known agents: Explore, general-purpose, Plan
exit code 2

$ ah -n --resume-session-at 7 go
error: `--resume-session-at` needs a session to resume
hint: add `-c`, or `-r ID`
exit code 2
"#);
}

#[test]
fn words_after_a_subcommand_are_never_run() {
    let lines = [
        "sessions of the week",
        "usage of tabs",
        "tree planting",
        "demo of the app",
        "config",
        "config set x",
        "completions bish",
    ];
    insta::assert_snapshot!(pages(|_| (), &lines), @"
$ ah sessions of the week
error: unrecognized subcommand `of`
hint: `ah sessions --help` lists its commands; to send it as a prompt: ah -- sessions of the week
exit code 2

$ ah usage of tabs
error: unexpected `of`
hint: to send it as a prompt: ah -- usage of tabs
exit code 2

$ ah tree planting
error: unexpected `planting`
hint: to send it as a prompt: ah -- tree planting
exit code 2

$ ah demo of the app
error: unrecognized subcommand `of`
hint: `ah demo --help` lists its commands; to send it as a prompt: ah -- demo of the app
exit code 2

$ ah config
error: `ah config` needs a command
hint: `ah config --help` lists them
exit code 2

$ ah config set x
error: unrecognized subcommand `set`
hint: `ah config --help` lists its commands; to send it as a prompt: ah -- config set x
exit code 2

$ ah completions bish
error: invalid value `bish` for `<SHELL>` [possible values: bash, elvish, fish, powershell, zsh]
hint: to send it as a prompt: ah -- completions bish
exit code 2
");
}

#[test]
fn models_and_scenarios_that_are_none() {
    let prepare = |world: &World| {
        world.write("bad.yaml", "turns:\n  - txt: hello\n");
        world.write("torn.yaml", "turns:\n  - text: \"hello\n");
        world.write("empty.yaml", "turns: []\n");
        world.write("bytes.yaml", [0xff, 0xfe, 0x00]);
        world.write("folder/inside", "");
        world.scenario("short", [uses("bash", json!({"command": "true"}))]);
    };
    let lines = [
        "-m no-such-model go",
        "-m nowhere/model go",
        "-m script:none.yaml go",
        "-m script:bad.yaml go",
        "-m script:torn.yaml go",
        "-m script:empty.yaml go",
        "-m script:bytes.yaml go",
        "-m script:folder go",
        "-m script: go",
        "-m script:short.json --permission-mode plan go",
        "-m script:short.json --record /no/such/folder/run.yaml go",
        "-m script:short.json --system-prompt-file none go",
        "-m script:short.json --db folder go",
        "-m script:short.json --debug=[ go",
        "-m script:short.json --debug-file /no/such/folder/log go",
    ];
    insta::assert_snapshot!(pages(prepare, &lines), @"
$ ah -m no-such-model go
error: no model is named `no-such-model`
hint: known are `fable`, `opus`, `sonnet`, `haiku`, a name that begins with `claude-`, `anthropic/NAME`, `litellm/NAME`, `openai/NAME`, `openai-responses/NAME`, `ollama/NAME`, `script:PATH` and `script:demo`
exit code 1

$ ah -m nowhere/model go
error: no model is named `nowhere/model`
hint: known are `fable`, `opus`, `sonnet`, `haiku`, a name that begins with `claude-`, `anthropic/NAME`, `litellm/NAME`, `openai/NAME`, `openai-responses/NAME`, `ollama/NAME`, `script:PATH` and `script:demo`
exit code 1

$ ah -m script:none.yaml go
error: cannot read the scenario <project>/none.yaml: No such file or directory (os error 2)
hint: `script:demo` is built in; any other name is a path
exit code 1

$ ah -m script:bad.yaml go
error: the scenario <project>/bad.yaml is not valid: unknown field `txt`, expected one of request, expect, repeat, delay_ms, chunk_delay_ms, pieces, error, thinking, signature, text, tool, tools, content, stop_reason, usage, stream_error, cut, hang, wire at line 2, column 5
hint: docs/scripted-model.md lists the fields of a scenario
exit code 1

$ ah -m script:torn.yaml go
error: the scenario <project>/torn.yaml is not valid: invalid indentation in multiline quoted scalar at line 3, column 1
hint: docs/scripted-model.md lists the fields of a scenario
exit code 1

$ ah -m script:empty.yaml go
error: the scenario <project>/empty.yaml is not valid: a scenario needs at least one turn
hint: docs/scripted-model.md lists the fields of a scenario
exit code 1

$ ah -m script:bytes.yaml go
error: cannot read the scenario <project>/bytes.yaml: stream did not contain valid UTF-8
hint: `script:demo` is built in; any other name is a path
exit code 1

$ ah -m script:folder go
error: cannot read the scenario <project>/folder: Is a directory (os error 21)
hint: `script:demo` is built in; any other name is a path
exit code 1

$ ah -m script: go
error: cannot read the scenario <project>/: Is a directory (os error 21)
hint: `script:demo` is built in; any other name is a path
exit code 1

$ ah -m script:short.json --permission-mode plan go
>>> go
bash (<n>s)
  $ true
  (no output)

error: the scenario `short` ends with turn 1, but there was another request
hint: add a turn to the scenario, or start a new session
exit code 1

$ ah -m script:short.json --record /no/such/folder/run.yaml go
error: cannot record to `/no/such/folder/run.yaml`: No such file or directory (os error 2)
exit code 1

$ ah -m script:short.json --system-prompt-file none go
error: cannot read the system prompt `none`: No such file or directory (os error 2)
exit code 1

$ ah -m script:short.json --db folder go
error: cannot open `<project>/folder`: `folder` is a folder, not a file
hint: remove it, or choose another path
exit code 1

$ ah -m script:short.json --debug=[ go
error: the log filter `[` cannot be read: invalid filter directive
hint: for example `debug`, or `ah_agent=trace,info`
exit code 1

$ ah -m script:short.json --debug-file /no/such/folder/log go
error: cannot write the log to `/no/such/folder/log`: No such file or directory (os error 2)
exit code 1
");
}

#[test]
fn answers_that_make_no_sense_end_as_errors() {
    let bodies = [
        "",
        "<html>busy</html>",
        "event: message_start\ndata: {\n\n",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":[]}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":7,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
    ];
    for body in bodies {
        let world = World::new();
        let mut turn = says("unsaid");
        turn.repeat = Some(20);
        turn.wire = Some(ah_provider::script::format::Wire {
            body: Some(body.to_owned()),
            ..Default::default()
        });
        let server = Server::new([turn]);
        let ah = world.asking(&server, ["-p", "-m", "sonnet", "go"]);
        let ended = ah.env("CLAUDE_CODE_MAX_RETRIES", "0").run().expect(1);
        assert!(ended.stdout.starts_with("API Error: "), "{body}: {ended:?}");
    }
}

#[test]
fn arguments_and_input_that_are_no_text() {
    let world = World::new();
    let model = world.scenario("s", [says("<{{user}}>")]);
    let ended = world
        .ah(["-m", &model])
        .stdin([b'a', 0xff, b'b', 0, b'\n'])
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "<a\u{fffd}b\0>\n");
    let ended = world
        .ah(["-m", &model])
        .argument(OsStr::from_bytes(&[b'a', 0xff]))
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stderr:
error: the prompt is not valid UTF-8: `a�`
exit code 2
");
}

#[test]
fn an_output_that_cannot_be_written_is_told() {
    let world = World::new();
    let model = world.scenario("s", [says("Yes.")]);
    let lines: [&[&str]; 5] = [
        &["-m", &model, "go"],
        &["-m", &model, "--output-format", "events", "go"],
        &["-m", &model, "-p", "--output-format", "json", "go"],
        &["models"],
        &["--help"],
    ];
    for line in lines {
        let ah = world.ah(line.iter().copied());
        let ended = ah
            .through("sh", ["-c", "exec \"$0\" \"$@\" >/dev/full"])
            .run()
            .expect(1);
        let told = ended
            .stderr
            .matches("error: cannot write to standard output: ")
            .count();
        assert_eq!(told, 1, "{line:?} {ended:#?}");
    }
}

#[test]
fn a_file_where_the_folder_of_sessions_should_be_is_named() {
    let world = World::new();
    let model = world.scenario("s", [says("Yes.")]);
    world.write(".ah", "");
    for arguments in [
        &["-m", &model, "go"] as &[&str],
        &["sessions"],
        &["gc"],
        &["doctor"],
    ] {
        let ended = world.ah(arguments.iter().copied()).run().without_panic();
        assert!(
            (ended.stdout + &ended.stderr).contains(".ah") || ended.code == Some(0),
            "{arguments:?}"
        );
    }
    assert_eq!(world.text(".ah"), "");
}

/// A system prompt over the size limit is refused before any request is sent.
#[test]
fn a_system_prompt_over_the_limit_is_told_and_nothing_is_sent() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let prompt = "word ".repeat(800);
    let run = |most| {
        let arguments = [
            "--system-prompt",
            &prompt,
            "--max-context-tokens",
            most,
            "go",
        ];
        world.asking(&server, arguments).run()
    };
    insta::assert_snapshot!(shown(&world, &run("999")), @"
        stderr:
        error: the system prompt alone takes about 1000 tokens, more than the 999 that --max-context-tokens allows
        hint: `ah prompt` shows the prompt and the sources of its parts
        exit code 2
        ");
    assert!(server.requests().is_empty());
    run("1000").without_panic();
    assert_eq!(server.requests().len(), 1);
}

/// Each invalid file of a project causes one warning with its path, and all others load.
#[test]
fn bad_extensions_cost_a_warning_each_and_the_rest_loads() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    let lua = |schema| {
        format!(
            "return {{name = \"pour\", description = \"Pours.\",\n  input_schema = {schema},\n  \
             execute = function() return \"\" end}}\n"
        )
    };
    for (name, text) in [
        (".ah/tools/good.lua", lua("{type = \"object\"}").as_str()),
        (".ah/tools/schema.lua", &lua("{type = \"strange\"}")),
        (
            ".ah/tools/syntax.lua",
            "return {\n  name = \"x\",\n  description =\n}\n",
        ),
        (".ah/tools/throws.lua", "local none\nreturn none.field\n"),
        (".ah/tools/number.lua", "return 5\n"),
        (".ah/bin/count", "#!/bin/sh\necho 1\n"),
        (".ah/bin/count.json", "{\"type\":\n5"),
        (
            ".ah/skills/good.md",
            "---\nname: good\ndescription: Is good.\n---\nBe good.\n",
        ),
        (
            ".ah/skills/bad/SKILL.md",
            "---\nname: bad\ndescription:\n  - open\n---\nx\n",
        ),
        (".ah/commands/good.md", "Be good.\n"),
        (".ah/commands/bad.md", "---\ndescription:\n  a: b\n---\nx\n"),
        (
            ".mcp.json",
            "{\"mcpServers\":\n{\"a\": {\"command\": \"true\"}\n",
        ),
    ] {
        world.write(name, text);
    }
    fs::set_permissions(
        world.file(".ah/bin/count"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    // Files that cannot be read even by root.
    for name in [
        ".ah/tools/gone.lua",
        ".ah/skills/gone.md",
        ".ah/commands/gone.md",
    ] {
        symlink("/nowhere/at/all", world.file(name)).unwrap();
    }
    let model = world.scenario("s", [says("Done.")]);
    let ended = world.ah(["--trust", "-m", &model, "/good"]).run();
    let mut page = shown(&world, &ended);
    let listed = world.ah(["--trust", "tools"]).run().expect(0).stdout;
    let found = listed.lines().filter(|line| line.contains(" project "));
    page.extend(found.map(|line| format!("\n{line}")));
    insta::assert_snapshot!(page, @r#"
        stdout:
        Done.
        stderr:
        warning: <project>/.mcp.json:3:0: EOF while parsing an object; its MCP servers are left out
        warning: cannot read `<project>/.ah/skills/gone.md`: No such file or directory (os error 2)
        warning: <project>/.ah/skills/bad/SKILL.md:4: expected string scalar
        warning: cannot read `<project>/.ah/commands/gone.md`: No such file or directory (os error 2)
        warning: <project>/.ah/bin/count.json:2: EOF while parsing an object
        warning: .ah/tools/gone.lua: cannot be read: No such file or directory (os error 2)
        warning: .ah/tools/number.lua:1: a tool's file returns a table, not integer
        warning: .ah/tools/schema.lua:2: `input_schema.type` must be "object"
        warning: .ah/tools/syntax.lua:4: unexpected symbol near '}'
        warning: .ah/tools/throws.lua:2: attempt to index a nil value (local 'none')
        >>> /good
        exit code 0
        pour       project   .ah/tools/good.lua             Pours.
        "#);
}

/// A project's files are untrusted input.
#[test]
fn files_of_a_project_that_never_end_are_not_read_and_names_do_not_steer_the_terminal() {
    let world = World::new();
    fs::create_dir_all(world.project().join(".ah/commands")).unwrap();
    for name in [".mcp.json", ".env", ".ah/models.json"] {
        symlink("/dev/zero", world.project().join(name)).unwrap();
    }
    let name = ".ah/commands/\u{1b}]0;evil\u{7}.md";
    fs::write(world.project().join(name), "Text.").unwrap();
    let model = world.scenario("says", [says("Done.")]);
    let ended = world
        .ah(["-n", "--trust", "-m", &model, " /none"])
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "Done.\n");
    assert!(ended.stderr.contains("cannot read the MCP servers"));
    assert!(ended.stderr.contains("␛]0;evil␇.md"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    symlink("/dev/zero", world.project().join(".ah/settings.json")).unwrap();
    let ended = world.ah(["-m", &model, "go"]).run().expect(1);
    assert!(
        ended.stderr.contains("not a regular file of up to"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_is_no_file_is_no_database() {
    for (name, make) in [
        ("a named pipe", "mkfifo x.db"),
        ("a named pipe", "mkfifo x.db-wal"),
        ("a named pipe", "mkfifo x.lock"),
        ("a folder", "mkdir x.db"),
        (
            "a socket",
            "python3 -c 'import socket; socket.socket(1).bind(\"x.db\")'",
        ),
    ] {
        let world = World::new();
        let made = std::process::Command::new("sh")
            .args(["-c", make])
            .current_dir(world.project())
            .status();
        if !made.unwrap().success() {
            continue;
        }
        let model = world.scenario("s", [says("Done.")]);
        for arguments in [
            &["--db", "x.db", "-m", &model, "go"][..],
            &["--db", "x.db", "scan"],
        ] {
            let is_reading = arguments.contains(&"scan");
            if is_reading && !make.ends_with("x.db") {
                continue;
            }
            let ended = world.ah(arguments.iter().copied()).run().without_panic();
            assert_ne!(ended.code, Some(0), "{make}: {arguments:?}");
            assert!(ended.stderr.contains(name), "{make}: {}", ended.stderr);
        }
    }
}
