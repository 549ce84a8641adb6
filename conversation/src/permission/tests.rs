use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::Input;

fn call(name: &str) -> ToolUse {
    ToolUse {
        id: "t".into(),
        name: name.into(),
        input: Input::default(),
    }
}

/// A command of plain words, as a parser would give it.
fn simple(text: &str) -> SimpleCommand {
    SimpleCommand {
        text: text.into(),
        words: text.split(' ').map(|word| Some(word.to_owned())).collect(),
        proposal: text.into(),
        ..SimpleCommand::default()
    }
}

fn line(commands: &[&str]) -> Vec<Access> {
    vec![Access::Command(CommandLine {
        line: commands.join(" && "),
        harmless: false,
        commands: Some(commands.iter().map(|text| simple(text)).collect()),
    })]
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .map(|text| text.parse().expect("a rule"))
        .collect()
}

fn places() -> PatternRoots {
    PatternRoots {
        cwd: "/w/p".into(),
        project: "/w/p".into(),
        home: Some("/home/u".into()),
    }
}

fn permissions(mode: PermissionMode) -> Permissions {
    Permissions {
        mode,
        places: places(),
        ..Permissions::default()
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny(_) => "deny",
        Decision::Ask(_) => "ask",
    }
}

/// Port 06 a, h, i, j and row M1: six modes, and each kind of access.
#[test]
fn port_06_a_modes_decide_what_no_rule_names() {
    let path = |path: &str| PathBuf::from(path);
    let files = SimpleCommand {
        effect: Effect::Files,
        operands: vec![path("/w/p/q")],
        ..simple("mkdir q")
    };
    let files = Access::Command(CommandLine {
        line: "mkdir q".into(),
        harmless: false,
        commands: Some(vec![files]),
    });
    let accesses = [
        ("read", Access::Read(path("/etc/x"))),
        ("write", Access::Write(path("/w/p/a"))),
        ("write outside", Access::Write(path("/w/other"))),
        ("write protected", Access::Write(path("/w/p/.git/config"))),
        ("files", files),
        ("command", line(&["make"]).remove(0)),
        ("opaque", Access::Command(CommandLine::opaque("[[ x ]]"))),
        ("host", Access::Host("example.com".into())),
        ("ask", Access::Ask(Interaction::Choices(Vec::new()))),
        ("promised", Access::Promised),
        ("unknown", Access::Unknown),
    ];
    let mut table = String::new();
    for (name, access) in &accesses {
        table.push_str(&format!("{name:16}"));
        for mode in PermissionMode::ALL {
            let decision = permissions(mode).decide(&call("x"), std::slice::from_ref(access));
            table.push_str(&format!(" {:5}", word(&decision)));
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    // default, acceptEdits, plan, dontAsk, delegate, bypassPermissions
    let expected = "\
read             allow allow allow allow deny  allow
write            ask   allow deny  deny  deny  allow
write outside    ask   ask   deny  deny  deny  allow
write protected  ask   ask   deny  deny  deny  allow
files            ask   allow deny  deny  deny  allow
command          ask   ask   deny  deny  deny  allow
opaque           ask   ask   deny  deny  deny  allow
host             ask   ask   deny  deny  deny  allow
ask              ask   ask   ask   deny  deny  ask
promised         ask   ask   ask   deny  deny  allow
unknown          ask   ask   deny  deny  deny  allow
";
    assert_eq!(table, expected);
    let delegate = permissions(PermissionMode::Delegate);
    for name in ["Agent", "Task", "task"] {
        let decision = delegate.decide(&call(name), &[Access::Unknown]);
        assert_eq!(decision, Decision::Allow, "{name}");
    }
}

/// Port 06 b and row M2: deny, then ask, then allow; no mode is above a deny.
#[test]
fn port_06_b_deny_comes_before_ask_and_ask_before_allow() {
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
        let permissions = Permissions {
            allow: rules(&["Bash"]),
            ask: rules(&["Bash(git push:*)"]),
            deny: rules(&["Bash(rm:*)", "WebFetch"]),
            ..permissions(mode)
        };
        for (commands, expected) in [
            (&["ls"][..], "allow"),
            (&["git push -f"], "ask"),
            (&["rm x"], "deny"),
            (&["git push", "rm x"], "deny"),
            (&["ls", "git push"], "ask"),
        ] {
            let decision = permissions.decide(&call("bash"), &line(commands));
            assert_eq!(word(&decision), expected, "{commands:?} in {mode:?}");
        }
        let opaque = [Access::Command(CommandLine::opaque(
            "case x in *) rm x;; esac",
        ))];
        assert_eq!(word(&permissions.decide(&call("bash"), &opaque)), "ask");
        let host = [Access::Host("example.com".into())];
        assert_eq!(word(&permissions.decide(&call("web_fetch"), &host)), "deny");
    }
}

/// Who asks for a plan to be approved must be planning; what was agreed to changes the mode.
#[test]
fn plans_are_for_mode_plan() {
    let plan = Interaction::Plan(None);
    for (mode, asking, expected) in [
        (PermissionMode::Plan, &plan, "ask"),
        (PermissionMode::Default, &plan, "deny"),
        (PermissionMode::BypassPermissions, &plan, "deny"),
        (PermissionMode::Plan, &Interaction::ToPlan, "deny"),
        (PermissionMode::Default, &Interaction::ToPlan, "ask"),
        (PermissionMode::DontAsk, &Interaction::ToPlan, "deny"),
    ] {
        let decision = permissions(mode).decide(&call("x"), &[Access::Ask(asking.clone())]);
        assert_eq!(word(&decision), expected, "{asking:?} in {mode:?}");
    }
    let denied = Permissions {
        deny: rules(&["AskUserQuestion"]),
        ..permissions(PermissionMode::Default)
    };
    let choices = [Access::Ask(Interaction::Choices(Vec::new()))];
    let decision = denied.decide(&call("ask_user_question"), &choices);
    assert_eq!(word(&decision), "deny");
}

#[test]
fn an_approved_plan_gives_back_the_mode_before_it() {
    let set = |mode| PermissionUpdate::SetMode {
        mode,
        destination: Destination::Session,
    };
    let mut held = permissions(PermissionMode::AcceptEdits);
    held.agree(&Interaction::ToPlan);
    assert_eq!(held.mode, PermissionMode::Plan);
    held.agree(&Interaction::Plan(None));
    assert_eq!(held.mode, PermissionMode::AcceptEdits);
    // A mode that came with the approval stands.
    held.apply(&set(PermissionMode::Plan));
    held.apply(&set(PermissionMode::Plan));
    held.apply(&set(PermissionMode::DontAsk));
    held.agree(&Interaction::Plan(None));
    assert_eq!(held.mode, PermissionMode::DontAsk);
    // A run that began with planning goes on with asking.
    let mut began = permissions(PermissionMode::Plan);
    began.agree(&Interaction::Plan(None));
    assert_eq!(began.mode, PermissionMode::Default);
}

/// Port 06 d: commands.
#[test]
fn port_06_d_rules_for_commands_match_what_they_say_and_no_more() {
    for (rule, commands, matches) in [
        ("Bash", &["anything at all"][..], true),
        ("Bash(*)", &["anything at all"], true),
        ("bash(git status)", &["git status"], true),
        ("Bash(git status)", &["git status -s"], false),
        ("Bash(git:*)", &["git push --force"], true),
        ("Bash(git:*)", &["git"], true),
        ("Bash(git:*)", &["gitk"], false),
        ("Bash(git *)", &["git log"], true),
        ("Bash(git *)", &["git"], true),
        ("Bash(git:*)", &["git status", "rm x"], false),
        ("Bash(npm run *)", &["npm run test"], true),
        ("Bash(npm run test*)", &["npm run test-all"], true),
        ("Bash(npm run test*)", &["npm run build"], false),
        (r"Bash(rm \*.o)", &["rm *.o"], true),
        (r"Bash(rm \*.o)", &["rm a.o"], false),
        ("Read", &["ls"], false),
        ("BashOutput", &["ls"], false),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::Default)
        };
        let decision = permissions.decide(&call("bash"), &line(commands));
        assert_eq!(
            decision == Decision::Allow,
            matches,
            "{rule} for {commands:?}"
        );
    }
    let both = Permissions {
        allow: rules(&["Bash(git:*)", "Bash(npm test)"]),
        ..permissions(PermissionMode::Default)
    };
    let decision = both.decide(&call("bash"), &line(&["git pull", "npm test"]));
    assert_eq!(decision, Decision::Allow, "each command has its rule");
}

