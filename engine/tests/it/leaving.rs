//! Every tool of a session in the sandbox, in every mode: no call that may act outside it runs unless a rule, or a mode
//! that asks about nothing, allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use ah_agent::skills::Skills;
use ah_config::overlay::Overlay;
use ah_config::trust::Reason;
use ah_config::{Config, Overrides};
use ah_conversation::{
    CheckInForce, Decision, Environment, Input, Interface, PermissionMode, Permissions,
    Servers as _, Tool, ToolUse,
};
use ah_engine::assemble::recorded_check::RecordedTo;
use ah_engine::assemble::{mcp::mcp_options, subagents, tools};
use ah_engine::confinement::{Confined, SandboxStatus};
use ah_mcp::RemoteServers;
use ah_sandbox::{Allowlist, Confinement, Proxy, Sandbox};
use ah_store::SessionStore;
use ah_tools::{Search, Web};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where a call has effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effects {
    /// Within the sandbox, or none.
    Inside,
    /// It asks the user, whatever the mode.
    Person,
    /// Perhaps outside the sandbox.
    Outside,
}

use Effects::{Inside, Outside, Person};

/// Every tool of a session with a person, with an input that its access depends on. The work of a subagent consists of
/// calls that are decided one by one.
fn cases() -> Vec<(&'static str, Value, Effects)> {
    vec![
        ("read", json!({"path": "/etc/passwd"}), Inside),
        ("write", json!({"path": "a", "content": "x"}), Inside),
        (
            "edit",
            json!({"path": "a", "old_string": "x", "new_string": "y"}),
            Inside,
        ),
        (
            "bash",
            json!({"command": "curl https://example.com"}),
            Inside,
        ),
        (
            "bash",
            json!({"command": "((", "description": "broken"}),
            Inside,
        ),
        ("grep", json!({"pattern": "x", "path": "/"}), Inside),
        ("glob", json!({"pattern": "/**"}), Inside),
        ("todo", json!({"todos": []}), Inside),
        ("result", json!({"tool_use_id": "x"}), Inside),
        ("skill", json!({"name": "x"}), Inside),
        ("agent", json!({"prompt": "x", "description": "x"}), Inside),
        ("probe", json!({}), Inside),
        ("ask_user_question", json!({"questions": []}), Person),
        ("enter_plan_mode", json!({}), Person),
        ("exit_plan_mode", json!({"plan": "x"}), Person),
        (
            "web_fetch",
            json!({"url": "https://example.com/", "prompt": "x"}),
            Outside,
        ),
        ("web_search", json!({"query": "x"}), Outside),
    ]
}

