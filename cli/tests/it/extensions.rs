//! Extensions in files (tools, skills, commands, instructions), as a run finds them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ended, World};
use crate::support::shown::{shown, steady};

/// Writes a file below the project, or below the home if the name begins with `~/`.
pub fn put(world: &World, name: &str, text: &str) -> PathBuf {
    let path = match name.strip_prefix("~/") {
        Some(below) => world.home().join(below),
        None => world.file(name),
    };
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

pub fn put_program(world: &World, name: &str, script: &str) {
    let path = put(world, name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The last request: the system prompt, what is told before the first message, the names of the tools, and the last message, without
/// the note that it is the text of a command.
pub struct Told {
    pub system: String,
    pub opening: String,
    pub tools: Vec<String>,
    pub prompt: String,
}

fn told(server: &Server) -> Told {
    let body = server.requests().pop().unwrap().body;
    let all = |blocks: &Value, is_opening: bool| {
        let blocks = blocks.as_array().into_iter().flatten();
        let texts = blocks.filter_map(|block| block["text"].as_str());
        let texts = texts.filter(|text| text.starts_with("[CONTEXT]\n") == is_opening);
        let texts = texts.filter(|text| ah_conversation::command_in(text).is_none());
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let texts = |blocks: &Value| all(blocks, false);
    let tools = body["tools"].as_array().into_iter().flatten();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    Told {
        system: texts(&body["system"]),
        opening: all(&body["messages"][0]["content"], true),
        tools: tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect(),
        prompt: last["content"]
            .as_str()
            .map_or_else(|| texts(&last["content"]), str::to_owned),
    }
}

/// Runs with these arguments and returns the last request and the result of the run.
pub fn asked(world: &World, arguments: &[&str]) -> (Told, Ended) {
    let server = Server::new([says("Done.")]);
    let arguments = ["-n", "-m", "sonnet"]
        .into_iter()
        .chain(arguments.iter().copied());
    let ended = world.asking(&server, arguments).run().expect(0);
    (told(&server), ended)
}

/// The rows of `ah tools`.
fn tools(world: &World, options: &[&str]) -> Vec<Value> {
    let arguments = options.iter().copied().chain(["tools", "--json"]);
    let ended = world.ah(arguments).run().expect(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn tool<'a>(tools: &'a [Value], name: &str) -> Option<&'a Value> {
    tools.iter().find(|tool| tool["name"] == name)
}

/// The same name in all layers.
#[test]
fn a_tool_of_a_higher_layer_takes_the_place_of_one_below() {
    let world = World::new();
    put(
        &world,
        "~/.ah/skills/own/SKILL.md",
        "---\ndescription: With a tool\n---\n",
    );
    let layers: [(&str, &[&str]); 9] = [
        ("built in", &[]),
        ("~/.claude/tools/grep", &[]),
        ("~/.ah/tools/grep", &[]),
        ("~/.ah/bin/grep", &[]),
        (".agents/bin/grep", &["--trust"]),
        (".claude/bin/grep", &["--trust"]),
        (".ah/bin/grep", &["--trust"]),
        (
            "~/.ah/skills/own/tools/grep",
            &["--trust", "--skill", "own"],
        ),
        (
            "given",
            &["--trust", "--skill", "own", "-t", "grep=echo given"],
        ),
    ];
    let mut lines = Vec::new();
    for (place, options) in layers {
        if place.contains('/') {
            put_program(&world, place, &format!("echo '{place}' \"$@\""));
            let page = format!("{place}.md");
            put(
                &world,
                &page,
                &format!("---\ndescription: Of {place}\n---\n"),
            );
        }
        let tools = tools(&world, options);
        let grep = tool(&tools, "grep").unwrap();
        let overrides = grep["overrides"].as_array().unwrap().iter();
        let overrides: Vec<_> = overrides
            .map(|origin| origin["layer"].as_str().unwrap())
            .collect();
        lines.push(format!(
            "{place}: {} over {overrides:?}",
            grep["layer"].as_str().unwrap()
        ));
        if place != "built in" {
            let model = world.scenario(
                "s",
                [uses("grep", json!({"args": "a 'b c'"})), says("Done.")],
            );
            let arguments = ["-n", "-m", &model]
                .into_iter()
                .chain(options.iter().copied());
            let ended = world.ah(arguments.chain(["go"])).run().expect(0);
            assert!(
                ended.stderr.contains(&format!("{place} a b c")),
                "{place}: {}",
                ended.stderr
            );
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
        built in: built in over []
        ~/.claude/tools/grep: user (other agent) over ["built in"]
        ~/.ah/tools/grep: user over ["built in", "user (other agent)"]
        ~/.ah/bin/grep: user over ["built in", "user (other agent)", "user"]
        .agents/bin/grep: project (other agent) over ["built in", "user (other agent)", "user", "user"]
        .claude/bin/grep: project (other agent) over ["built in", "user (other agent)", "user", "user", "project (other agent)"]
        .ah/bin/grep: project over ["built in", "user (other agent)", "user", "user", "project (other agent)", "project (other agent)"]
        ~/.ah/skills/own/tools/grep: skill over ["built in", "user (other agent)", "user", "user", "project (other agent)", "project (other agent)", "project"]
        given: command line over ["built in", "user (other agent)", "user", "user", "project (other agent)", "project (other agent)", "project", "skill"]
        "#);
    let removed = tools(&world, &["-t", "grep=", "-t", "bash="]);
    let names: Vec<_> = removed
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "read",
            "write",
            "edit",
            "glob",
            "todo",
            "result",
            "web_fetch",
            "skill",
            "agent"
        ]
    );
    let (told, _) = asked(
        &world,
        &["-t", "grep=", "-t", "added=echo", "--tools", "read", "go"],
    );
    assert_eq!(told.tools, ["read", "added"]);
}

#[test]
fn tools_are_listed_with_their_places() {
    let world = World::new();
    put_program(
        &world,
        ".ah/bin/count",
        "echo 'Counts things in files. Quickly.'",
    );
    put_program(&world, "~/.ah/tools/read", "true");
    put(&world, "~/.ah/tools/read.md", "Reads with care.");
    put(&world, ".ah/bin/broken.json", "{\n");
    put_program(&world, ".ah/bin/broken", "true");
    let ended = world.ah(["--trust", "--profile", "minimal", "tools"]).run();
    insta::assert_snapshot!(shown(&world, &ended), @"
        stdout:
        tool   layer     from              overrides
        read   user      ~/.ah/tools/read  built in   Reads with care.
        write  built in                               Writes a whole file and makes its folders
        edit   built in                               Replaces text in a file
        bash   built in                               Runs a shell command in the working directory; if it fails, ...
        skill  built in                               Loads the instructions of a skill that the system prompt lis...
        count  project   .ah/bin/count                Counts things in files
        stderr:
        warning: <project>/.ah/bin/broken.json:2: EOF while parsing an object
        exit code 0
        ");
}

/// Code of a project runs only if the project is trusted.
#[test]
fn a_project_that_is_not_trusted_brings_no_tools_and_runs_no_commands() {
    let world = World::new();
    put_program(&world, ".ah/bin/evil", "touch ../harm");
    put_program(&world, ".ah/skills/evil/tools/worse", "touch ../harm");
    put(
        &world,
        ".ah/skills/evil/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash\n---\nBody.",
    );
    put(
        &world,
        ".ah/commands/look.md",
        "---\nallowed-tools: Bash\n---\nSee !`touch ../harm` @../home/secret and @note.",
    );
    put(&world, "~/secret", "a secret");
    put(&world, "note", "a note");
    let (told, ended) = asked(&world, &["--skill", "evil", "go"]);
    assert!(
        !told
            .tools
            .iter()
            .any(|tool| ["evil", "worse"].contains(&tool.as_str()))
    );
    assert!(ended.stderr.contains("is not trusted"), "{}", ended.stderr);
    let (told, ended) = asked(&world, &["/look"]);
    insta::assert_snapshot!(told.prompt, @r#"
        See [`touch ../harm` was not run: the project is not trusted] @../home/secret and @note.

        <file path="note">
        a note
        </file>
        "#);
    insta::assert_snapshot!(steady(&world, &ended.stderr), @r#"
        `<project>` is not trusted; ignored: .ah/bin, .ah/commands/look.md, .ah/skills/evil/tools
        hint: use --trust for one run, or add it to `trustedFolders` in your own settings
        warning: <project>/.ah/commands/look.md: `allowed-tools` is ignored: the project is not trusted
        warning: <project>/.ah/commands/look.md: `touch ../harm` is not run: the project is not trusted
        warning: <project>/.ah/commands/look.md: `../home/secret` is not read: it is outside of the project
        >>> /look
        "#);
    assert!(!world.project().join("../harm").exists());
    let (told, _) = asked(&world, &["--trust", "--skill", "evil", "go"]);
    assert!(told.tools.contains(&"evil".to_owned()) && told.tools.contains(&"worse".to_owned()));
    let (told, _) = asked(&world, &["--trust", "/look"]);
    assert!(told.prompt.contains("a note"), "{}", told.prompt);
    assert!(!told.prompt.contains("a secret"), "{}", told.prompt);
    assert!(world.project().join("../harm").exists());
}

/// Skills of all layers are found by name, by option and by the tool.
#[test]
fn skills_are_listed_called_and_taken_up() {
    let world = World::new();
    for (place, body) in [
        ("~/.claude/skills/plan/SKILL.md", "Of the other agent."),
        ("~/.ah/skills/plan.md", "Of the user."),
        (".agents/skills/plan/SKILL.md", "Of agents."),
        (".claude/skills/plan/SKILL.md", "Of claude."),
        (".ah/skills/plan/SKILL.md", "Of the project."),
    ] {
        put(
            &world,
            place,
            &format!("---\nname: plan\ndescription: Plans\n---\n{body}\n"),
        );
        let (told, _) = asked(&world, &["/skill:plan the move"]);
        assert!(told.prompt.contains(body), "{place}: {}", told.prompt);
        assert!(told.prompt.ends_with("</skill>\n\nthe move"));
    }
    put(&world, ".ah/skills/plan/reference/notes.md", "no skill");
    put(
        &world,
        ".ah/skills/broken.md",
        "---\nname: broken\ndescription:\n  - list\n---\n",
    );
    put(&world, ".ah/skills/nameless.md", "no front matter");
    let (told, ended) = asked(&world, &["--skill", "plan", "the move"]);
    insta::assert_snapshot!(steady(&world, &told.prompt), @r#"
        <skill name="plan" location="<project>/.ah/skills/plan/SKILL.md">
        Paths in this skill are relative to <project>/.ah/skills/plan.

        Of the project.
        </skill>

        the move
        "#);
    insta::assert_snapshot!(steady(&world, &ended.stderr), @r#"
        warning: <project>/.ah/skills/broken.md:4: expected string scalar
        warning: <project>/.ah/skills/nameless.md:1: a skill needs a `description` in its front matter
        >>> <skill name="plan" location="<project>/.ah/skills/plan/SKILL.md">
        Paths in this skill are relative to <project>/.ah/skills/plan.

        Of the project.
        </skill>

        the move
        "#);
    let listed = told.opening.split("# Skills").nth(1).unwrap();
    let lines = listed.lines().filter_map(|line| line.strip_prefix("- "));
    let names: Vec<_> = lines.filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["ah-skills", "ah-tools", "plan", "pr"]);
    assert!(!told.opening.contains("Of the project."));
    // Without a prompt, by its bare name, and with an unknown name.
    assert!(
        asked(&world, &["--skill", "plan", ""])
            .0
            .prompt
            .ends_with("</skill>")
    );
    assert!(
        asked(&world, &["/plan it"])
            .0
            .prompt
            .ends_with("</skill>\n\nit")
    );
    // A program's text is none of a person's.
    assert_eq!(
        asked(&world, &["-p", "/skill:none it"]).0.prompt,
        "/skill:none it"
    );
    let typed = world.ah(["-m", "script:demo", "/skill:none it"]).run();
    assert_eq!(
        typed.expect(2).stderr.lines().next(),
        Some("error: there is no skill `none`")
    );
    let ended = world
        .ah(["-m", "script:demo", "--skill", "none", "it"])
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
        stderr:
        error: there is no skill `none`
        hint: the skills are ah-skills, ah-tools, check, do, fix, improve, merge, plan, pr
        exit code 2
        ");
    let server = Server::new([uses("skill", json!({"name": "ah-tools"})), says("Done.")]);
    world
        .asking(&server, ["-n", "-m", "sonnet", "go"])
        .run()
        .expect(0);
    let request = server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("A tool is a file."), "{request}");
    // Its file can be read at the place that its text names.
    let place = "/zip/embed/sys/skills/ah-skills.md";
    let server = Server::new([uses("read", json!({"path": place})), says("Done.")]);
    world
        .asking(&server, ["-n", "-m", "sonnet", "go"])
        .run()
        .expect(0);
    let request = server.requests().pop().unwrap().body.to_string();
    assert!(
        request.contains("# Writing skills and commands"),
        "{request}"
    );
}

/// On GitHub Actions, a run by `--skill` is one group of the log.
#[test]
fn a_run_by_skill_is_a_group_of_the_log_on_github() {
    let world = World::new();
    put(
        &world,
        ".ah/skills/plan.md",
        "---\ndescription: Plans\n---\nPlan.",
    );
    let model = world.scenario("s", [says("Planned.")]);
    let run = |value: &str, skill: &[&str]| {
        let arguments = ["-n", "-m", &model]
            .into_iter()
            .chain(skill.iter().copied());
        let ah = world
            .ah(arguments.chain(["go"]))
            .env("GITHUB_ACTIONS", value);
        ah.run().expect(0).stdout
    };
    assert_eq!(
        run("true", &["--skill", "plan"]),
        "::group::plan\nPlanned.\n::endgroup::\n"
    );
    assert_eq!(run("", &["--skill", "plan"]), "Planned.\n");
    assert_eq!(run("true", &[]), "Planned.\n");
}

/// `ah prompt` shows each part of the system prompt with its source.
#[test]
fn the_prompt_is_printed_with_the_source_of_every_part() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    put(&world, "~/.claude/CLAUDE.md", "Of the user.");
    put(&world, "CLAUDE.md", "Of the project, and @docs/more.md.");
    put(&world, "docs/more.md", "More of @../CLAUDE.md.");
    put(&world, "CLAUDE.local.md", "Mine.");
    put(&world, "x", "is there");
    put_program(&world, ".ah/bin/count", "true");
    put(
        &world,
        ".ah/bin/count.md",
        "---\ndescription: Counts\n---\nCount twice.",
    );
    let options = [
        "--trust",
        "--no-sandbox",
        "--dangerously-skip-permissions",
        "--must-produce",
        "x",
        "--timeout",
        "9",
        "--append-system-prompt",
        "Last.",
    ];
    let printed = |more: &[&str]| {
        let arguments = options.iter().chain(more).copied();
        let ended = world
            .ah(arguments.chain(["prompt", "--json"]))
            .run()
            .expect(0);
        serde_json::from_str::<Vec<Value>>(&ended.stdout).unwrap()
    };
    let field = |parts: &[Value], key: &str| {
        let fields = parts
            .iter()
            .map(|part| part[key].as_str().unwrap().to_owned());
        fields.collect::<Vec<_>>()
    };
    let parts = printed(&[]);
    insta::assert_snapshot!(steady(&world, &field(&parts, "source").join("\n")), @"
        system.md
        claude.md
        tool count
        <home>/.claude/CLAUDE.md
        <project>/CLAUDE.md
        <project>/docs/more.md
        <project>/CLAUDE.local.md
        environment
        skills
        --must-produce
        --timeout
        --append-system-prompt
        ");
    let (told, _) = asked(&world, &[&options[..], &["go"]].concat());
    let lasting = parts.iter().filter(|part| {
        let source = part["source"].as_str().unwrap();
        source == "system.md"
            || source == "claude.md"
            || source.starts_with("tool ")
            || source.starts_with("--append")
    });
    let lasting: Vec<_> = lasting.cloned().collect();
    assert_eq!(told.system, field(&lasting, "text").join("\n\n"));
    assert!(told.system.ends_with("Last."));
    assert!(!told.system.contains("{{") && !told.system.contains("${"));
    // A tool's guidance is in the prompt only if the tool is offered.
    let without = field(&printed(&["-t", "count="]), "source");
    assert!(!without.contains(&"tool count".to_owned()), "{without:?}");
    let parts = printed(&["--system-prompt", "All of it."]);
    assert_eq!(field(&parts, "text"), ["All of it.", "Last."]);
    let ended = world.ah(["prompt"]).run().expect(0);
    assert!(
        ended
            .stdout
            .starts_with("=== system.md ===\n\nYou are `ah`"),
        "{}",
        ended.stdout
    );
}

/// The examples of the documentation work unchanged.
#[test]
fn the_tools_and_commands_of_the_page_work() {
    let page = include_str!("../../../docs/extending.md");
    let world = World::new();
    let mut blocks = 0;
    for block in page.split("\n```").skip(1).step_by(2) {
        let (head, text) = block.split_once('\n').unwrap();
        let Some(name) = head
            .split_whitespace()
            .find_map(|word| word.strip_prefix("file="))
        else {
            continue;
        };
        let path = put(&world, name, &format!("{text}\n"));
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        blocks += 1;
    }
    assert!(blocks >= 6, "{blocks}");
    let tools = tools(&world, &["--trust"]);
    for (name, layer) in [
        ("weather", "project"),
        ("todos", "project"),
        ("greet", "project"),
    ] {
        assert_eq!(tool(&tools, name).unwrap()["layer"], layer, "{name}");
    }
    let model = world.scenario(
        "s",
        [
            uses("weather", json!({"city": "Bonn"})),
            uses("todos", json!({"args": "docs"})),
            uses("greet", json!({"name": "Ada"})),
            says("Done."),
        ],
    );
    world.write("docs/a.txt", "TODO: write this\n");
    let ended = world.ah(["--trust", "-m", &model, "go"]).run().expect(0);
    assert!(ended.stderr.contains("Bonn: sunny"), "{}", ended.stderr);
    assert!(ended.stderr.contains("Hello, Ada!"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("TODO: write this"),
        "{}",
        ended.stderr
    );
    let (told, ended) = asked(&world, &["--trust", "/git:fix 7 main"]);
    assert!(
        told.prompt.starts_with("Fix issue 7 on branch main"),
        "{}",
        told.prompt
    );
    assert!(told.opening.contains("\n- release-notes: "));
    assert!(!ended.stderr.contains("warning: /"), "{}", ended.stderr);
}