#[test]
fn a_rule_that_forbids_is_not_evaded_by_another_spelling() {
    for (rule, text, matches) in [
        ("Bash(rm:*)", "/bin/rm x", true),
        ("Bash(rm:*)", "rmdir x", false),
        ("Bash(git push:*)", "git -C /x push", true),
        (
            "Bash(git push:*)",
            "git --no-pager -c a=b push origin",
            true,
        ),
        ("Bash(git push:*)", "git log push", false),
        ("Bash(rm -rf:*)", "rm -fr x", true),
        ("Bash(rm -rf:*)", "rm -r -f x", true),
        ("Bash(rm -rf:*)", "rm -r x", false),
        ("Bash(curl *)", "/usr/bin/curl http://x", true),
        ("Bash(*secret*)", "cat a/secret/b", true),
    ] {
        let permissions = Permissions {
            deny: rules(&[rule]),
            ..permissions(PermissionMode::BypassPermissions)
        };
        let decision = permissions.decide(&call("Bash"), &line(&[text]));
        assert_eq!(word(&decision) == "deny", matches, "{rule} for {text}");
    }
}

/// Port 06 d: paths, hosts, servers, and names of both kinds.
#[test]
fn port_06_d_rules_for_files_hosts_and_servers() {
    let read = |path: &str| vec![Access::Read(path.into())];
    let write = |path: &str| vec![Access::Write(path.into())];
    let host = |name: &str| vec![Access::Host(name.into())];
    for (rule, name, accesses, matches) in [
        ("Read(.env)", "read", read("/w/p/a/.env"), true),
        ("Read(.env)", "Grep", read("/w/p/a/.env"), true),
        ("Read(./secrets/**)", "Read", read("/w/p/secrets/a"), true),
        ("Read(//etc/**)", "Read", read("/etc/passwd"), true),
        ("Read(~/.ssh/**)", "Read", read("/home/u/.ssh/id"), true),
        ("Read(.env)", "write", write("/w/p/.env"), false),
        ("Edit(src/**)", "Write", write("/w/p/src/a"), true),
        ("Edit(src/**)", "Bash", write("/w/p/src/a"), true),
        ("Edit(src/**)", "write", write("/w/p/a"), false),
        ("FileWrite", "write", write("/w/p/a"), true),
        (
            "WebFetch(domain:example.com)",
            "webfetch",
            host("Example.com:443"),
            true,
        ),
        (
            "WebFetch(domain:example.com)",
            "WebFetch",
            host("example.com.evil.org"),
            false,
        ),
        (
            "WebFetch(domain:*.example.com)",
            "WebFetch",
            host("a.example.com"),
            true,
        ),
        (
            "mcp__github",
            "mcp__github__push",
            vec![Access::Unknown],
            true,
        ),
        (
            "mcp__github__*",
            "mcp__github__push",
            vec![Access::Unknown],
            true,
        ),
        (
            "mcp__github__push",
            "mcp__github__push",
            vec![Access::Unknown],
            true,
        ),
        (
            "mcp__github__push",
            "mcp__github__pull",
            vec![Access::Unknown],
            false,
        ),
        (
            "mcp__git",
            "mcp__github__push",
            vec![Access::Unknown],
            false,
        ),
    ] {
        let permissions = Permissions {
            deny: rules(&[rule]),
            ..permissions(PermissionMode::BypassPermissions)
        };
        let decision = permissions.decide(&call(name), &accesses);
        assert_eq!(
            word(&decision) == "deny",
            matches,
            "{rule} for {name} {accesses:?}"
        );
    }
    let task = Permissions {
        deny: rules(&["Task(Explore)"]),
        ..permissions(PermissionMode::BypassPermissions)
    };
    for (kind, expected) in [("Explore", "deny"), ("Plan", "allow")] {
        let call = ToolUse {
            input: json!({"subagent_type": kind}).into(),
            ..call("Agent")
        };
        assert_eq!(word(&task.decide(&call, &[Access::Unknown])), expected);
    }
}