/// Servers, with the effects of their tools. They never answer, so their tools are those of a server that starts.
fn servers() -> (Value, Vec<(&'static str, Effects)>) {
    let servers = json!({
        "http": {"url": "http://127.0.0.1:1/mcp"},
        "sse": {"type": "sse", "url": "http://127.0.0.1:1/mcp"},
        "host": {"type": "sdk", "name": "host"},
        "free": {"command": "/bin/sleep", "args": ["1"]},
        "plain": {"command": "/bin/sleep", "args": ["1"]},
        "installed": {"command": "npx", "args": ["-y", "tool"]},
        "named": {"command": "npx", "args": ["-y", "tool", "https://api.example.com"]},
        "listed": {"command": "/bin/sleep", "args": ["1"], "allowHosts": ["api.example.com:443"]},
    });
    let effects = vec![
        ("mcp__http__act", Outside),
        ("mcp__sse__act", Outside),
        ("mcp__host__act", Outside),
        ("mcp__free__act", Outside),
        ("mcp__plain__act", Inside),
        ("mcp__installed__act", Inside),
        ("mcp__named__act", Outside),
        ("mcp__listed__act", Outside),
    ];
    (servers, effects)
}

/// A project with a Lua tool, and the user's settings.
fn config(folder: &TempDir) -> Config {
    let (home, project) = (folder.path().join("home"), folder.path().join("project"));
    fs::create_dir_all(home.join(".ah")).unwrap();
    fs::create_dir_all(project.join(".ah/tools")).unwrap();
    let lua = r#"return { name = "probe", description = "Tries.", input_schema = {}, execute = function() return "x" end }"#;
    fs::write(project.join(".ah/tools/probe.lua"), lua).unwrap();
    let settings = json!({"mcpServers": servers().0, "sandbox": {"unconfinedServers": ["free"]}});
    fs::write(home.join(".ah/settings.json"), settings.to_string()).unwrap();
    let variables = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("HOME", home.display().to_string()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let overrides = Overrides {
        trust: Some(Reason::Option),
        ..Overrides::default()
    };
    Config::resolve(
        overrides,
        Interface::Native,
        Environment::new(variables, project),
        &Overlay::default(),
    )
    .unwrap()
}

/// The status of a session whose commands are confined. Nothing runs in it.
fn inside(config: &Config) -> SandboxStatus {
    let confinement = Confinement::new(config.project_root.clone(), config.environment.home());
    let proxy = Proxy::new(Allowlist::default());
    SandboxStatus::Inside(Confined {
        sandbox: Arc::new(Sandbox::new(confinement, proxy, "/proc/self/exe".into())),
        variables: Vec::new(),
        fallback: None,
    })
}

/// All tools: those of the session by name, and those of servers.
async fn all(config: &Config, status: &SandboxStatus) -> BTreeMap<String, Arc<dyn Tool>> {
    let skills = Arc::new(Skills::default());
    let warn = ah_engine::warn::no_warnings();
    let sources = tools::Sources {
        sandbox: status,
        recorded_to: &RecordedTo::default(),
        store: Arc::new(SessionStore::in_memory(&std::env::temp_dir()).unwrap()),
        skills: &skills,
        active: None,
        has_person: true,
        web: Web {
            search: Some(Search::Searxng("https://searx.example/search".to_owned())),
            ..Web::default()
        },
        check: CheckInForce::default(),
        subagents: subagents(
            &skills,
            config,
            status,
            None,
            (&warn, None),
            &mut Vec::new(),
        )
        .unwrap(),
    };
    let (layered, warnings) = tools::layered(sources, config).await;
    assert_eq!(warnings, Vec::<String>::new());
    let named = |tool: &Arc<dyn Tool>| (tool.spec().name.clone(), tool.clone());
    layered.iter().map(|known| named(&known.tool)).collect()
}

#[tokio::test]
async fn no_tool_leaves_the_sandbox_unasked_in_any_mode() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder);
    let status = inside(&config);
    let tools = all(&config, &status).await;
    let known: BTreeSet<_> = cases()
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    let found: BTreeSet<_> = tools.keys().cloned().collect();
    // A tool without a skill to use is left out.
    let missing: Vec<_> = known.difference(&found).collect();
    assert!(missing.iter().all(|name| *name == "skill"), "{missing:?}");
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "a new tool needs a case: {new:?}");
    let (configured, errors) = config.mcp_servers();
    assert_eq!(errors, Vec::<String>::new());
    let servers = RemoteServers::start(configured, mcp_options(&config, &status));
    let of_servers = self::servers().1.into_iter().map(|(name, effects)| {
        let tool = servers.find(name).unwrap();
        (name, tool, json!({}), effects)
    });
    let own = cases().into_iter().filter_map(|(name, input, effects)| {
        Some((name, tools.get(name)?.clone(), input, effects))
    });
    for (name, tool, input, effects) in own.chain(of_servers) {
        let input: Input = serde_json::from_value(input).unwrap();
        let accesses = tool.access(&input);
        let call = ToolUse {
            id: "x".into(),
            name: name.to_owned(),
            input,
        };
        for (mode, confined, has_rule) in modes() {
            let permissions = Permissions {
                mode,
                confined,
                allow: if has_rule {
                    vec![name.parse().unwrap()]
                } else {
                    Vec::new()
                },
                ..config.permissions()
            };
            let decision = permissions.decide(&call, &accesses);
            let is_allowed = decision == Decision::Allow;
            let is_free = has_rule || mode == PermissionMode::BypassPermissions;
            let what = format!("{name} in {mode:?}, confined: {confined}, rule: {has_rule}");
            match effects {
                Person => assert!(!is_allowed, "{what}"),
                Outside => assert!(!is_allowed || is_free, "{what}"),
                // It asks about nothing inside.
                Inside if confined && mode == PermissionMode::Sandboxed => {
                    assert!(is_allowed, "{what}: {decision:?}");
                }
                Inside => {}
            }
        }
    }
}

/// Every mode, with commands confined or not, with a rule for the tool or without.
fn modes() -> impl Iterator<Item = (PermissionMode, bool, bool)> {
    let both = [false, true];
    PermissionMode::ALL
        .into_iter()
        .flat_map(move |mode| both.map(|confined| (mode, confined)))
        .flat_map(move |(mode, confined)| both.map(|rule| (mode, confined, rule)))
}
