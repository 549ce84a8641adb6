//! The shell line that a permission rule is held against.

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

/// Any line has an answer. Before it stands a command that the shell runs before it has read the rest: so where that
/// command is denied, or is not what is allowed, no rest may hide it.
pub fn run(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    let asked = decide(PermissionMode::Default, &["Bash(echo:*)"], &[], &line);
    let again = decide(PermissionMode::Default, &["Bash(echo:*)"], &[], &line);
    assert_eq!(
        asked, again,
        "the same line is decided in two ways: {line:?}"
    );

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
        rules.collect::<Result<_, _>>().expect("these are rules")
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