/// A rule may name one kind of a tool's work. What allows it must be sure that it is this one and not another argument.
#[test]
fn rules_name_subagents_and_skills() {
    for (rule, name, input, expected) in [
        (
            "Task(Explore)",
            "Agent",
            json!({"subagent_type": "Explore"}),
            "allow",
        ),
        (
            "Agent(Explore)",
            "Task",
            json!({"subagent_type": "Explore"}),
            "allow",
        ),
        (
            "Agent(Explore)",
            "Agent",
            json!({"subagent_type": "Plan"}),
            "ask",
        ),
        (
            "Agent(Explore)",
            "Agent",
            json!({"prompt": "Explore"}),
            "ask",
        ),
        (
            "Agent(*)",
            "Agent",
            json!({"subagent_type": "Plan"}),
            "allow",
        ),
        (
            "Agent(Ex*)",
            "Agent",
            json!({"subagent_type": "Explore"}),
            "ask",
        ),
        ("Skill(pdf)", "Skill", json!({"skill": "pdf"}), "allow"),
        (
            "Skill(pdf)",
            "Skill",
            json!({"skill": "pdf", "args": "x"}),
            "allow",
        ),
        ("Skill(pdf)", "Skill", json!({"skill": "docx"}), "ask"),
        ("mcp__s__t(pdf)", "mcp__s__t", json!({"name": "pdf"}), "ask"),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::Default)
        };
        let call = ToolUse {
            input: input.clone().into(),
            ..call(name)
        };
        let decision = permissions.decide(&call, &[Access::Unknown]);
        assert_eq!(word(&decision), expected, "{rule} for {name} {input}");
    }
    let denied = Permissions {
        deny: rules(&["Skill(pdf)"]),
        ..permissions(PermissionMode::BypassPermissions)
    };
    let call = ToolUse {
        input: json!({"skill": "pdf"}).into(),
        ..call("Skill")
    };
    assert_eq!(word(&denied.decide(&call, &[])), "deny");
}

