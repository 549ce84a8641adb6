mod leaving;
mod reach;
mod reading;

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

/// Returns a command of plain words, as a parser would return it.
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
        looks: false,
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

/// Six modes and each kind of access.
#[test]
fn modes_decide_calls_without_a_rule() {
    let path = |path: &str| PathBuf::from(path);
    let files = SimpleCommand {
        effect: Effect::Files,
        operands: vec![path("/w/p/q")],
        ..simple("mkdir q")
    };
    let files = Access::Command(CommandLine {
        line: "mkdir q".into(),
        harmless: false,
        looks: false,
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
        ("in sandbox", Access::Confined { promised: false }),
    ];
    let mut table = String::new();
    for (name, access) in &accesses {
        table.push_str(&format!("{name:16}"));
        for mode in PermissionMode::ALL {
            let permissions = Permissions {
                confined: true,
                ..permissions(mode)
            };
            let decision = permissions.decide(&call("x"), std::slice::from_ref(access));
            table.push_str(&format!(" {:5}", word(&decision)));
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    // default, sandboxed, acceptEdits, plan, dontAsk, delegate, bypassPermissions
    let expected = "\
read             allow allow allow allow allow deny  allow
write            ask   allow allow deny  deny  deny  allow
write outside    ask   allow ask   deny  deny  deny  allow
write protected  ask   allow ask   deny  deny  deny  allow
files            ask   allow allow deny  deny  deny  allow
command          ask   allow ask   deny  deny  deny  allow
opaque           ask   allow ask   deny  deny  deny  allow
host             ask   ask   ask   deny  deny  deny  allow
ask              ask   ask   ask   ask   deny  deny  ask
promised         ask   ask   ask   ask   deny  deny  allow
unknown          ask   ask   ask   deny  deny  deny  allow
in sandbox       ask   allow ask   deny  deny  deny  allow
";
    assert_eq!(table, expected);
    let delegate = permissions(PermissionMode::Delegate);
    for name in ["Agent", "Task", "task"] {
        let decision = delegate.decide(&call(name), &[Access::Unknown]);
        assert_eq!(decision, Decision::Allow, "{name}");
    }
}

/// Deny comes before ask, ask before allow; no mode overrides a deny.
#[test]
fn deny_comes_before_ask_and_ask_before_allow() {
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

/// A plan can be submitted only in mode `plan`; the approval changes the mode.
#[test]
fn plans_need_mode_plan() {
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
fn an_approved_plan_restores_the_mode_before_it() {
    let set = |mode| PermissionUpdate::SetMode {
        mode,
        destination: Destination::Session,
    };
    let mut held = permissions(PermissionMode::AcceptEdits);
    held.agree(&Interaction::ToPlan);
    assert_eq!(held.mode, PermissionMode::Plan);
    held.agree(&Interaction::Plan(None));
    assert_eq!(held.mode, PermissionMode::AcceptEdits);
    // A mode set with the approval takes precedence.
    held.apply(&set(PermissionMode::Plan));
    held.apply(&set(PermissionMode::Plan));
    held.apply(&set(PermissionMode::DontAsk));
    held.agree(&Interaction::Plan(None));
    assert_eq!(held.mode, PermissionMode::DontAsk);
    // A session that began in mode `plan` continues in mode `default`.
    let mut began = permissions(PermissionMode::Plan);
    began.agree(&Interaction::Plan(None));
    assert_eq!(began.mode, PermissionMode::Default);
}

#[test]
fn rules_for_commands_match_exactly_what_they_name() {
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
fn a_deny_rule_is_not_evaded_by_another_spelling() {
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

/// A command with options that are not known may do anything: rules allow it if they reach behind those.
#[test]
fn rules_reach_behind_options_that_are_not_known() {
    let unknown = SimpleCommand {
        unknown_options: true,
        reach: "tool --made-up".len(),
        ..simple("tool --made-up x")
    };
    let accesses = [Access::Command(CommandLine {
        line: unknown.text.clone(),
        harmless: false,
        looks: false,
        commands: Some(vec![unknown]),
    })];
    for (rule, expected) in [
        ("Bash", "allow"),
        ("Bash(tool --made-up x)", "allow"),
        ("Bash(tool --made-up:*)", "allow"),
        ("Bash(tool:*)", "ask"),
        ("Bash(tool *x)", "ask"),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::Default)
        };
        let decision = permissions.decide(&call("bash"), &accesses);
        assert_eq!(word(&decision), expected, "{rule}");
    }
    for (rule, expected) in [
        ("Bash(tool:*)", "deny"),
        ("Bash(rm:*)", "ask"),
        ("Read(.env)", "ask"),
        ("Edit(.env)", "ask"),
        ("WebFetch", "allow"),
    ] {
        let permissions = Permissions {
            deny: rules(&[rule]),
            ..permissions(PermissionMode::BypassPermissions)
        };
        let decision = permissions.decide(&call("bash"), &accesses);
        assert_eq!(word(&decision), expected, "deny {rule}");
    }
}

#[test]
fn rules_for_files_hosts_and_servers() {
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

/// A rule may name one kind of a tool. To allow a call, that argument must match, not another one.
#[test]
fn rules_match_subagents_and_skills() {
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

/// If a symbolic link leads elsewhere, deny and ask rules match both names, allow rules only the file.
#[test]
fn deny_rules_also_match_the_path_of_a_link() {
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

/// A saved rule that asks again is worse than none: each suggestion is tested by repeating the call.
#[test]
fn a_suggestion_avoids_further_questions() {
    let mut inner = simple("timeout 5 make all");
    inner.inner = vec![simple("make all")];
    inner.reach = "timeout 5 make".len();
    let wrapped = vec![Access::Command(CommandLine {
        line: inner.text.clone(),
        harmless: false,
        looks: false,
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

#[test]
fn updates_change_the_rules_of_the_session() {
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

/// An update changes only rules stored in the settings that it names.
#[test]
fn rules_are_replaced_and_removed_only_where_they_are_stored() {
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
fn invalid_rules_are_rejected() {
    for text in ["", "Bash(", "(x)", "a b", "Bash)"] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}

#[test]
fn a_tool_is_known_by_all_its_names() {
    for (one, other, is_same) in [
        ("Bash", "bash", true),
        ("BashOutput", "TaskOutput", true),
        ("KillShell", "TaskStop", true),
        ("KillBash", "KillShell", true),
        ("ListMcpResourcesTool", "ListMcpResources", true),
        ("ReadMcpResourceTool", "ReadMcpResource", true),
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

#[test]
fn a_plan_leads_back_to_the_mode_before_it_and_a_mode_needs_what_it_stands_on() {
    for (confined, before, expected) in [
        (true, PermissionMode::Sandboxed, PermissionMode::Sandboxed),
        (false, PermissionMode::Sandboxed, PermissionMode::Default),
        (
            true,
            PermissionMode::AcceptEdits,
            PermissionMode::AcceptEdits,
        ),
    ] {
        let mut permissions = Permissions {
            confined,
            ..Permissions::default()
        };
        permissions.change_mode(before);
        assert_eq!(permissions.mode, expected);
        permissions.change_mode(PermissionMode::Plan);
        let plan = Interaction::Plan(None);
        let call = ToolUse {
            id: "c".into(),
            name: "exit_plan_mode".to_owned(),
            input: serde_json::json!({}).into(),
        };
        let Decision::Ask(inquiry) = permissions.decide(&call, &[Access::Ask(plan.clone())]) else {
            panic!("a plan is asked about");
        };
        // What the person is told.
        assert_eq!(inquiry.after_plan, expected);
        permissions.agree(&plan);
        assert_eq!(permissions.mode, expected);
    }
}
