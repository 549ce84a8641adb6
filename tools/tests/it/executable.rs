//! Programs of the user as tools: their descriptions, their calls, and the precedence of tools with one name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ah_conversation::{Context, Decision, Environment, Layer, Permissions, Tool, ToolUse};
use ah_tools::{
    HelpCache, Layered, LoadedTools, LuaFiles, LuaSurroundings, Shell, ToolLoader, ToolOrigin,
};
use serde_json::{Value, json};

use crate::folder::{Folder, text};

/// Writes programs, each with its name and script.
fn put_programs(folder: &Folder, programs: &[(&str, &str)]) {
    for (name, script) in programs {
        folder.put(name, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn loader(folder: &Folder) -> ToolLoader {
    let path = std::env::var("PATH").unwrap();
    let variables = [
        ("PATH".to_owned(), path),
        ("MY_TOKEN".to_owned(), "a-secret".to_owned()),
    ];
    let shell = Shell::new(&Environment::new(variables, folder.path("")));
    ToolLoader {
        workspace: folder.workspace(),
        lua: LuaFiles::new(LuaSurroundings {
            hidden: ah_conversation::HiddenFiles::default(),
            denied: ah_conversation::Denied::default(),
            cwd: folder.path(""),
            workspace: folder.workspace(),
            shell: shell.clone(),
            embedded: Arc::default(),
            http: ah_http::Options::default(),
        }),
        modules: Vec::new(),
        asked_for: vec!["on-demand".to_owned()],
        shell,
        help: HelpCache {
            file: Some(folder.path("cache/help.json")),
            denied: ah_conversation::Denied::default(),
        },
    }
}

async fn load(folder: &Folder, given: &[(&str, &str)]) -> LoadedTools {
    let tools = ToolOrigin {
        layer: Layer::Project,
        path: Some(folder.path("bin")),
    };
    let owned = |(name, command): &(&str, &str)| ((*name).to_owned(), (*command).to_owned());
    let given: Vec<_> = given.iter().map(owned).collect();
    loader(folder).load(&[tools], &given).await
}

async fn call(folder: &Folder, tool: &dyn Tool, input: Value) -> String {
    let call = ToolUse {
        id: "call".into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    let context = Context::new(folder.path("out/call"));
    text(&tool.run(&call, &context).await)
}

/// The description comes from `NAME.md`, or else from `--help`.
#[tokio::test]
async fn a_program_is_described_by_the_files_beside_it_or_by_its_help() {
    let folder = Folder::new();
    put_programs(
        &folder,
        &[
            ("bin/page.sh", "exit 0"),
            ("bin/words", "exit 0"),
            ("bin/schema", "exit 0"),
            (
                "bin/help",
                "echo Counts things.; echo; echo Usage: help WHAT",
            ),
            ("bin/failing", "echo no such option; exit 1"),
            ("bin/slow", "sleep 1000"),
            ("bin/broken", "exit 0"),
            ("bin/no.name", "exit 0"),
            ("bin/no name", "exit 0"),
            ("bin/.hidden", "exit 0"),
        ],
    );
    folder.put(
        "bin/page.md",
        "---\ndescription: Of a page\n---\nUse it with care.\n",
    );
    folder.put("bin/words.md", "# Words\n\nThe first words.\nMore.\n");
    folder.put(
        "bin/schema.json",
        r#"{"type": "object", "description": "Of a schema"}"#,
    );
    folder.put("bin/broken.json", "{\n\"type\": }");
    folder.put("bin/help.md", "---\ndescription:\n  - list\n---\n");
    folder.put("bin/notes.txt", "no program");
    let found = load(&folder, &[]).await;
    let show = |(tool, origin): &(Arc<dyn Tool>, ToolOrigin)| {
        let spec = tool.spec();
        let file = origin.path.as_ref().unwrap().file_name().unwrap();
        format!(
            "{} ({}) {:?} {:?}",
            spec.name,
            file.display(),
            spec.description,
            spec.guidance
        )
    };
    let place = folder.workspace().cwd().display().to_string();
    let shown: Vec<_> = found.tools.iter().map(show).chain(found.warnings).collect();
    insta::assert_snapshot!(shown.join("\n").replace(&place, "<folder>"), @r##"
    failing (failing) "Runs `<folder>/bin/failing` with the arguments that it is given." None
    help (help) "Counts things.\n\nUsage: help WHAT" None
    no (no.name) "Runs `<folder>/bin/no.name` with the arguments that it is given." None
    page (page.sh) "Of a page" Some("Use it with care.")
    schema (schema) "Of a schema" None
    slow (slow) "Runs `<folder>/bin/slow` with the arguments that it is given." None
    words (words) "The first words." Some("# Words\n\nThe first words.\nMore.")
    <folder>/bin/broken.json:2: expected value
    <folder>/bin/help.md:3: expected string scalar
    <folder>/bin/no name: `no name` cannot be the name of a tool: up to 64 letters, digits, `-` and `_` can
    "##);
}

#[tokio::test]
async fn a_program_gets_a_command_line_or_json() {
    let folder = Folder::new();
    put_programs(
        &folder,
        &[
            (
                "bin/line",
                "for word in \"$@\"; do echo \"[$word]\"; done; pwd; echo ${MY_TOKEN:-no token}",
            ),
            ("bin/fails", "echo no >&2; exit 3"),
            ("bin/json", "echo \"$# arguments\"; cat"),
            (
                "bin/blocks",
                "echo '{\"content\": [{\"type\": \"text\", \"text\": \"words\"}, {\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7\"}}]}'",
            ),
            (
                "bin/broken",
                "echo '[{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"AA==\"}}]'",
            ),
            (
                "bin/list",
                "echo '[{\"type\": \"text\", \"text\": \"alone\"}]'",
            ),
            (
                "bin/says",
                "echo '{\"content\": [{\"type\": \"text\", \"text\": \"wrong\"}], \"is_error\": true}'",
            ),
            ("bin/other", "echo '{\"content\": 3}'"),
        ],
    );
    for name in ["json", "blocks", "broken", "list", "says", "other"] {
        folder.put(
            &format!("bin/{name}.json"),
            r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#,
        );
    }
    let found = load(&folder, &[]).await;
    let place = folder.workspace().cwd().display().to_string();
    for (name, input, expected) in [
        (
            "line",
            json!({"args": "one 'two words' | $(pwd) *; pwd"}),
            "[one]\n[two words]\n[|]\n[$(pwd)]\n[*;]\n[pwd]\n<folder>\nno token\n",
        ),
        ("line", json!({}), "<folder>\nno token\n"),
        ("fails", json!({"args": ""}), "error: no\nexit code: 3"),
        (
            "json",
            json!({"a": "ü", "b": [1]}),
            "0 arguments\n{\"a\":\"ü\",\"b\":[1]}",
        ),
        ("blocks", json!({}), "words\n[image/gif]"),
        (
            "broken",
            json!({}),
            "error: the tool is faulty: a picture that it returned is not a PNG, JPEG, GIF or WebP picture",
        ),
        ("list", json!({}), "alone"),
        ("says", json!({}), "error: wrong"),
        ("other", json!({}), "{\"content\": 3}\n"),
    ] {
        let (tool, _) = found
            .tools
            .iter()
            .find(|(tool, _)| tool.spec().name == name)
            .unwrap();
        let output = call(&folder, &**tool, input.clone()).await;
        assert_eq!(
            output.replace(&place, "<folder>"),
            expected,
            "{name} {input}"
        );
    }
    let (tool, _) = &found
        .tools
        .iter()
        .find(|(tool, _)| tool.spec().name == "line")
        .unwrap();
    let permissions = |rule: &str| Permissions {
        allow: vec![rule.parse().unwrap()],
        ..Permissions::default()
    };
    for (rule, is_allowed) in [
        ("line", true),
        ("line(line --all:*)", true),
        ("line(line --all;)", false),
        ("line(line --some:*)", false),
        ("other", false),
    ] {
        let call = ToolUse {
            id: "call".into(),
            name: "line".to_owned(),
            input: json!({"args": " --all '; rm' x "}).into(),
        };
        let touched = tool.access(&call.input);
        let decision = permissions(rule).decide(&call, &touched);
        assert_eq!(
            matches!(decision, Decision::Allow),
            is_allowed,
            "{rule}: {decision:?}"
        );
    }
}

#[tokio::test]
async fn a_program_is_ended_when_its_time_is_over() {
    let folder = Folder::new();
    put_programs(&folder, &[("bin/endless", "echo begun; sleep 1000")]);
    folder.put(
        "bin/endless.md",
        "---\ndescription: Waits\ntimeout: 1\n---\n",
    );
    let found = load(&folder, &[]).await;
    let output = call(&folder, &*found.tools[0].0, json!({})).await;
    assert_eq!(output, "error: begun\nerror: timed out after 1000 ms");
}

#[tokio::test]
async fn help_is_asked_for_once_until_the_program_changes() {
    let folder = Folder::new();
    put_programs(
        &folder,
        &[("bin/counts", "echo asked >>asked; echo Counts.")],
    );
    for _ in 0..3 {
        let found = load(&folder, &[]).await;
        assert_eq!(found.tools[0].0.spec().description, "Counts.");
    }
    assert_eq!(folder.get("asked"), "asked\n");
    put_programs(
        &folder,
        &[("bin/counts", "echo asked >>asked; echo Counts more.")],
    );
    let found = load(&folder, &[]).await;
    assert_eq!(found.tools[0].0.spec().description, "Counts more.");
    assert_eq!(folder.get("asked"), "asked\nasked\n");
    folder.put("cache/help.json", "damaged");
    let found = load(&folder, &[]).await;
    assert_eq!(found.tools[0].0.spec().description, "Counts more.");
}

#[tokio::test]
async fn programs_in_the_folders_of_other_agents_are_not_started_to_be_asked() {
    let folder = Folder::new();
    put_programs(&folder, &[("bin/counts", "touch asked; echo Counts.")]);
    for (layer, is_asked) in [
        (Layer::ForeignUser, false),
        (Layer::ForeignProject, false),
        (Layer::User, true),
    ] {
        let tools = ToolOrigin {
            layer,
            path: Some(folder.path("bin")),
        };
        let found = loader(&folder).load(&[tools], &[]).await;
        let description = &found.tools[0].0.spec().description;
        assert_eq!(description == "Counts.", is_asked, "{layer}: {description}");
        assert_eq!(folder.path("asked").exists(), is_asked, "{layer}");
    }
}

/// `--tool NAME=CMD` adds a tool.
#[tokio::test]
async fn a_command_line_can_be_a_tool() {
    let folder = Folder::new();
    put_programs(&folder, &[("scripts/file.sh", "echo \"file $1\"")]);
    folder.put("scripts/file.md", "Of a file.");
    let found = load(
        &folder,
        &[
            ("file", "scripts/file.sh"),
            ("line", "echo line"),
            ("no/name", "true"),
        ],
    )
    .await;
    let shown: Vec<_> = found
        .tools
        .iter()
        .map(|(tool, _)| tool.spec().description.as_str())
        .collect();
    assert_eq!(
        shown,
        [
            "Of a file.",
            "Runs `echo line` with the arguments that it is given."
        ]
    );
    assert_eq!(
        call(&folder, &*found.tools[0].0, json!({"args": "a"})).await,
        "file a\n"
    );
    assert_eq!(
        call(&folder, &*found.tools[1].0, json!({"args": "a"})).await,
        "line a\n"
    );
    assert!(
        found.warnings[0].starts_with("--tool no/name: "),
        "{:?}",
        found.warnings
    );
}

#[tokio::test]
async fn the_tool_of_the_highest_layer_is_used() {
    let folder = Folder::new();
    let layers = [
        Layer::BuiltIn,
        Layer::Embedded,
        Layer::ForeignUser,
        Layer::User,
        Layer::ForeignProject,
        Layer::Project,
        Layer::Skill,
    ];
    let origins: Vec<_> = layers
        .into_iter()
        .map(|layer| {
            let name = format!("{layer}/same");
            put_programs(&folder, &[(&name, &format!("echo {layer}"))]);
            put_programs(
                &folder,
                &[(&format!("{layer}/only-{}", layer as u8), "true")],
            );
            ToolOrigin {
                layer,
                path: Some(folder.path(&layer.to_string())),
            }
        })
        .collect();
    let loader = loader(&folder);
    let mut all = Layered::default();
    // In any order.
    for origin in origins.iter().rev().chain(&origins) {
        for (tool, origin) in loader.load(std::slice::from_ref(origin), &[]).await.tools {
            all.add(tool, origin);
        }
    }
    let same = all
        .iter()
        .find(|known| known.tool.spec().name == "same")
        .unwrap();
    assert_eq!(call(&folder, &*same.tool, json!({})).await, "skill\n");
    let overridden: std::collections::BTreeSet<_> =
        same.overrides.iter().map(|origin| origin.layer).collect();
    assert_eq!(overridden.into_iter().collect::<Vec<_>>(), layers);
    let given = [("SAME".to_owned(), "echo given".to_owned())];
    for (tool, origin) in loader.load(&[], &given).await.tools {
        all.add(tool, origin);
    }
    let same = all
        .iter()
        .find(|known| known.tool.spec().name == "SAME")
        .unwrap();
    assert_eq!(same.origin.layer, Layer::CommandLine);
    assert!(all.remove("same"));
    assert!(!all.remove("same"));
    assert_eq!(all.iter().count(), 7);
}

/// Lua files in the same folder take precedence over programs.
#[tokio::test]
async fn a_lua_file_takes_precedence_over_a_program() {
    let folder = Folder::new();
    put_programs(
        &folder,
        &[("bin/same", "echo program"), ("bin/other", "echo other")],
    );
    let lua = |name: &str, says: &str, more: &str| {
        format!(
            "return {{ name = \"{name}\", description = \"d\", {more} input_schema = {{ type = \"object\" }}, \
             execute = function() return \"{says}\", false end }}"
        )
    };
    folder.put("bin/same.lua", lua("same", "lua", ""));
    folder.put("bin/quiet.lua", lua("quiet", "quiet", "autoload = false,"));
    folder.put(
        "bin/on-demand.lua",
        lua("on-demand", "on demand", "autoload = false,"),
    );
    folder.put("bin/broken.lua", "return {");
    folder.put("elsewhere.lua", lua("inner", "given", ""));
    let found = load(&folder, &[("given", "elsewhere.lua"), ("none", "none.lua")]).await;
    let mut all = Layered::default();
    for (tool, origin) in found.tools {
        all.add(tool, origin);
    }
    let names: Vec<_> = all
        .iter()
        .map(|known| known.tool.spec().name.as_str())
        .collect();
    assert_eq!(names, ["other", "same", "on-demand", "given"]);
    for (name, expected) in [("same", "lua"), ("given", "given"), ("other", "other\n")] {
        let known = all
            .iter()
            .find(|known| known.tool.spec().name == name)
            .unwrap();
        assert_eq!(call(&folder, &*known.tool, json!({})).await, expected);
    }
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert!(
        found.warnings[0].contains("broken.lua:1"),
        "{:?}",
        found.warnings
    );
}

#[tokio::test]
async fn only_lua_files_of_skills_load_modules_of_the_project() {
    let folder = Folder::new();
    folder.put("project/optional.lua", "return \"the project's\"");
    let script = "local _, optional = pcall(require, \"optional\")
        return { name = \"probe\", description = \"d\", input_schema = {},
          execute = function() return optional:match(\"^the project's\") or \"none\" end }";
    folder.put("tools/probe.lua", script);
    let loader = ToolLoader {
        modules: vec![folder.path("project")],
        ..loader(&folder)
    };
    for (layer, expected) in [
        (Layer::User, "none"),
        (Layer::Project, "none"),
        (Layer::Skill, "the project's"),
    ] {
        let path = Some(folder.path("tools"));
        let found = loader.load(&[ToolOrigin { layer, path }], &[]).await;
        let (tool, _) = &found.tools[0];
        assert_eq!(call(&folder, &**tool, json!({})).await, expected, "{layer}");
    }
    let given = [("probe".to_owned(), "tools/probe.lua".to_owned())];
    let (tool, _) = &loader.load(&[], &given).await.tools[0];
    assert_eq!(call(&folder, &**tool, json!({})).await, "none");
}