/// Where a symbolic link leads elsewhere, both names count for what forbids and asks, and only the file for what allows.
#[test]
fn rules_that_forbid_see_the_name_of_a_link_too() {
    let through = |access: Access| vec![access, Access::Named("/w/p/link/key".into())];
    let read = || through(Access::Read("/data/key".into()));
    let write = || through(Access::Write("/data/key".into()));
    for (rule, name, accesses, expected) in [
        ("Read(link/**)", "Read", read(), "deny"),
        ("Read(//data/**)", "Read", read(), "deny"),
        ("Read(other/**)", "Read", read(), "allow"),
        ("Edit(link/**)", "Write", write(), "deny"),
        ("Edit(key)", "Bash", write(), "deny"),
    ] {
        let permissions = Permissions {
            deny: rules(&[rule]),
            ..permissions(PermissionMode::BypassPermissions)
        };
        let decision = permissions.decide(&call(name), &accesses);
        assert_eq!(word(&decision), expected, "{rule} for {name}");
    }
    for rule in ["Edit(link/**)", "Edit(key)"] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::AcceptEdits)
        };
        assert_eq!(
            word(&permissions.decide(&call("Edit"), &write())),
            "ask",
            "{rule}"
        );
    }
}

#[test]
fn a_rule_without_a_path_does_not_open_protected_files() {
    for (rule, path, expected) in [
        ("Edit", "/w/p/a", "allow"),
        ("Edit", "/w/p/.git/hooks/pre-commit", "ask"),
        ("Edit", "/home/u/.bashrc", "ask"),
        ("Edit", "/w/p/.AH/settings.json", "ask"),
        ("Edit(.claude/**)", "/w/p/.claude/settings.json", "allow"),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::AcceptEdits)
        };
        let decision = permissions.decide(&call("Edit"), &[Access::Write(path.into())]);
        assert_eq!(word(&decision), expected, "{rule} for {path}");
    }
}

/// A rule that was saved and asks again is worse than none: each suggestion is tried by repeating the call.
#[test]
fn a_suggestion_keeps_the_question_from_coming_again() {
    let mut inner = simple("timeout 5 make all");
    inner.inner = vec![simple("make all")];
    inner.reach = "timeout 5 make".len();
    let wrapped = vec![Access::Command(CommandLine {
        line: inner.text.clone(),
        harmless: false,
        commands: Some(vec![inner]),
    })];
    for (name, accesses) in [
        ("bash", line(&["make x"])),
        ("bash", line(&["make x", "make *.c"])),
        (
            "Bash",
            vec![Access::Command(CommandLine::opaque(
                "case $x in (*) make;; esac",
            ))],
        ),
        ("Bash", wrapped),
        ("write", vec![Access::Write("/w/p/a".into())]),
        ("write", vec![Access::Write("/elsewhere/a".into())]),
        ("write", vec![Access::Write("/w/p/.git/config".into())]),
        ("WebFetch", vec![Access::Host("example.com".into())]),
        ("mcp__s__t", vec![Access::Unknown]),
        (
            "Bash",
            [line(&["make x"]), vec![Access::Write("/w/p/log".into())]].concat(),
        ),
    ] {
        let mut permissions = permissions(PermissionMode::Default);
        let Decision::Ask(inquiry) = permissions.decide(&call(name), &accesses) else {
            panic!("{name} {accesses:?} is asked");
        };
        for update in &inquiry.suggestions {
            let text = serde_json::to_string(update).expect("JSON");
            permissions.apply(&serde_json::from_str(&text).expect("the same"));
        }
        let decision = permissions.decide(&call(name), &accesses);
        assert_eq!(
            decision,
            Decision::Allow,
            "{name} {accesses:?}: {inquiry:?}"
        );
    }
}

