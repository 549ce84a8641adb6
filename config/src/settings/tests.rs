use std::num::NonZero;

use ah_agent::hooks::{HookAction, HookCommand, Matcher};
use ah_agent::tool_search::ToolSearchMode;
use ah_conversation::Effort;
use ah_provider::caching::CacheTtl;
use ah_provider::held::ConversationState;
use ah_provider::named_server::Api;
use ah_provider::openai::Quirks;

use super::conversation::{Channel, EditorMode, Kind, Notify, StatusLine};
use super::work::{Phase, PhaseSettings};
use super::*;
use crate::concurrency::Concurrency;
use crate::profile::Profile;
use crate::tier::SandboxTier;

#[test]
fn half_of_a_character_is_read_and_places_stay() {
    let text = "{\n  \"model\": \"a\\ud83d\", \"outputStyle\": \"\\udc80\",\n  \"effort\": 7}";
    let error = read("s", text, false).unwrap_err();
    assert!(error.to_string().starts_with("s:3:13: "), "{error}");
    let (settings, warnings) = read("s", &text.replace('7', "\"high\""), false).unwrap();
    assert_eq!(settings.model.as_deref(), Some("a\u{fffd}"));
    assert_eq!(warnings, Vec::<String>::new());
    let servers = r#"{"mcpServers": {"s": {"command": "x", "args": ["\ud83d"]}}}"#;
    let (servers, warnings) = read_mcp("m", servers).unwrap();
    assert_eq!((servers.len(), warnings.len()), (1, 0));
}

