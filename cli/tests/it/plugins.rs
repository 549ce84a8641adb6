//! Plugins given with `--plugin-dir`. Plugins given by hosts are tested in `interop/sdk`.

use serde_json::json;

use crate::extensions::{asked, put, put_program};
use crate::support::binary::World;
use crate::support::shown::steady;

/// A plugin in the folder `root`, whose hook creates a file.
fn plugin(world: &World, root: &str) {
    let manifest = json!({"name": "shop"}).to_string();
    put(
        world,
        &format!("{root}/.claude-plugin/plugin.json"),
        &manifest,
    );
    put(
        world,
        &format!("{root}/commands/greet.md"),
        "Greet $ARGUMENTS. !`echo $0-ran`",
    );
    put(
        world,
        &format!("{root}/skills/count/SKILL.md"),
        "---\nname: count\ndescription: Counts the stock\n---\n\nCount twice.",
    );
    let hook = json!({"type": "command", "command": "\"$CLAUDE_PLUGIN_ROOT/bin/note\""});
    let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}).to_string();
    put(world, &format!("{root}/hooks/hooks.json"), &hooks);
    put_program(
        world,
        &format!("{root}/bin/note"),
        "touch ~/noted; echo The shop is open.",
    );
    let servers = json!({"mcpServers": {"till": {"command": "/no/such/program"}}}).to_string();
    put(world, &format!("{root}/.mcp.json"), &servers);
}

#[test]
fn a_plugin_from_elsewhere_is_the_users() {
    let world = World::new();
    plugin(&world, "~/shop");
    let folder = world.home().join("shop");
    let folder = folder.to_str().unwrap();
    let (told, _) = asked(&world, &["--plugin-dir", folder, "/shop:greet Ada"]);
    assert!(
        told.prompt.contains("Greet Ada. ah-ran") && told.prompt.contains("The shop is open."),
        "{}",
        told.prompt
    );
    assert!(told.opening.contains("\n- shop:count: "));
    for (option, has_server) in [("--plugin-dir", true), ("--plugin-dir-no-mcp", false)] {
        let listed = world.ah([option, folder, "mcp", "list", "--json"]).run();
        let listed = listed.expect(0).stdout;
        assert_eq!(listed.contains("plugin:shop:till"), has_server, "{listed}");
    }
}

/// A plugin inside an untrusted project is not trusted either.
#[test]
fn a_plugin_in_a_project_that_is_not_trusted_runs_nothing() {
    let world = World::new();
    plugin(&world, "tools/shop");
    let arguments = ["--plugin-dir", "tools/shop", "/shop:greet Ada"];
    let (told, ended) = asked(&world, &arguments);
    assert!(!world.home().join("noted").exists());
    assert!(
        told.prompt
            .starts_with("Greet Ada. [`echo $0-ran` was not run"),
        "{}",
        told.prompt
    );
    assert!(told.opening.contains("\n- shop:count: "));
    let shown = steady(&world, &ended.stderr);
    assert!(
        shown
            .contains("is not trusted; ignored: tools/shop/.mcp.json, tools/shop/hooks/hooks.json"),
        "{shown}"
    );
    let (told, _) = asked(&world, &[&arguments[..], &["--trust"]].concat());
    assert!(world.home().join("noted").exists());
    assert!(
        told.prompt.starts_with("Greet Ada. ah-ran"),
        "{}",
        told.prompt
    );
}

#[test]
fn what_is_no_plugin_is_told_of() {
    let world = World::new();
    put(
        &world,
        "bad/.claude-plugin/plugin.json",
        "{\"name\": \"a b\"}",
    );
    put(&world, "worse/.claude-plugin/plugin.json", "{");
    put(&world, "plain/commands/hi.md", "Hi.");
    let folders = ["bad", "worse", "none", "plain", "plain"];
    let arguments: Vec<_> = folders.iter().flat_map(|it| ["--plugin-dir", it]).collect();
    let (told, ended) = asked(&world, &[&arguments[..], &["/plain:hi"]].concat());
    assert_eq!(told.prompt, "Hi.");
    let lines = steady(&world, &ended.stderr);
    let lines = lines.lines().filter(|line| line.contains("the plugin"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
warning: the plugin `<project>/bad` is left out: `a b` is not a valid plugin name; use letters, digits, `-` and `_`
warning: the plugin `<project>/worse` is left out: .claude-plugin/plugin.json: EOF while parsing an object at line 1 column 1
warning: the plugin `<project>/none` is left out: No such file or directory (os error 2)
warning: the plugin `<project>/plain` is left out: another plugin has the name `plain`
");
}