/// Port 06 c, as far as it is about the session.
#[test]
fn port_06_c_updates_change_the_rules_of_the_session() {
    let mut permissions = permissions(PermissionMode::Default);
    let mut apply = |value: serde_json::Value| {
        permissions.apply(&serde_json::from_value(value).expect("an update"));
        let shown = |rules: &[Rule]| {
            let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
            rules.join(" ")
        };
        format!(
            "{} | {} | {} | {:?} | {}",
            shown(&permissions.allow),
            shown(&permissions.ask),
            shown(&permissions.deny),
            permissions.directories,
            permissions.mode.as_str()
        )
    };
    let rule = |content| json!([{"toolName": "Bash", "ruleContent": content}]);
    let update = |kind, content| json!({"type": kind, "rules": rule(content), "behavior": "allow", "destination": "session"});
    for (value, expected) in [
        (update("addRules", "a"), "Bash(a) |  |  | [] | default"),
        (update("addRules", "a"), "Bash(a) |  |  | [] | default"),
        (
            update("addRules", "b"),
            "Bash(a) Bash(b) |  |  | [] | default",
        ),
        (update("removeRules", "a"), "Bash(b) |  |  | [] | default"),
        (update("replaceRules", "c"), "Bash(c) |  |  | [] | default"),
        (
            json!({"type": "addRules", "rules": [{"toolName": "Edit"}], "behavior": "deny", "destination": "userSettings"}),
            "Bash(c) |  | Edit | [] | default",
        ),
        (
            json!({"type": "addDirectories", "directories": ["/d"], "destination": "session"}),
            "Bash(c) |  | Edit | [\"/d\"] | default",
        ),
        (
            json!({"type": "removeDirectories", "directories": ["/d"], "destination": "session"}),
            "Bash(c) |  | Edit | [] | default",
        ),
        (
            json!({"type": "setMode", "mode": "plan", "destination": "session"}),
            "Bash(c) |  | Edit | [] | plan",
        ),
        (
            json!({"type": "setMode", "mode": "bypassPermissions", "destination": "session"}),
            "Bash(c) |  | Edit | [] | plan",
        ),
    ] {
        assert_eq!(apply(value.clone()), expected, "{value}");
    }
}

/// An answer reaches the rules of the place that it names, and no others.
#[test]
fn rules_are_replaced_and_removed_only_where_they_are_kept() {
    let mut permissions = Permissions {
        deny: rules(&["Bash(rm:*)"]),
        ..permissions(PermissionMode::Default)
    };
    let settled: Rule = "Edit".parse().expect("a rule");
    permissions
        .deny
        .push(settled.kept_in(Destination::LocalSettings));
    let mut apply = |kind: &str, rules: serde_json::Value, destination: &str| {
        let update =
            json!({"type": kind, "rules": rules, "behavior": "deny", "destination": destination});
        permissions.apply(&serde_json::from_value(update).expect("an update"));
        let rules: Vec<_> = permissions.deny.iter().map(ToString::to_string).collect();
        rules.join(" ")
    };
    let bash = || json!([{"toolName": "Bash", "ruleContent": "rm:*"}]);
    let edit = || json!([{"toolName": "Edit"}]);
    for (kind, rules, destination, expected) in [
        ("replaceRules", json!([]), "session", "Bash(rm:*) Edit"),
        ("removeRules", bash(), "session", "Bash(rm:*) Edit"),
        ("removeRules", edit(), "session", "Bash(rm:*) Edit"),
        ("removeRules", edit(), "localSettings", "Bash(rm:*)"),
        ("replaceRules", edit(), "session", "Bash(rm:*) Edit"),
        ("replaceRules", json!([]), "session", "Bash(rm:*)"),
    ] {
        let case = format!("{kind} {rules} {destination}");
        assert_eq!(apply(kind, rules, destination), expected, "{case}");
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    for text in ["", "Bash(", "(x)", "a b", "Bash)"] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}

#[test]
fn a_tool_is_known_by_the_names_of_any_time() {
    for (one, other, is_same) in [
        ("Bash", "bash", true),
        ("BashOutput", "TaskOutput", true),
        ("KillShell", "TaskStop", true),
        ("KillBash", "KillShell", true),
        ("todo", "TodoWrite", true),
        ("Task", "Agent", true),
        ("TaskOutput", "TaskStop", false),
        ("Bash", "BashOutput", false),
        ("mcp__a__task", "mcp__a__agent", false),
    ] {
        assert_eq!(is_same_tool(one, other), is_same, "{one} {other}");
    }
    let rule: Rule = "KillBash".parse().expect("a rule");
    assert!(rule.covers_tool("TaskStop") && !rule.covers_tool("Bash"));
}