#[test]
fn known_keys_are_read() {
    let text = r#"{
        "$schema": "x",
        "model": "haiku",
        "fallbackModel": "opus",
        "compactionModel": "sonnet", "profile": "small", "outputStyle": "Concise",
        "autoCompactWindow": 100000, "undoMegabytes": 50,
        "maxConversationMessages": 40,
        "toolSearch": "on", "codeMode": true,
        "toolConcurrency": "serial",
        "maxToolResultChars": 2000, "maxToolOutputBytes": 1000,
        "effort": "xhigh", "maxThinkingTokens": 4000, "maxOutputTokens": 9000,
        "cacheTtl": "1h", "conversationState": "off", "serverCompaction": true, "fastMode": true, "keepWarm": 3, "firstEventTimeout": 900, "nextEventTimeout": 60,
        "temperature": 0.5, "topP": 0.9, "stop": ["END"],
        "permissions": {
            "allow": ["Bash(git log:*)"], "ask": ["WebFetch"], "deny": ["Edit"], "defaultMode": "acceptEdits",
            "additionalDirectories": ["../lib"]
        },
        "providers": {"gw": {
            "api": "openai-responses", "baseUrl": "http://h", "keyEnv": "GW", "keyCommand": "pass gw",
            "keyHeader": "x-key", "headers": {"a": "b"}, "extraBody": {"c": 1}, "quirks": {"noUsage": true}
        }},
        "mcpServers": {
            "s": {"command": "npx", "args": ["-y"], "more": 1},
            "bad": {"command": 1}
        },
        "sandbox": {
            "enabled": true, "tier": "landlock", "failIfUnavailable": true, "autoAllowBashIfSandboxed": false,
            "allowHosts": ["a.example:443"], "allowHttp": ["a.example:80"], "unveil": ["/d:rw"], "env": ["A"],
            "protect": ["o"], "unconfinedServers": ["s"],
            "network": {"allowedDomains": ["*.b.example"], "deniedDomains": ["c.example"], "strictAllowlist": true},
            "filesystem": {"denyRead": ["k"]}
        },
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "c", "timeout": 2, "sandbox": true}]}]},
        "disableAllHooks": false, "apiKeyHelper": "key",
        "env": {"A": "b"},
        "trustedFolders": ["~/src"],
        "web": {"reader": "haiku", "privateHosts": ["wiki.lan"], "search": "brave"},
        "work": {"maxPrs": 2, "phases": {"do": {"timeout": 600}}},
        "until": "make test", "seal": ["src/**"], "maxChecks": 3, "checkTimeout": 1.5,
        "editorMode": "vim",
        "titleModel": "haiku",
        "statusLine": {"type": "command", "command": "line", "padding": 1, "refreshInterval": 5, "more": 1},
        "notify": {"channel": "osc9", "command": "tell", "after": 3}
    }"#;
    let server = NamedServer {
        api: Some(Api::OpenAiResponses),
        base_url: Some("http://h".to_owned()),
        key_env: Some("GW".to_owned()),
        key_command: Some("pass gw".to_owned()),
        key_header: Some("x-key".to_owned()),
        headers: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        extra_body: serde_json::Map::from_iter([("c".to_owned(), 1.into())]),
        quirks: Some(Quirks {
            no_usage: true,
            ..Quirks::default()
        }),
    };
    let (settings, warnings) = read("s.json", text, false).unwrap();
    assert_eq!(
        warnings,
        ["s.json:24:32: invalid type: integer `1`, expected a string; the MCP server is left out"]
    );
    let mcp_server = ServerEntry {
        command: Some("npx".to_owned()),
        args: vec!["-y".to_owned()],
        ..ServerEntry::default()
    };
    let expected = Settings {
        model: Some("haiku".to_owned()),
        fallback_models: Some(vec!["opus".to_owned()]),
        compaction_model: Some("sonnet".to_owned()),
        tools: ToolSettings {
            profile: Some(Profile::Small),
            undo_megabytes: Some(50),
            code_mode: Some(true),
            tool_search: Some(ToolSearchMode::On),
            tool_concurrency: Some(Concurrency::Serial),
            max_tool_result_chars: Some(2000),
            max_tool_output_bytes: Some(1000),
        },
        requests: RequestSettings {
            output_style: Some("Concise".to_owned()),
            auto_compact_window: Some(100_000),
            max_conversation_messages: Some(40),
            effort: Some(Effort::ExtraHigh),
            max_thinking_tokens: Some(4_000),
            max_output_tokens: NonZero::new(9_000),
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: Some(vec!["END".to_owned()]),
        },
        exchange: ExchangeSettings {
            cache_ttl: Some(CacheTtl::Hour),
            conversation_state: Some(ConversationState::Off),
            server_compaction: Some(true),
            fast_mode: Some(true),
            keep_warm: Some(3),
            first_event_timeout: NonZero::new(900),
            next_event_timeout: NonZero::new(60),
        },
        permissions: PermissionSettings {
            allow: vec!["Bash(git log:*)".parse().unwrap()],
            ask: vec!["WebFetch".parse().unwrap()],
            deny: vec!["Edit".parse().unwrap()],
            additional_directories: vec!["../lib".into()],
            default_mode: Some(PermissionMode::AcceptEdits),
            forbids_bypass: false,
        },
        sandbox: SandboxSettings {
            enabled: Some(true),
            tier: Some(SandboxTier::Landlock),
            fail_if_unavailable: Some(true),
            auto_allow: Some(false),
            allow_hosts: vec!["a.example:443".parse().unwrap()],
            allow_http: vec!["a.example:80".parse().unwrap()],
            allow_domains: vec!["*.b.example".parse().unwrap()],
            deny_domains: vec!["c.example".parse().unwrap()],
            is_strict: Some(true),
            unveil: vec!["/d:rw".parse().unwrap()],
            hide: vec!["k".into()],
            env: vec!["A".to_owned()],
            protect: vec!["o".into()],
            unconfined_servers: vec!["s".to_owned()],
        },
        providers: BTreeMap::from([("gw".to_owned(), server)]),
        mcp_servers: BTreeMap::from([("s".to_owned(), mcp_server)]),
        hooks: vec![HookSetting {
            event: HookEvent::PreToolUse,
            matcher: Matcher::new(Some("Bash")).unwrap(),
            condition: None,
            action: HookAction::Command(HookCommand {
                command: "c".to_owned(),
                is_confined: true,
                ..HookCommand::default()
            }),
            timeout: Some(2.0),
            on_failure: None,
            is_own: false,
        }],
        disable_all_hooks: Some(false),
        api_key_helper: Some("key".to_owned()),
        env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        trusted_folders: vec!["~/src".into()],
        web: WebSettings {
            reader: Some("haiku".to_owned()),
            private_hosts: vec!["wiki.lan".to_owned()],
            search: Some("brave".to_owned()),
        },
        work: Some(WorkSettings {
            max_prs: Some(2),
            phases: BTreeMap::from([(
                Phase::Do,
                PhaseSettings {
                    timeout: Some(600),
                    ..PhaseSettings::default()
                },
            )]),
            ..WorkSettings::default()
        }),
        check: CheckSettings {
            until: Some("make test".to_owned()),
            seal: Some(vec!["src/**".to_owned()]),
            max_checks: NonZero::new(3),
            check_timeout: Some(1.5.try_into().unwrap()),
        },
        conversation: ConversationSettings {
            editor_mode: Some(EditorMode::Vi),
            title_model: Some("haiku".to_owned()),
            status_line: Some(StatusLine {
                kind: Kind::Command,
                command: "line".to_owned(),
                padding: 1,
                refresh_interval: Some(5),
            }),
            notify: Some(Notify {
                channel: Channel::Osc9,
                command: Some("tell".to_owned()),
                after: Some(3),
            }),
        },
    };
    assert_eq!(settings, expected);
    assert_eq!(read("s.json", " \n", false).unwrap().0, Settings::default());
}

