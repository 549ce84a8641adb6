use serde_json::json;

use super::*;

fn file(text: &str) -> Result<Agent, FrontMatterError> {
    Agent::parse(text, Path::new("/a/x.md"), Layer::Project)
}

fn json(definition: &Value) -> Agent {
    Agent::from_json("x", definition).expect("a definition")
}

/// Both ways to write tools, and the fields that a file needs.
#[test]
fn all_fields_of_a_definition_are_parsed() {
    let agent = file(
        "---\nname: Reviewer\ndescription: Reads: all of it\ntools: Read, Grep, Task(a, b), Bash(git log:*)\n\
         disallowedTools: [Write]\nmodel: haiku\npermissionMode: plan\nmaxTurns: 3\nskills: one, two\nmemory: project\n\
         background: true\neffort: high\ncolor: red\nmcpServers:\n  - docs\n  - web: {type: http}\n---\n\nYou review.\n",
    );
    let agent = agent.expect("a definition");
    let actual = [
        format!("{}: {}. {}", agent.name, agent.description, agent.prompt),
        format!(
            "{:?} but {:?}, {:?}",
            agent.tools,
            agent.disallowed_tools,
            agent
                .servers
                .as_ref()
                .map(|servers| servers.iter().map(|it| &*it.name).collect::<Vec<_>>())
        ),
        format!(
            "{:?} {:?} {:?}",
            agent.model, agent.permission_mode, agent.max_turns
        ),
        format!("{:?} {:?}", agent.skills, agent.memory),
        format!("{:?} {:?}", agent.background, agent.effort),
    ];
    insta::assert_snapshot!(actual.join("\n"), @r#"
    Reviewer: Reads: all of it. You review.
    Some(["Read", "Grep", "Task(a, b)", "Bash(git log:*)"]) but ["Write"], Some(["docs", "web"])
    Some("haiku") Some(Plan) Some(3)
    ["one", "two"] Some(Project)
    true Some(High)
    "#);
    for (text, expected) in [
        (
            "---\ndescription: d\n---\nx",
            "1: a subagent needs a `name`",
        ),
        (
            "---\nname: n\n---\nx",
            "1: a subagent needs a `description`",
        ),
        ("no front matter", "1: a subagent needs a `name`"),
        ("---\nname: n\ndescription: d\neffort: 3\n---\nx", "read"),
    ] {
        let actual = file(text).map_or_else(|error| error.to_string(), |_| "read".to_owned());
        assert_eq!(actual, expected, "{text}");
    }
    let error = Agent::from_json("x", &json!({"description": "d", "permissionMode": "wild"}));
    assert!(error.is_err_and(|error| error.contains("wild")));
}

/// Servers of the session, a selection of their tools, and own servers.
#[test]
fn servers_are_given_by_name_or_configuration() {
    let agent = json(&json!({"description": "d", "mcpServers": [
        "docs", {"serverName": "web", "tools": ["get"]}, {"own": {"command": "serve"}},
    ]}));
    for (tool, has) in [
        ("mcp__docs__read", true),
        ("mcp__web__get", true),
        ("mcp__web__put", false),
        ("mcp__own__do", true),
        ("mcp__other__do", false),
        ("Read", true),
    ] {
        assert_eq!(agent.has_tool(tool), has, "{tool}");
    }
    let own = agent.servers.iter().flatten();
    let own: Vec<_> = own.filter_map(|server| server.own.as_ref()).collect();
    assert_eq!(own, [&json!({"command": "serve"})]);
}

/// Hooks are written as in the settings; unknown events and types are errors.
#[test]
fn hooks_are_parsed_with_their_events() {
    let with = |hooks: serde_json::Value| {
        Agent::from_json("x", &json!({"description": "d", "hooks": hooks}))
    };
    let entry =
        json!({"matcher": "Bash", "hooks": [{"type": "command", "command": "true", "timeout": 2}]});
    let agent = with(json!({"PreToolUse": [entry]})).expect("a definition");
    let [hook] = &agent.hooks[..] else {
        panic!("one hook, not {:?}", agent.hooks);
    };
    assert_eq!(
        (
            hook.event.as_str(),
            hook.matcher.as_str(),
            &*hook.shown(),
            hook.timeout
        ),
        ("PreToolUse", "Bash", "true", Some(2.0))
    );
    for (hooks, error) in [
        (json!({"Never": []}), "unknown hook event `Never`"),
        (json!({"Stop": 1}), "`hooks`, Stop: invalid type"),
        (
            json!({"Stop": [{"hooks": [{"type": "prompt"}]}]}),
            "unknown hook type `prompt`",
        ),
    ] {
        let actual = with(hooks).expect_err("an error");
        assert!(actual.contains(error), "{actual}");
    }
}

/// Unset tools are inherited, lists are rules, and only an agent with the tool can start others.
#[test]
fn tools_are_inherited_listed_and_excluded() {
    for (definition, has, lacks) in [
        (json!({}), vec!["Bash", "read", "mcp__a__b"], vec![]),
        (json!({"tools": ["*"]}), vec!["Bash", "read"], vec![]),
        (
            json!({"tools": ["Bash", "Read"]}),
            vec!["bash", "Read"],
            vec!["Write", "mcp__a__b"],
        ),
        (
            json!({"disallowedTools": ["Bash", "mcp__a"]}),
            vec!["Read", "mcp__b__c"],
            vec!["bash", "mcp__a__b"],
        ),
        (
            json!({"disallowedTools": ["mcp__*"]}),
            vec!["Read"],
            vec!["mcp__a__b"],
        ),
        (
            json!({"mcpServers": ["b"]}),
            vec!["Read", "mcp__b__c"],
            vec!["mcp__a__b"],
        ),
        (
            json!({"tools": ["Bash"], "memory": "user"}),
            vec!["Bash", "read", "Write", "Edit"],
            vec!["Grep"],
        ),
    ] {
        let mut object = definition.clone();
        object["description"] = json!("d");
        let agent = json(&object);
        for name in has {
            assert!(agent.has_tool(name), "{definition} has {name}");
        }
        for name in lacks {
            assert!(!agent.has_tool(name), "{definition} lacks {name}");
        }
    }
}

#[test]
fn only_an_agent_with_the_tool_starts_others() {
    let all: Option<Vec<String>> = Some(Vec::new());
    let two = Some(vec!["a".to_owned(), "b".to_owned()]);
    for (definition, expected) in [
        (json!({}), None),
        (json!({"tools": ["Bash"]}), None),
        (json!({"tools": ["Bash", "Task"]}), all.clone()),
        (json!({"tools": ["Agent"]}), all),
        (json!({"tools": "Bash, Task(a, b)"}), two),
        (
            json!({"tools": ["Task"], "disallowedTools": ["Agent"]}),
            None,
        ),
    ] {
        let mut object = definition.clone();
        object["description"] = json!("d");
        assert_eq!(json(&object).may_start(), expected, "{definition}");
    }
}

#[test]
fn a_later_definition_replaces_an_earlier_one() {
    let mut agents = Agents::default();
    for (name, description) in [("Explore", "first"), ("explore", "second"), ("other", "o")] {
        let definition = json!({"description": description});
        agents.add(Agent::from_json(name, &definition).expect("a definition"));
    }
    let actual: Vec<_> = agents
        .iter()
        .map(|agent| format!("{} {}", agent.name, agent.description))
        .collect();
    assert_eq!(actual, ["explore second", "other o"]);
    assert!(agents.get("EXPLORE").is_some() && agents.get("nobody").is_none());
}
