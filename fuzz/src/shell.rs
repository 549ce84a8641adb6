//! Shell commands under permission rules.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use ah_conversation::{
    Decision, Environment, Interface, PermissionMode, Permissions, Tool, ToolUse,
};
use ah_tools::{Bash, Shell, Workspace};
use serde_json::json;

static BASH: LazyLock<Bash> = LazyLock::new(|| {
    let workspace = Workspace::new(Path::new("/"), None, &[]);
    let shell = Shell::new(&Environment::default());
    Bash::new(Arc::new(workspace), shell, Interface::default())
});

/// Any line gets a decision, always the same. A command in front of it, which the shell runs before it reads the rest,
/// cannot be hidden by the rest: if it is denied, or not allowed, so is the whole.
pub fn run(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    let asked = decide(PermissionMode::Default, &["Bash(echo:*)"], &[], &line);
    let again = decide(PermissionMode::Default, &["Bash(echo:*)"], &[], &line);
    assert_eq!(asked, again, "two decisions for the same line: {line:?}");

    let line = format!("rm x\n{line}");
    for (mode, allow, deny) in [
        (PermissionMode::Default, ["Bash(echo:*)"], vec![]),
        (PermissionMode::Default, ["Bash"], vec!["Bash(rm:*)"]),
        (
            PermissionMode::BypassPermissions,
            ["Bash"],
            vec!["Bash(rm x)"],
        ),
    ] {
        let decision = decide(mode, &allow, &deny, &line);
        assert_ne!(
            decision,
            Decision::Allow,
            "{line:?} runs `rm`, denied {deny:?}"
        );
    }
}

fn decide(mode: PermissionMode, allow: &[&str], deny: &[&str], line: &str) -> Decision {
    let rules = |texts: &[&str]| {
        let rules = texts.iter().map(|text| text.parse());
        rules.collect::<Result<_, _>>().expect("parsing the rules")
    };
    let permissions = Permissions {
        mode,
        allow: rules(allow),
        deny: rules(deny),
        ..Permissions::default()
    };
    let call = ToolUse {
        id: "t".into(),
        name: BASH.spec().name.clone(),
        input: json!({"command": line}).into(),
    };
    let accesses = BASH.access(&call.input);
    permissions.decide(&call, &accesses)
}