#[test]
fn errors_say_where() {
    for (text, expected) in [
        (
            "{\"model\": 3}",
            "s.json:1:11: invalid type: integer `3`, expected a string",
        ),
        (
            "{\n  \"env\": {\n    \"A\": 1}}",
            "s.json:3:10: invalid type: integer `1`, expected a string",
        ),
        (
            "{\n  \"permissions\": {\"allow\": \"Bash\"}}",
            "s.json:2:28: invalid type: string \"Bash\", expected a sequence",
        ),
        (
            "{\"permissions\": {\"allow\": [\"Bash\",\n \"Bash(\"]}}",
            "s.json:2:2: `Bash(` is not a rule: expected `Tool` or `Tool(content)`",
        ),
        (
            "{\"toolConcurrency\": \"often\"}",
            "s.json:1:21: unknown variant `often`, expected one of `auto`, `serial`, `parallel`",
        ),
        (
            "{\"maxConversationMessages\": -1}",
            "s.json:1:29: invalid value: integer `-1`, expected usize",
        ),
        (
            "{\"providers\": {\"gw\": {\n  \"baseURL\": \"x\"}}}",
            "s.json:2:11: unknown field `baseURL`, expected one of `api`, `baseUrl`, `keyEnv`, `keyCommand`, \
             `keyHeader`, `headers`, `extraBody`, `quirks`",
        ),
        (
            "{\"checkTimeout\": 0}",
            "s.json:1:18: 0 is not a time limit in seconds",
        ),
        ("[1]", "s.json:1:1: invalid type: sequence, expected a map"),
        ("{\"model\": \"x\",}", "s.json:1:15: key must be a string"),
        ("{\"model\"", "s.json:1:8: EOF while parsing an object"),
    ] {
        let error = read("s.json", text, false).expect_err(text);
        assert_eq!(error.message, expected, "{text}");
    }
}

#[test]
fn unknown_keys_are_warned_about_unless_they_are_another_agents() {
    let text = "{\n \"theme\": 1,\n \"modle\": \"x\",\n \"permissions\": {\n  \"aks\": []}}";
    for (is_foreign, expected) in [
        (
            false,
            &[
                "s.json:2: unknown setting `theme`",
                "s.json:3: unknown setting `modle`",
                "s.json:5: unknown setting `permissions.aks`",
            ] as &[_],
        ),
        (
            true,
            &[
                "s.json:3: unknown setting `modle`",
                "s.json:5: unknown setting `permissions.aks`",
            ],
        ),
    ] {
        assert_eq!(read("s.json", text, is_foreign).unwrap().1, expected);
    }
}

/// The published schema; of the groups it has what they declare. With `AH_WRITE_DOCS=1` that is written.
fn schema() -> serde_json::Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.schema.json");
    let text = std::fs::read_to_string(path).unwrap();
    let mut schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let groups = [
        ToolSettings::schemas(),
        RequestSettings::schemas(),
        ExchangeSettings::schemas(),
        CheckSettings::schemas(),
        ConversationSettings::schemas(),
    ];
    for (key, declared) in groups.concat() {
        schema["properties"][key] = declared;
    }
    let declared = format!("{schema:#}\n");
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        std::fs::write(path, declared).unwrap();
    } else {
        assert!(
            text == declared,
            "set AH_WRITE_DOCS=1 to bring {path} up to date"
        );
    }
    schema
}

#[test]
fn a_key_that_is_there_twice_loses_no_rule() {
    let text = "{\n \"model\": \"a\",\n \"permissions\": {\"deny\": [\"Edit\"], \"deny\": [\"Write\"]},\n \"model\": \"b\",\n \
         \"permissions\": {\"deny\": [\"Bash\"]}}";
    let (settings, warnings) = read("s.json", text, false).unwrap();
    let denied = settings.permissions.deny.iter().map(Rule::to_string);
    assert_eq!(denied.collect::<Vec<_>>(), ["Edit", "Write", "Bash"]);
    assert_eq!(settings.model.as_deref(), Some("b"));
    let both = "appears twice: rules and hooks of both apply, otherwise the last value";
    assert_eq!(
        warnings,
        [
            format!("s.json:4: `model` {both}"),
            format!("s.json:5: `permissions` {both}"),
            format!("s.json:3: `deny` {both}"),
        ]
    );
}

#[test]
fn the_schema_names_the_same_keys() {
    let schema = schema();
    let properties = schema["properties"].as_object().unwrap();
    // Every key of the schema with a value of a wrong type is an error; every unknown key is a warning.
    for (key, value) in properties.iter().filter(|(key, _)| *key != "$schema") {
        let wrong = if value["type"] == "array" {
            "{}"
        } else {
            "[[]]"
        };
        let text = format!("{{\"{key}\": {wrong}}}");
        assert!(read("s.json", &text, false).is_err(), "{key} is no setting");
    }
    let permissions = properties["permissions"]["properties"].as_object().unwrap();
    for key in permissions.keys() {
        let text = format!("{{\"permissions\": {{\"{key}\": 7}}}}");
        assert!(
            read("s.json", &text, false).is_err(),
            "permissions.{key} is no setting"
        );
    }
    let sandbox = properties["sandbox"]["properties"].as_object().unwrap();
    for key in sandbox.keys() {
        let text = format!("{{\"sandbox\": {{\"{key}\": 7}}}}");
        assert!(
            read("s.json", &text, false).is_err(),
            "sandbox.{key} is no setting"
        );
    }
    assert_eq!(
        (properties.len(), permissions.len(), sandbox.len()),
        (46, 6, 12),
        "a setting is missing in the schema"
    );
}
