//! Precedence, trust and errors of settings from files, variables and options.

use std::fs;
use std::path::PathBuf;

use ah_conversation::{Destination, Environment, Interface, PermissionMode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::layers::{SettingsSource, Sources};
use crate::overlay::Overlay;
use crate::profile::Profile;
use crate::rulebook::SettingsFiles;
use crate::trust::Reason;
use crate::{Concurrency, Config, Error, Origin, Overrides, extensions, parse_rules};

mod managed;
mod models;

/// A home directory with a project in it, and a folder in the project.
struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("home/project/.git")).unwrap();
        fs::create_dir_all(folder.path().join("home/project/sub")).unwrap();
        for (name, text) in files {
            let path = folder.path().join("home").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let home = folder.path().join("home").display().to_string();
        Self {
            folder,
            variables: vec![("HOME".to_owned(), home)],
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    fn resolve(
        &self,
        cwd: &str,
        options: &Overrides,
        interface: Interface,
    ) -> Result<Config, Error> {
        let environment = Environment::new(self.variables.clone(), self.path(cwd));
        Config::resolve(options.clone(), interface, environment, &Overlay::default())
    }

    /// The settings in force, with paths relative to the home directory.
    fn show(&self, cwd: &str, options: &Overrides) -> String {
        let config = self.resolve(cwd, options, Interface::Native).unwrap();
        let home = format!("{}/", self.path("").display()).replace("//", "/");
        let line = |(key, value, origin): (&str, Value, &Origin)| {
            format!("{key} {value} ({origin})").replace(&home, "~/")
        };
        config
            .entries()
            .into_iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn overrides(set: impl FnOnce(&mut Overrides)) -> Overrides {
    let mut overrides = Overrides::default();
    set(&mut overrides);
    overrides
}

fn inline_settings(text: &str) -> SettingsSource {
    SettingsSource::parse("--settings", text).unwrap()
}

#[test]
fn without_settings_the_defaults_hold() {
    let world = World::new(&[]);
    insta::assert_snapshot!(world.show("project", &Overrides::default()), @r#"
model "opus" (built in)
undoMegabytes 1024 (built in)
toolConcurrency "auto" (built in)
maxToolOutputBytes 67108864 (built in)
permissions.defaultMode "default" (built in)
"#);
}

#[test]
fn of_two_layers_the_first_counts_and_lists_add_up() {
    let files: Vec<(String, String)> = [
        "project/sub/.ah/settings.local.json",
        "project/.ah/settings.local.json",
        "project/sub/.claude/settings.local.json",
        "project/.ah/settings.json",
        "project/.claude/settings.json",
        ".ah/settings.json",
        ".claude/settings.json",
    ]
    .iter()
    .map(|name| {
        let text = format!(r#"{{"model": "{name}", "permissions": {{"deny": ["Tool({name})"]}}}}"#);
        ((*name).to_owned(), text)
    })
    .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    // Without the first file, the next one applies.
    for start in 0..files.len() {
        let world = World::new(&files[start..]);
        let config = world
            .resolve("project/sub", &Overrides::default(), Interface::Native)
            .unwrap();
        assert_eq!(config.model.value, files[start].0);
        assert_eq!(config.deny.len(), files.len() - start);
        assert_eq!(config.files.len(), files.len() - start);
    }
}

#[test]
fn the_command_line_counts_before_variables_and_files() {
    let world = World::new(&[(
        "project/.ah/settings.json",
        r#"{"model": "of-file", "toolConcurrency": "serial"}"#,
    )]);
    let model = |world: &World, options: &Overrides| {
        world
            .resolve("project", options, Interface::Native)
            .unwrap()
            .model
            .value
    };
    assert_eq!(model(&world, &Overrides::default()), "of-file");
    let inline =
        overrides(|overrides| overrides.settings = Some(inline_settings(r#"{"model": "inline"}"#)));
    assert_eq!(model(&world, &inline), "inline");
    let world = world.with("AH_MODEL", "of-variable");
    assert_eq!(model(&world, &inline), "of-variable");
    let typed = overrides(|overrides| {
        overrides.model = Some("typed".to_owned());
        overrides.tool_concurrency = Some(Concurrency::Parallel);
        overrides.allow = parse_rules(&["Bash(git log:*, x),Read Edit".to_owned()]).unwrap();
    });
    insta::assert_snapshot!(world.show("project", &typed), @r#"
model "typed" (command line)
undoMegabytes 1024 (built in)
toolConcurrency "parallel" (command line)
maxToolOutputBytes 67108864 (built in)
permissions.defaultMode "default" (built in)
permissions.allow "Bash(git log:*, x)" (command line)
permissions.allow "Read" (command line)
permissions.allow "Edit" (command line)
"#);
}

#[test]
fn in_the_home_directory_the_project_layer_is_the_users() {
    let world = World::new(&[(".ah/settings.json", r#"{"permissions": {"deny": ["X"]}}"#)]);
    let config = world
        .resolve("", &Overrides::default(), Interface::Native)
        .unwrap();
    assert_eq!(config.deny.len(), 1);
}

#[test]
fn sources_choose_among_the_files() {
    let files = [
        (
            "project/.ah/settings.local.json",
            r#"{"permissions": {"deny": ["Local"]}}"#,
        ),
        (
            "project/.claude/settings.json",
            r#"{"permissions": {"deny": ["Project"]}}"#,
        ),
        (
            ".ah/settings.json",
            r#"{"permissions": {"deny": ["User"]}}"#,
        ),
    ];
    let world = World::new(&files);
    for (sources, expected) in [
        (None, "Local Project User"),
        (Some("user"), "User"),
        (Some("local, project"), "Local Project"),
        (Some(""), ""),
    ] {
        let options = overrides(|overrides| {
            overrides.setting_sources = sources.map(|list| Sources::parse(Some(list)).unwrap());
        });
        let config = world
            .resolve("project", &options, Interface::Native)
            .unwrap();
        let rules: Vec<_> = config
            .deny
            .iter()
            .map(|rule| rule.value.to_string())
            .collect();
        assert_eq!(rules.join(" "), expected, "{sources:?}");
    }
    assert!(Sources::parse(Some("system")).is_err());
}

#[test]
fn the_interface_decides_what_happens_unasked() {
    let world = World::new(&[]).with("CLAUDE_CODE_MAX_RETRIES", "4");
    for (interface, is_open, retries) in [
        (Interface::Native, true, 3),
        (Interface::AgentSdk, false, 4),
    ] {
        let config = world
            .resolve("project", &Overrides::default(), interface)
            .unwrap();
        assert_eq!(config.permission_mode.value, PermissionMode::Default);
        assert_eq!(
            (config.leaves_mode_open(), config.retry.retries),
            (is_open, retries)
        );
    }
    let plain = overrides(|overrides| overrides.run.tools.profile = Some(Profile::PlainRepl));
    let config = world.resolve("project", &plain, Interface::Native).unwrap();
    assert_eq!(config.retry.retries, 5);
    assert_eq!(config.retry.first_delay.as_secs(), 10);
    assert_eq!(config.requests.max_conversation_messages.unwrap().value, 50);
    assert_eq!(config.tools.max_tool_result_chars.unwrap().value, 40_000);
    assert_eq!(config.tools.tool_concurrency.value, Concurrency::Parallel);
    let asked = overrides(|overrides| overrides.permission_mode = Some(PermissionMode::Plan));
    let config = world.resolve("project", &asked, Interface::Native).unwrap();
    assert!(!config.leaves_mode_open());
}

#[test]
fn settings_and_dot_env_add_variables_that_are_not_set() {
    let world = World::new(&[
        (
            "project/.ah/settings.json",
            r#"{"env": {"FROM_SETTINGS": "1", "SET": "2", "AH_MODEL": "haiku"}}"#,
        ),
        (
            "project/.env",
            "OTHER=x\n# ANTHROPIC_API_KEY=no\nexport ANTHROPIC_API_KEY=\"sk-1\"\n",
        ),
    ])
    .with("SET", "already");
    let trusting = overrides(|overrides| overrides.trust = Some(Reason::Option));
    let config = world
        .resolve("project", &trusting, Interface::Native)
        .unwrap();
    let variables = ["FROM_SETTINGS", "SET", "ANTHROPIC_API_KEY", "OTHER"]
        .map(|name| config.environment.get(name));
    assert_eq!(variables, [Some("1"), Some("already"), Some("sk-1"), None]);
    let settings = Origin::File(world.path("project/.ah/settings.json"));
    assert_eq!(config.model.origin, settings);
}

#[test]
fn errors_name_the_file() {
    let world = World::new(&[("project/.ah/settings.json", "{\n  \"model\": 3\n}")]);
    let trusting = overrides(|overrides| overrides.trust = Some(Reason::Option));
    let error = world
        .resolve("project", &trusting, Interface::Native)
        .unwrap_err();
    let path = world.path("project/.ah/settings.json");
    assert_eq!(
        error.message,
        format!(
            "{}:2:12: invalid type: integer `3`, expected a string",
            path.display()
        )
    );
    let missing =
        overrides(|overrides| overrides.settings = Some(SettingsSource::File("none.json".into())));
    let error = World::new(&[])
        .resolve("project", &missing, Interface::Native)
        .unwrap_err();
    assert!(error.message.contains("none.json"), "{error}");
}

#[test]
fn servers_are_named_in_settings_and_their_keys_are_secrets() {
    let world = World::new(&[
        (
            ".ah/settings.json",
            r#"{"providers": {"gw": {"baseUrl": "http://user", "keyCommand": "pass gw"}, "mine": {"keyEnv": "MINE"}}}"#,
        ),
        (
            "project/.ah/settings.json",
            r#"{"providers": {"gw": {"baseUrl": "http://project", "keyCommand": "evil"}}}"#,
        ),
    ])
    .with("MINE", "secret");
    let resolve = |cwd: &str, trust: bool| {
        let options = overrides(|overrides| overrides.trust = trust.then_some(Reason::Option));
        world.resolve(cwd, &options, Interface::Native).unwrap()
    };
    let config = resolve("project", true);
    let server = |config: &Config| config.servers["gw"].value.clone();
    assert_eq!(server(&config).base_url.as_deref(), Some("http://project"));
    assert_eq!(server(&config).key_command.as_deref(), Some("evil"));
    let mut children = config.environment.for_children();
    assert!(children.all(|(name, _)| name != "MINE"));
    assert_eq!(config.environment.get("MINE"), Some("secret"));
    for (cwd, trust) in [("", true), ("project", false)] {
        let users = server(&resolve(cwd, trust));
        assert_eq!(users.key_command.as_deref(), Some("pass gw"), "{cwd}");
        assert_eq!(users.base_url.as_deref(), Some("http://user"), "{cwd}");
    }
    let options = overrides(|overrides| {
        overrides.settings = Some(inline_settings(
            r#"{"providers": {"gw": {"keyCommand": "typed"}}}"#,
        ));
    });
    let config = world
        .resolve("project", &options, Interface::Native)
        .unwrap();
    assert_eq!(server(&config).key_command.as_deref(), Some("typed"));
}

/// Every project setting with code, servers or permissions, and those that make a run safer.
const PROJECT: &str = r#"{
    "model": "script:theirs.json", "fallbackModel": "haiku", "temperature": 0.5,
    "providers": {"gw": {"baseUrl": "http://project"}}, "env": {"ANTHROPIC_BASE_URL": "http://project"},
    "permissions": {"allow": ["Bash"], "deny": ["Edit"], "defaultMode": "plan"},
    "trustedFolders": ["/"]
}"#;

#[test]
fn servers_of_subagents_are_open_unless_they_are_outside_of_the_sandbox() {
    let entry = r#"{command: npx, args: ["-y", "s"]}"#;
    let definition = format!(
        "---\nname: guest\ndescription: d\nmcpServers: [{{a: {entry}}}, {{b: {entry}}}, {{c: {entry}}}]\n---\nText."
    );
    let world = World::new(&[
        ("project/.ah/agents/guest.md", &definition),
        (
            ".ah/settings.json",
            r#"{"trustedFolders": ["~/project"], "sandbox": {"unconfinedServers": ["c", "a"]}}"#,
        ),
    ]);
    let config = world.resolve("project", &Overrides::default(), Interface::Native);
    let config = config.unwrap();
    let (agents, warnings) = extensions::agents(&config).unwrap();
    assert_eq!(warnings, [""; 0]);
    let open = extensions::open_agent_servers(&config, &agents);
    let names: Vec<_> = open.iter().map(|open| open.name.as_str()).collect();
    assert_eq!(names, ["guest/b"]);
}

#[test]
fn of_an_untrusted_project_only_what_is_safe_counts() {
    let world = World::new(&[
        ("project/.ah/settings.json", PROJECT),
        ("project/.env", "ANTHROPIC_API_KEY=theirs"),
        (
            "project/.ah/models.json",
            r#"{"aliases": {"opus": "theirs"}}"#,
        ),
    ]);
    insta::assert_snapshot!(world.show("project", &Overrides::default()), @r#"
        model "opus" (built in)
        fallbackModel ["haiku"] (~/project/.ah/settings.json)
        undoMegabytes 1024 (built in)
        toolConcurrency "auto" (built in)
        maxToolOutputBytes 67108864 (built in)
        temperature 0.5 (~/project/.ah/settings.json)
        permissions.defaultMode "plan" (~/project/.ah/settings.json)
        permissions.deny "Edit" (~/project/.ah/settings.json)
        "#);
    let config = world
        .resolve("project", &Overrides::default(), Interface::Native)
        .unwrap();
    insta::assert_snapshot!(config.trust.skipped().join("\n"), @"
        .ah/models.json
        .ah/settings.json (model, providers, permissions.allow, env, trustedFolders)
        .env (ANTHROPIC_API_KEY)
        ");
    assert!(config.environment.get("ANTHROPIC_BASE_URL").is_none());
    assert!(config.environment.get("ANTHROPIC_API_KEY").is_none());
    let alias = |config: &Config| config.catalog().unwrap().resolve("opus").to_owned();
    assert_ne!(alias(&config), "theirs");

    let trusting = overrides(|overrides| overrides.trust = Some(Reason::Option));
    insta::assert_snapshot!(world.show("project", &trusting), @r#"
        model "script:theirs.json" (~/project/.ah/settings.json)
        fallbackModel ["haiku"] (~/project/.ah/settings.json)
        providers "gw" (~/project/.ah/settings.json)
        undoMegabytes 1024 (built in)
        toolConcurrency "auto" (built in)
        maxToolOutputBytes 67108864 (built in)
        temperature 0.5 (~/project/.ah/settings.json)
        permissions.defaultMode "plan" (~/project/.ah/settings.json)
        permissions.allow "Bash" (~/project/.ah/settings.json)
        permissions.deny "Edit" (~/project/.ah/settings.json)
        "#);
    let config = world
        .resolve("project", &trusting, Interface::Native)
        .unwrap();
    assert_eq!(config.trust.skipped(), Vec::<String>::new());
    assert_eq!(
        config.environment.get("ANTHROPIC_BASE_URL"),
        Some("http://project")
    );
    assert_eq!(config.environment.get("ANTHROPIC_API_KEY"), Some("theirs"));
    assert_eq!(alias(&config), "theirs");
}

#[test]
fn sessions_and_own_settings_are_the_projects_as_it_is_trusted() {
    let world = World::new(&[
        ("project/sub/deep/file", ""),
        ("project/used/.ah/01ARZ3NDEKTSV4RRFFQ69G5FAV.db", ""),
        (".ah/01ARZ3NDEKTSV4RRFFQ69G5FAV.db", ""),
        ("plain/sub/file", ""),
    ]);
    let check = |expected: &[(&str, Interface, &str, &str)]| {
        for (cwd, interface, sessions, own) in expected {
            let config = world
                .resolve(cwd, &Overrides::default(), *interface)
                .unwrap();
            let folder = config.session_folder();
            assert_eq!(folder.path, world.path(sessions), "{cwd}");
            assert!(!folder.is_outside);
            let files = SettingsFiles::of(&config);
            let path = files.path(Destination::LocalSettings).unwrap();
            let name = path.parent().unwrap().file_name().unwrap();
            let name = name.to_string_lossy().split('@').next().unwrap().to_owned();
            assert_eq!(name, *own, "{cwd}");
        }
    };
    let native = Interface::Native;
    check(&[
        ("project", native, "project/.ah", "project"),
        ("project/sub/deep", native, "project/.ah", "project"),
        ("project/used", native, "project/used/.ah", "project"),
        ("plain", native, "plain/.ah", "plain"),
        ("plain/sub", native, "plain/sub/.ah", "sub"),
        // In the home directory all is the user's.
        ("", native, ".ah", ".ah"),
    ]);
    // A home directory that is a repository is no project.
    fs::create_dir(world.path(".git")).unwrap();
    check(&[
        ("plain", native, "plain/.ah", "plain"),
        ("plain/sub", native, "plain/.ah", "plain"),
        ("", native, ".ah", ".ah"),
    ]);
    let hosted = world.resolve("project/sub", &Overrides::default(), Interface::AgentSdk);
    let folder = hosted.unwrap().session_folder();
    assert_eq!(folder.path, world.path("project/sub/.ah"));
}

#[test]
fn an_untrusted_project_has_no_styles_and_its_links_lead_nowhere() {
    let style = "---\nname: x\n---\nDo as I say.";
    let world = World::new(&[
        ("key", "secret"),
        ("project/.ah/settings.json", r#"{"outputStyle": "x"}"#),
        ("project/.claude/output-styles/x.md", style),
        ("project/.ah/commands/own.md", "own"),
        ("project/real.md", "linked within"),
    ]);
    let commands = world.path("project/.ah/commands");
    for (target, name) in [("key", "k.md"), ("project/real.md", "within.md")] {
        std::os::unix::fs::symlink(world.path(target), commands.join(name)).unwrap();
    }
    let trusting = overrides(|overrides| overrides.trust = Some(Reason::Option));
    for (options, style, expected) in [
        (Overrides::default(), false, &["own", "within"][..]),
        (trusting, true, &["k", "own", "within"]),
    ] {
        let config = world
            .resolve("project", &options, Interface::Native)
            .unwrap();
        assert_eq!(extensions::output_style(&config).is_some(), style);
        let (commands, warnings) = extensions::commands(&config);
        let names = commands.iter().map(|command| command.name.as_str());
        let of_project = names.filter(|name| ["k", "own", "within"].contains(name));
        assert_eq!(of_project.collect::<Vec<_>>(), expected);
        assert_eq!(warnings.len(), 3 - expected.len(), "{warnings:?}");
    }
}

#[test]
fn an_untrusted_project_makes_the_mode_stricter_and_never_looser() {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, Plan, Sandboxed};
    for (user, project, interface, expected, is_skipped) in [
        (None, "plan", Interface::Native, Plan, false),
        (None, "default", Interface::Native, Default, false),
        (None, "acceptEdits", Interface::Native, Default, true),
        (
            None,
            "bypassPermissions",
            Interface::AgentSdk,
            Default,
            true,
        ),
        (None, "default", Interface::AgentSdk, Default, false),
        (Some("plan"), "acceptEdits", Interface::Native, Plan, true),
        (None, "sandboxed", Interface::Native, Default, true),
        (
            Some("sandboxed"),
            "acceptEdits",
            Interface::Native,
            Sandboxed,
            true,
        ),
        (Some("sandboxed"), "plan", Interface::Native, Plan, false),
        (
            Some("acceptEdits"),
            "plan",
            Interface::AgentSdk,
            Plan,
            false,
        ),
        (
            Some("bypassPermissions"),
            "acceptEdits",
            Interface::AgentSdk,
            AcceptEdits,
            false,
        ),
    ] {
        let mode = |mode: &str| format!(r#"{{"permissions": {{"defaultMode": "{mode}"}}}}"#);
        let theirs = mode(project);
        let mine = user.map_or("{}".to_owned(), mode);
        let world = World::new(&[
            ("project/.ah/settings.json", &theirs),
            (".ah/settings.json", &mine),
        ])
        .with("IS_SANDBOX", "1");
        let config = world
            .resolve("project", &Overrides::default(), interface)
            .unwrap();
        let case = format!("{user:?} {project} {interface:?}");
        assert_eq!(config.permission_mode.value, expected, "{case}");
        assert_eq!(!config.trust.skipped().is_empty(), is_skipped, "{case}");
        let typed = overrides(|overrides| overrides.permission_mode = Some(BypassPermissions));
        let config = world.resolve("project", &typed, interface).unwrap();
        assert_eq!(config.permission_mode.value, BypassPermissions, "{case}");
    }
}

#[test]
fn a_folder_that_the_user_names_is_trusted_with_all_below() {
    for (named, is_trusted) in [
        ("~/project", true),
        ("~", true),
        ("~/other", false),
        ("project", false),
    ] {
        let mine = json!({"trustedFolders": [named]}).to_string();
        let world = World::new(&[(".ah/settings.json", &mine)]);
        for cwd in ["project", "project/sub"] {
            let config = world
                .resolve(cwd, &Overrides::default(), Interface::Native)
                .unwrap();
            assert_eq!(config.trust.is_given(), is_trusted, "{named} {cwd}");
        }
    }
    let hosted = overrides(|overrides| overrides.trust = Some(Reason::Host));
    let config = World::new(&[])
        .resolve("project", &hosted, Interface::AgentSdk)
        .unwrap();
    assert_eq!(config.trust.reason(), Some(Reason::Host));
}

#[test]
fn layers_are_sought_from_the_user_to_the_nearest_folder_of_the_project() {
    let world = World::new(&[]);
    for folder in [
        ".agents",
        ".claude",
        ".ah",
        "project/.ah",
        "project/.claude",
        "project/.agents",
        "project/sub/.claude",
        "project/sub/.ah",
    ] {
        fs::create_dir_all(world.path(folder)).unwrap();
    }
    let show = |cwd: &str, sources: Option<&str>| {
        let options = overrides(|overrides| {
            overrides.setting_sources = sources.map(|list| Sources::parse(Some(list)).unwrap());
        });
        let config = world.resolve(cwd, &options, Interface::Native).unwrap();
        let folders = config.layer_folders().into_iter();
        let home = world.path("");
        let lines = folders.map(|folder| {
            let path = folder.path.strip_prefix(&home).unwrap();
            format!("{}: {}", folder.layer, path.display())
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(show("project/sub", None), @"
    user (other agent): .agents
    user (other agent): .claude
    user: .ah
    project (other agent): project/.agents
    project (other agent): project/.claude
    project (other agent): project/sub/.claude
    project: project/.ah
    project: project/sub/.ah
    ");
    insta::assert_snapshot!(show("", None), @"
    user (other agent): .agents
    user (other agent): .claude
    user: .ah
    ");
    insta::assert_snapshot!(show("project", Some("project")), @"
    project (other agent): project/.agents
    project (other agent): project/.claude
    project: project/.ah
    ");
    assert_eq!(show("project", Some("")), "");
}
